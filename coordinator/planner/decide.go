package planner

import (
	"github.com/quorate/quorate/coordinator/fairshare"
	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// decide returns the changes that are worth proposing now, and whether somebody
// is short of what it should have. A seat has at most one of them, and none
// while an assignment to it is in flight.
func (t *table) decide(ops []ledger.Op, cfg Config, credit bool) ([]ledger.Op, shortage) {
	if t.orphaned {
		for i := range t.seats {
			if s := &t.seats[i]; s.free() && s.held {
				ops = append(ops, t.release(s))
			}
		}
		return ops, shortage{}
	}
	t.divide(cfg)
	short := t.shortage(cfg)
	ops = t.shrink(ops, cfg, short)
	ops = t.grow(ops, cfg, credit)
	return t.repair(ops), short
}

// shrink recalls what others need, and leases that nobody uses. Where nobody is
// short everybody keeps what it has: demand that comes back finds it.
func (t *table) shrink(ops []ledger.Op, cfg Config, short shortage) []ledger.Op {
	for i := range t.seats {
		s := &t.seats[i]
		if !s.free() || !s.leased() {
			continue
		}
		excess := s.cur() - s.goal
		wanted := excess > 0 && (short.much || short.some && excess >= cfg.band(s.cur()))
		switch {
		case !s.active, wanted && s.goal <= units(s.share.Burst):
			ops = append(ops, t.release(s))
		case wanted:
			ops = append(ops, t.assign(s, s.goal, false))
		}
	}
	return ops
}

// grow divides the pool as it is now: first to those who have less than their
// fair part, then towards the goals. What has to wait for a shrink is planned
// again when that is confirmed.
func (t *table) grow(ops []ledger.Op, cfg Config, credit bool) []ledger.Op {
	free := max(t.pool().Burst, 0).Floor()
	if free == 0 && t.covered() {
		return ops
	}
	claims, parts := make([]fairshare.Claim, 0, 8), make([]int64, 0, 8)
	for i := range t.seats {
		s := &t.seats[i]
		c := fairshare.Claim{Weight: s.weight, Rank: s.rank}
		if !s.reachable || !s.inFlight() {
			// Without a lease to grow this keeps room for a share that will.
			c.Want = max(s.fair, s.floor()) - units(s.reserved().Burst)
		}
		claims = append(claims, c)
	}
	parts = fairshare.Divide(parts, free, claims)
	spare := free - t.scale.burst*cfg.ReservePPM/quota.PPM
	for i := range t.seats {
		s, c := &t.seats[i], &claims[i]
		c.Floor, c.Want = parts[i], parts[i]
		if s.free() && s.active {
			c.Weight, c.Want = s.want, s.goal-units(s.reserved().Burst)
		}
	}
	parts = fairshare.Divide(parts[:0], spare, claims)
	for i := range t.seats {
		s := &t.seats[i]
		if !s.free() || !s.active && !s.leased() {
			continue
		}
		n := units(s.reserved().Burst) + parts[i]
		// Free capacity costs nobody anything: who runs out of tokens gets all of it.
		enough := s.low || n-s.cur() >= cfg.band(s.cur())
		switch {
		case s.leased() && !s.holding.Lease.Covers(s.share):
			ops = append(ops, t.assign(s, n, credit)) // the share outgrew the lease
		case n > s.cur() && enough:
			ops = append(ops, t.assign(s, n, credit))
		}
	}
	return ops
}

// covered reports whether every lease includes its standing share.
func (t *table) covered() bool {
	for i := range t.seats {
		if s := &t.seats[i]; s.leased() && !s.holding.Lease.Covers(s.share) {
			return false
		}
	}
	return true
}

// repair assigns a lease as it is to a region that has lost it, and with the
// right rate where rates of the limit have changed and bursts have not.
func (t *table) repair(ops []ledger.Op) []ledger.Op {
	for i := range t.seats {
		s := &t.seats[i]
		if !s.free() || !s.leased() {
			continue
		}
		have, want := s.holding.Lease.Rate.Tokens, t.capacity(s, s.cur()).Rate.Tokens
		off := max(have-want, want-have) > want/20
		if s.forgot || off || have > want && t.pool().Rate.Tokens < 0 {
			ops = append(ops, t.assign(s, s.cur(), false))
		}
	}
	return ops
}
