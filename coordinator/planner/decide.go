package planner

import (
	"slices"

	"github.com/quorate/quorate/coordinator/fairshare"
	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// decide returns the changes that are worth proposing now, and whether somebody
// is short of what it should have. A seat has at most one of them, and none
// while an assignment to it is in flight.
func (t *table) decide(ops []ledger.Op, now quota.Micros, cfg Config, e *entry) ([]ledger.Op, shortage) {
	if t.limit.Window > 0 {
		return t.slide(ops, cfg, e)
	}
	if t.orphaned {
		for i := range t.seats {
			if s := &t.seats[i]; s.free() && s.held {
				ops = append(ops, t.release(s))
			}
		}
		return t.lend(ops, now, cfg, e), shortage{}
	}
	if t.windowed {
		return t.window(ops, now, e)
	}
	credit := !e.bare
	t.divide(cfg)
	before := len(ops)
	if ops = t.lend(ops, now, cfg, e); slices.ContainsFunc(ops[before:], ends) {
		return ops, shortage{} // the table does not know whose the shares are then
	}
	short := t.shortage(cfg)
	ops = t.shrink(ops, cfg, short, credit)
	ops = t.grow(ops, cfg, credit)
	return t.repair(ops), short
}

// ends reports whether an operation gives a lender its share back.
func ends(op ledger.Op) bool {
	_, ok := op.(ledger.EndLoan)
	return ok
}

// shrink recalls what others need, and leases that nobody uses. Where nobody is
// short everybody keeps what it has: demand that comes back finds it.
func (t *table) shrink(ops []ledger.Op, cfg Config, short shortage, credit bool) []ledger.Op {
	for i := range t.seats {
		s := &t.seats[i]
		if !s.free() || !s.leased() {
			continue
		}
		cur, wanted := s.cur(), false
		to := cur
		for dim := range cur {
			excess, band := cur[dim]-s.goal[dim], t.band(cfg, dim, cur[dim])
			if excess <= 0 || !short.some[dim] {
				continue
			}
			to[dim] = s.goal[dim]
			wanted = wanted || excess >= band || short.much[dim] && excess >= max(1, band/2) || short.must[dim]
		}
		// An empty bucket may be large. Tokens that it does not need help who is
		// short of rate.
		if more := s.full - s.goal[burst]; t.hungry && more >= t.band(cfg, burst, cur[burst]) {
			to[burst], wanted = s.goal[burst], true
		}
		switch {
		case !s.active, wanted && s.borrowed.IsZero() && partOf(s.share).covers(to):
			ops = append(ops, t.release(s))
		case wanted:
			// Nothing else can be assigned until this is confirmed, so what is free
			// in the other dimension goes along.
			for dim, free := range t.spare() {
				if to[dim] == cur[dim] {
					to[dim] += max(0, min(free, s.goal[dim]-cur[dim]))
				}
			}
			ops = append(ops, t.assign(s, to, credit))
		}
	}
	return ops
}

// grow divides the pool as it is now: first to those who have less than their
// fair part, then towards the goals. What has to wait for a shrink is planned
// again when that is confirmed.
func (t *table) grow(ops []ledger.Op, cfg Config, credit bool) []ledger.Op {
	spare := t.spare()
	if spare == (part{}) && t.covered() {
		return ops
	}
	var growth [2][]int64
	for dim := range spare {
		growth[dim] = t.growth(dim, spare[dim], t.total()[dim]*cfg.ReservePPM/quota.PPM)
	}
	for i := range t.seats {
		s := &t.seats[i]
		if !s.free() || !s.active && !s.leased() {
			continue
		}
		cur, to := s.cur(), partOf(s.reserved())
		enough := false
		for dim := range to {
			to[dim] += growth[dim][i]
			more, band := to[dim]-cur[dim], t.band(cfg, dim, cur[dim])
			// Free capacity costs nobody anything: who runs out of tokens gets it.
			enough = enough || more >= band || s.low && more >= max(1, band/10)
		}
		if enough || s.leased() && !s.holding.Lease.Covers(s.share) { // or the share outgrew the lease
			ops = append(ops, t.assign(s, to.max(cur), credit))
		}
	}
	return ops
}

// growth divides what is free in one dimension; the reserve is kept unless it is
// needed.
func (t *table) growth(dim int, free, reserve int64) []int64 {
	claims, parts := make([]fairshare.Claim, 0, 8), make([]int64, 0, 8)
	for i := range t.seats {
		s := &t.seats[i]
		c := fairshare.Claim{Weight: s.weight, Rank: s.rank}
		if !s.reachable || !s.inFlight() {
			// Without a lease to grow this keeps room for a share that will.
			c.Want = max(s.fair[dim], s.floor()[dim]) - partOf(s.reserved())[dim]
		}
		claims = append(claims, c)
	}
	parts = fairshare.Divide(parts, free, claims)
	for i := range t.seats {
		s, c := &t.seats[i], &claims[i]
		c.Floor, c.Want = parts[i], parts[i]
		if s.free() && s.active {
			c.Weight, c.Want = max(s.part[rate], 1), s.goal[dim]-partOf(s.reserved())[dim]
		}
	}
	return fairshare.Divide(parts[:0], free-reserve, claims)
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

// repair assigns a lease as it is to a region that has lost it, and one as large as its
// share to a region that does without that.
func (t *table) repair(ops []ledger.Op) []ledger.Op {
	for i := range t.seats {
		if s := &t.seats[i]; s.free() && (s.leased() && s.forgot || s.without && s.active) {
			ops = append(ops, t.assign(s, s.cur(), false))
		}
	}
	return ops
}
