package model

// inForce reports whether the store may use what it leased.
func (r *side) inForce() bool { return r.deadline > 0 }

// standing is the level that the store has as a standing share.
func (r *side) standing(share Capacity) int8 {
	if r.bond != unbound && !r.inForce() {
		return r.spare
	}
	return min(r.tokens, share.Burst)
}

// unbind leaves the store with its standing share.
func (r *side) unbind(share Capacity) {
	r.tokens = r.standing(share)
	r.bond, r.deadline, r.held, r.epoch, r.spare = unbound, 0, share, 0, 0
}

// renew delivers the answer to a sync of the given age. A newer session takes
// the place of the store's, the same one only gains time, and an older one is
// refused.
func (c *Config) renew(s *state, i int, of bond, age int) bool {
	r := &s.side[i]
	mail := r.answers
	if of == before {
		mail = r.oldMail
	}
	if mail&(1<<age) == 0 || of < r.bond {
		return false
	}
	until := int8(c.TTL - age)
	if c.Bug == ExpiryFromReceive {
		until = int8(c.TTL)
	}
	if r.bond != of {
		r.unbind(c.Shares[i])
		r.bond = of
	}
	r.deadline = max(r.deadline, until)
	r.spare = 0
	return true
}

// apply delivers the assignment in flight. The store takes it if the session is
// its own, the deadline has not passed and the epoch is new; a repeat repeats
// the answer, which is on its way already.
func (c *Config) apply(s *state, i int) bool {
	r := &s.side[i]
	if !r.flying || r.gone || r.bond != current || !r.inForce() && c.Bug != LateApply {
		return false
	}
	if r.epoch == 1 && c.Bug != ApplyTwice {
		return false
	}
	r.answered, r.returned = true, c.deposit(r, i, r.flight)
	return true
}

// applyOld delivers an assignment of a session that has ended.
func (c *Config) applyOld(s *state, i int) bool {
	r := &s.side[i]
	if !r.late || r.bond != before || !r.inForce() && c.Bug != LateApply {
		return false
	}
	c.deposit(r, i, r.parcel)
	r.late, r.parcel = false, parcel{}
	return true
}

// deposit puts an assignment into the record and returns what the new burst has
// no room for.
func (c *Config) deposit(r *side, i int, p parcel) (surrendered int8) {
	if !r.inForce() {
		r.tokens = r.standing(c.Shares[i])
	}
	level := r.tokens + p.credit
	r.held, r.epoch, r.tokens = p.lease, 1, min(level, p.lease.Burst)
	if !r.inForce() {
		r.spare = min(r.tokens, c.Shares[i].Burst)
	}
	return level - r.tokens
}

// admit takes a token, and tells the auditor.
func (c *Config) admit(s *state, i int) bool {
	r := &s.side[i]
	if !r.inForce() && r.bond != unbound {
		// The record is written, and so cut to what the standing share bounds.
		if r.spare == 0 {
			return false
		}
		r.spare--
		r.tokens = r.spare
	} else {
		if r.tokens == 0 {
			return false
		}
		r.tokens--
	}
	s.audit--
	return true
}

// reset loses the store's data. Whatever is on its way to the old incarnation
// is refused by the new one; what the old one has sent may still arrive.
func (c *Config) reset(s *state, i int) bool {
	if !c.Resets {
		return false
	}
	r := &s.side[i]
	r.unbind(c.Shares[i])
	r.tokens = 0
	if c.Bug == MissingIsFull {
		r.tokens = c.Shares[i].Burst
	}
	r.gone = r.open
	r.answers, r.oldMail, r.late, r.parcel, r.believed = 0, 0, false, parcel{}, unbound
	return true
}

// tick lets a tick of time pass everywhere. Clocks have no drift here: the
// margin of a region's deadline pays for it.
func (c *Config) tick(s *state) {
	s.audit = c.Limit.fill(s.audit)
	s.level = s.pool.fill(s.level)
	for i := range s.side {
		r, share := &s.side[i], c.Shares[i]
		switch {
		case r.inForce():
			r.tokens = r.held.fill(r.tokens)
			if r.deadline--; r.deadline == 0 {
				r.spare = min(r.tokens, share.Burst)
			}
		case r.bond != unbound:
			r.tokens, r.spare = r.held.fill(r.tokens), share.fill(r.spare)
		default:
			r.tokens = share.fill(r.tokens)
		}
		r.timer = max(0, r.timer-1)
		r.answers, r.oldMail = c.older(r.answers), c.older(r.oldMail)
		if r.silent {
			r.silence = min(r.silence+1, c.life())
		}
		if r.open && c.Bug == NewLeaderKeepsTimers {
			r.opened = min(r.opened+1, c.life())
		}
	}
}

// older lets answers age by a tick. One whose sync is as old as a session lives
// could only set a deadline that has passed, and is forgotten; counted from its
// receipt it would be good for ever.
func (c *Config) older(mail uint8) uint8 {
	all := uint8(1)<<c.TTL - 1
	if c.Bug == ExpiryFromReceive {
		return mail<<1&all | mail&^(all>>1)
	}
	return mail << 1 & all
}

// forget drops what nobody can accept any more: delivering it would change
// nothing, so states that differ in nothing else are the same.
func (c *Config) forget(s *state) {
	for i := range s.side {
		r := &s.side[i]
		if r.bond == current {
			r.oldMail = 0
			if r.believed == before {
				r.believed = unbound
			}
		}
		revives := r.oldMail != 0 || r.believed == before
		usable := r.bond == before && (r.inForce() || c.Bug == LateApply)
		if r.late && (r.bond == current || !revives && !usable) {
			r.late, r.parcel = false, parcel{}
		}
		if !r.late {
			r.parcel = parcel{}
		}
		if r.bond == before && !r.inForce() && !revives && !r.late {
			r.unbind(c.Shares[i])
		}
	}
}
