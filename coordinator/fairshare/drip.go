package fairshare

// drip hands out the last units one at a time: each goes to the claimant that
// has least for its weight afterwards. A heap keeps them in that order.
func drip(got []int64, total int64, claims []Claim) {
	if total <= 0 {
		return
	}
	var few [16]int
	h := heap{got: got, claims: claims, order: few[:0]}
	for i, c := range claims {
		if got[i] < c.want() {
			h.order = append(h.order, i)
		}
	}
	for i := len(h.order)/2 - 1; i >= 0; i-- {
		h.sink(i)
	}
	for ; total > 0 && len(h.order) > 0; total-- {
		first := h.order[0]
		got[first]++
		if got[first] >= claims[first].want() {
			last := len(h.order) - 1
			h.order[0] = h.order[last]
			h.order = h.order[:last]
		}
		h.sink(0)
	}
}

type heap struct {
	got    []int64
	claims []Claim
	order  []int // indexes of claims, the next to get a unit first
}

// before reports whether claim a gets the next unit rather than b.
func (h *heap) before(a, b int) bool {
	x := level{uint64(h.got[a]) + 1, h.claims[a].weight()}
	y := level{uint64(h.got[b]) + 1, h.claims[b].weight()}
	switch c := x.compare(y); {
	case c != 0:
		return c < 0
	case h.claims[a].Rank != h.claims[b].Rank:
		return h.claims[a].Rank > h.claims[b].Rank
	}
	return a < b
}

func (h *heap) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.order) {
			return
		}
		if right := child + 1; right < len(h.order) && h.before(h.order[right], h.order[child]) {
			child = right
		}
		if !h.before(h.order[child], h.order[i]) {
			return
		}
		h.order[i], h.order[child] = h.order[child], h.order[i]
		i = child
	}
}
