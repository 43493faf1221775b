package model

// reserved is what the ledger counts for a region.
func (c *Config) reserved(r *side, i int) Capacity {
	switch {
	case c.Bug == NoStandingDeducted && r.lease == c.Shares[i] && !r.flying:
		return Capacity{}
	case c.Bug == GrowBeforeShrink && r.flying:
		return c.Shares[i].larger(r.flight.lease)
	}
	return owed(r, c.Shares[i])
}

// change runs f on a region's entry and gives the pool the difference, with no
// more tokens than burst.
func (c *Config) change(s *state, i int, f func(r *side)) {
	r := &s.side[i]
	was := c.reserved(r, i)
	f(r)
	s.pool = s.pool.plus(was).minus(c.reserved(r, i))
	s.level = min(s.level, s.pool.Burst)
}

// assign commits an assignment, or refuses it: the planner may propose anything.
func (c *Config) assign(s *state, i int, p parcel) bool {
	r := &s.side[i]
	if !r.open || r.flying || !p.lease.covers(c.Shares[i]) || p.credit < 0 {
		return false
	}
	growth := p.lease.minus(c.reserved(r, i))
	if growth.Rate > max(0, s.pool.Rate) || growth.Burst > max(0, s.pool.Burst) {
		return false
	}
	if p.credit > 0 && (p.credit > s.level || p.credit > growth.Burst && c.Bug != CreditAboveGrowth) {
		return false
	}
	s.level -= p.credit
	c.change(s, i, func(r *side) { r.flying, r.flight = true, p })
	return true
}

// confirm commits the region's answer: what it no longer holds returns to the
// pool, and the surrendered tokens with it.
func (c *Config) confirm(s *state, i int) bool {
	r := &s.side[i]
	if !r.open || !r.flying || !r.answered {
		return false
	}
	back := r.returned
	c.change(s, i, func(r *side) {
		r.lease, r.flying, r.flight, r.answered, r.returned = r.flight.lease, false, parcel{}, false, 0
		if r.bond == current {
			r.epoch-- // the confirmed epoch is 0 again
		}
	})
	s.level = min(s.level+back, s.pool.Burst)
	return true
}

// openSession commits a session for a region that has none. A sync of an
// incarnation that is gone may ask for one too.
func (c *Config) openSession(s *state, i int, gone bool) bool {
	r := &s.side[i]
	if r.open || gone && !c.Resets {
		return false
	}
	r.open, r.gone, r.timer = true, gone, c.life()
	return true
}

// replace swaps a session for one of another incarnation, whose agent saw the
// data of the old one die.
func (c *Config) replace(s *state, i int) bool {
	r := &s.side[i]
	if !r.open || !r.gone && c.Bug != SyncReplacesLiveSession {
		return false
	}
	c.end(s, i)
	return c.openSession(s, i, false)
}

// endSession ends a session that the leader has not renewed for its whole life.
func (c *Config) endSession(s *state, i int) bool {
	if r := &s.side[i]; !r.open || r.timer > 0 {
		return false
	}
	c.end(s, i)
	return true
}

// end returns the capacity of the leases to the pool, and no tokens. What is on
// its way stays on its way.
func (c *Config) end(s *state, i int) {
	refund := c.reserved(&s.side[i], i).Burst - c.Shares[i].Burst
	c.change(s, i, func(r *side) {
		if r.bond == before {
			r.unbind(c.Shares[i]) // of two ended sessions the later one is followed
		}
		r.oldMail = r.answers
		r.late, r.parcel = r.flying && r.epoch == 0, r.flight
		if r.bond == current {
			r.bond = before
		}
		if r.believed != unbound {
			r.believed--
		}
		r.open, r.gone, r.timer, r.opened, r.answers = false, false, 0, 0, 0
		r.silent, r.silence = false, 0
		r.lease, r.flying, r.flight, r.answered, r.returned = c.Shares[i], false, parcel{}, false, 0
	})
	if c.Bug == RefundAtExpiry {
		s.level = min(s.level+refund, s.pool.Burst)
	}
}

// mark commits that a session has not been heard of, or that it has.
func (c *Config) mark(s *state, i int, silent bool) bool {
	r := &s.side[i]
	if !c.Silence || !r.open || r.silent == silent {
		return false
	}
	r.silent, r.silence = silent, 0
	return true
}

// answer takes a sync of the given age: the leader checks that it still leads,
// renews the session from that moment, and answers. The check and what follows
// are one step, because an answer may take any time to arrive.
func (c *Config) answer(s *state, i, age int) bool {
	r := &s.side[i]
	if !r.open || r.gone || r.silent && c.Bug != RenewWhileSilent {
		return false
	}
	r.timer = c.life()
	r.answers |= 1 << age
	return true
}

// answerDeposed is the same by a leader that has been replaced and does not know
// it. Its check fails; without one the region would hear that it may go on.
func (c *Config) answerDeposed(s *state, i, age int) bool {
	r := &s.side[i]
	if c.Bug != NoLeadershipCheck {
		return false
	}
	switch r.believed {
	case before:
		r.oldMail |= 1 << age
	case current:
		r.answers |= 1 << age
	}
	return r.believed != unbound
}

// elect begins a term. The new leader knows no renewals, for they are not
// logged: it gives every session a full life, less the silence that is.
func (c *Config) elect(s *state) {
	for i := range s.side {
		r := &s.side[i]
		r.believed = unbound
		if !r.open {
			continue
		}
		if r.timer = c.life() - r.silence; c.Bug == NewLeaderKeepsTimers {
			r.timer = c.life() - r.opened
		}
		if c.Bug == NoLeadershipCheck && !r.gone {
			r.believed = current
		}
	}
	if c.Bug == ClockJumpsAtElection {
		s.level = s.pool.fill(s.level)
	}
}
