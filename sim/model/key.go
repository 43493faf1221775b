package model

// key is a state packed into two words: one region each, and the rest in what
// they leave free. A breadth-first exploration is as large as its memory allows,
// so a state must be small and a plain comparable value.
type key [2]uint64

const sideBits = 57

// packer writes and reads fields of a few bits, in the same order.
type packer struct {
	word uint64
	at   uint
}

func (p *packer) put(v int8, width uint) {
	p.word |= uint64(v) & (1<<width - 1) << p.at
	p.at += width
}

func (p *packer) get(width uint) int8 {
	v := int8(p.word >> p.at & (1<<width - 1))
	p.at += width
	return v
}

func (p *packer) putBool(b bool) {
	if b {
		p.word |= 1 << p.at
	}
	p.at++
}

func (p *packer) getBool() bool { return p.get(1) == 1 }

func (p *packer) putCapacity(c Capacity) {
	p.put(c.Rate, 2)
	p.put(c.Burst, 2)
}

func (p *packer) getCapacity() Capacity { return Capacity{p.get(2), p.get(2)} }

func (r *side) pack() uint64 {
	var p packer
	p.putBool(r.open)
	p.putBool(r.gone)
	p.putCapacity(r.lease)
	p.putBool(r.flying)
	p.putCapacity(r.flight.lease)
	p.put(r.flight.credit, 2)
	p.putBool(r.silent)
	p.put(r.silence, 3)
	p.put(r.timer, 3)
	p.put(r.opened, 3)
	p.put(int8(r.believed), 2)
	p.put(int8(r.answers), 3)
	p.put(int8(r.oldMail), 3)
	p.putBool(r.late)
	p.putCapacity(r.parcel.lease)
	p.put(r.parcel.credit, 2)
	p.putBool(r.answered)
	p.put(r.returned, 2)
	p.put(int8(r.bond), 2)
	p.put(r.deadline, 2)
	p.putCapacity(r.held)
	p.put(r.epoch, 1)
	p.put(r.tokens, 2)
	p.put(r.spare, 2)
	return p.word
}

func unpackSide(word uint64) (r side) {
	p := packer{word: word}
	r.open = p.getBool()
	r.gone = p.getBool()
	r.lease = p.getCapacity()
	r.flying = p.getBool()
	r.flight.lease = p.getCapacity()
	r.flight.credit = p.get(2)
	r.silent = p.getBool()
	r.silence = p.get(3)
	r.timer = p.get(3)
	r.opened = p.get(3)
	r.believed = bond(p.get(2))
	r.answers = uint8(p.get(3))
	r.oldMail = uint8(p.get(3))
	r.late = p.getBool()
	r.parcel.lease = p.getCapacity()
	r.parcel.credit = p.get(2)
	r.answered = p.getBool()
	r.returned = p.get(2)
	r.bond = bond(p.get(2))
	r.deadline = p.get(2)
	r.held = p.getCapacity()
	r.epoch = p.get(1)
	r.tokens = p.get(2)
	r.spare = p.get(2)
	return r
}

// pack returns the key of a state. Regions that are alike are put in order: two
// states that differ only in who is who are one.
func (c *Config) pack(s *state) key {
	a, b := s.side[0].pack(), s.side[1].pack()
	if c.alike() && a > b {
		a, b = b, a
	}
	var high, low packer
	high.put(s.audit, 2)
	high.put(s.pool.Rate, 3)
	low.put(s.pool.Burst, 3)
	low.put(s.level, 3)
	return key{a | high.word<<sideBits, b | low.word<<sideBits}
}

func (k key) unpack() (s state) {
	s.side[0], s.side[1] = unpackSide(k[0]&(1<<sideBits-1)), unpackSide(k[1]&(1<<sideBits-1))
	high, low := packer{word: k[0] >> sideBits}, packer{word: k[1] >> sideBits}
	s.audit, s.pool.Rate = high.get(2), high.get(3)
	s.pool.Burst, s.level = low.get(3), low.get(3)
	return s
}
