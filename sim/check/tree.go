package check

// maxTree is an array of values with two operations in O(log n): add to a
// prefix, and the largest value of a prefix. Each node holds what was added to
// all of its range (extra) and the largest value in it, extra included.
type maxTree struct {
	size  int
	most  []wide
	extra []wide
}

func newMaxTree(values []wide) *maxTree {
	size := 1
	for size < len(values) {
		size *= 2
	}
	t := &maxTree{size: size, most: make([]wide, 2*size), extra: make([]wide, 2*size)}
	for i := range size {
		// The padding is smaller than any value that can occur.
		t.most[size+i] = wide{hi: -1 << 62}
		if i < len(values) {
			t.most[size+i] = values[i]
		}
	}
	for i := size - 1; i >= 1; i-- {
		t.most[i] = larger(t.most[2*i], t.most[2*i+1])
	}
	return t
}

// add adds amount to the first n values.
func (t *maxTree) add(n int, amount wide) { t.addTo(1, 0, t.size, n, amount) }

func (t *maxTree) addTo(node, from, to, n int, amount wide) {
	if n <= from {
		return
	}
	if to <= n {
		t.most[node] = t.most[node].plus(amount)
		t.extra[node] = t.extra[node].plus(amount)
		return
	}
	mid := (from + to) / 2
	t.addTo(2*node, from, mid, n, amount)
	t.addTo(2*node+1, mid, to, n, amount)
	t.most[node] = larger(t.most[2*node], t.most[2*node+1]).plus(t.extra[node])
}

// max returns the largest of the first n values, n > 0.
func (t *maxTree) max(n int) wide { return t.maxOf(1, 0, t.size, n) }

func (t *maxTree) maxOf(node, from, to, n int) wide {
	if to <= n {
		return t.most[node]
	}
	mid := (from + to) / 2
	most := t.maxOf(2*node, from, mid, min(n, mid))
	if n > mid {
		most = larger(most, t.maxOf(2*node+1, mid, to, n))
	}
	return most.plus(t.extra[node])
}

func larger(a, b wide) wide {
	if a.less(b) {
		return b
	}
	return a
}
