package model

// known is a set of keys in the order in which they were found, each with where
// it was found from. Most lookups find what is there already, so a slot holds a
// part of the hash beside the index, and few keys are read in vain.
type known struct {
	keys   []key
	parent []uint32
	slots  []slot
}

// slot is free when next, one more than an index into the keys, is 0.
type slot struct{ tag, next uint32 }

func newKnown() *known { return &known{slots: make([]slot, 1<<10)} }

// add returns whether the key is new.
func (n *known) add(k key, parent uint32) bool {
	if 2*len(n.keys) >= len(n.slots) {
		n.grow()
	}
	h, mask := k.hash(), uint64(len(n.slots)-1)
	tag := uint32(h >> 32)
	for at := h & mask; ; at = (at + 1) & mask {
		switch s := n.slots[at]; {
		case s.next == 0:
			n.keys, n.parent = append(n.keys, k), append(n.parent, parent)
			n.slots[at] = slot{tag, uint32(len(n.keys))}
			return true
		case s.tag == tag && n.keys[s.next-1] == k:
			return false
		}
	}
}

// grow doubles the table.
func (n *known) grow() {
	n.slots = make([]slot, 2*len(n.slots))
	mask := uint64(len(n.slots) - 1)
	for i, k := range n.keys {
		h := k.hash()
		at := h & mask
		for n.slots[at].next != 0 {
			at = (at + 1) & mask
		}
		n.slots[at] = slot{uint32(h >> 32), uint32(i + 1)}
	}
}

// hash spreads the bits of a key over all bits of a word.
func (k key) hash() uint64 {
	h := (k[0] ^ k[1]>>29 ^ k[1]<<35) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32 ^ k[1]) * 0xd6e8feb86659fd93
	return h ^ h>>32
}
