package planner

import (
	"math/bits"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// table is one key's account as the next round will find it: the ledger's state
// with the confirmations applied that the round proposes. Operations that are
// planned are applied to it as well.
type table struct {
	key      quota.Key
	limit    quota.Limit
	orphaned bool
	opened   bool // the account exists
	level    quota.Tokens
	scale    scale
	seats    []seat
}

// seat is one region's place at the table.
type seat struct {
	region string
	weight int64
	rank   uint64
	// share is what the ledger counts as standing share; next what the newest
	// configuration gives, which must fit before the region may adopt it.
	share, next quota.Capacity
	held        bool // there is a holding
	holding     ledger.Holding
	session     quota.SessionID
	// reachable says that an assignment would arrive and be confirmed.
	reachable bool
	forgot    bool // the region has lost its lease

	// What divide is asked for and what it answers, in whole tokens of burst.
	active     bool  // asked for something lately, more than its share covers
	low        bool  // it runs out of tokens
	want       int64 // by demand
	fair, goal int64 // its part of what is wanted; the same with surplus
}

// reserved returns what the ledger counts for the seat (I1).
func (s *seat) reserved() quota.Capacity {
	c := s.share
	if s.held && s.holding.Leased {
		c = c.Max(s.holding.Lease)
	}
	if s.held && s.holding.Flight != nil {
		c = c.Max(s.holding.Flight.Lease)
	}
	return c
}

// lease returns the confirmed capacity in force: the lease, else the share.
func (s *seat) lease() quota.Capacity {
	if s.held && s.holding.Leased {
		return s.holding.Lease
	}
	return s.share
}

func (s *seat) leased() bool   { return s.held && s.holding.Leased }
func (s *seat) inFlight() bool { return s.held && s.holding.Flight != nil }

// free reports whether the seat can be assigned something now.
func (s *seat) free() bool { return s.reachable && !s.inFlight() }

// floor returns what the region owns, now and under the newest configuration.
func (s *seat) floor() int64 { return units(max(s.share.Burst, s.next.Burst)) }
func (s *seat) cur() int64   { return s.lease().Burst.Floor() }

// units rounds up to whole tokens.
func units(t quota.Tokens) int64 { return (t + quota.Token - 1).Floor() }

// pool returns the capacity that nobody holds; negative while a lowered limit is
// being recalled.
func (t *table) pool() quota.Capacity {
	p := t.limit.Capacity
	for i := range t.seats {
		p = p.Sub(t.seats[i].reserved())
	}
	return p
}

func (t *table) clamp() { t.level = min(t.level, max(t.pool().Burst, 0)) }

// confirm applies a region's answer as the ledger will.
func (t *table) confirm(s *seat, surrendered quota.Tokens) {
	before := s.reserved().Burst
	if s.holding.Flight.Release {
		s.held, s.holding = false, ledger.Holding{}
	} else {
		s.holding.Lease, s.holding.Leased, s.holding.Flight = s.holding.Flight.Lease, true, nil
	}
	t.level += min(surrendered, max(before-s.reserved().Burst, 0))
	t.clamp()
}

// assign plans a lease of n tokens of burst, with all the tokens that the growth
// allows: a pool that shrinks below its level would lose the rest.
func (t *table) assign(s *seat, n int64, credit bool) ledger.Assign {
	op := ledger.Assign{Region: s.region, Session: s.session, Key: t.key, Prev: s.holding.Epoch, Lease: t.capacity(s, n)}
	growth := op.Lease.Burst - s.reserved().Burst
	if credit && growth > 0 {
		op.Credit = max(0, min(t.level, growth))
	}
	t.send(s, &ledger.Flight{Lease: op.Lease, Credit: op.Credit})
	return op
}

// release plans the end of a lease.
func (t *table) release(s *seat) ledger.Assign {
	op := ledger.Assign{
		Region: s.region, Session: s.session, Key: t.key, Prev: s.holding.Epoch,
		Lease: quota.Capacity{Rate: quota.Rate{Per: t.limit.Rate.Per}}, Release: true,
	}
	t.send(s, &ledger.Flight{Lease: s.share, Release: true})
	return op
}

func (t *table) send(s *seat, f *ledger.Flight) {
	s.held, s.holding.Flight = true, f
	t.opened = true
	t.level -= f.Credit
	t.clamp()
}

// capacity returns n tokens of burst with the rate in proportion, as far as the
// pool has that rate and never below the standing share.
func (t *table) capacity(s *seat, n int64) quota.Capacity {
	reserved, pool := s.reserved().Rate.Tokens, max(t.pool().Rate.Tokens, 0)
	c := quota.Capacity{Rate: quota.Rate{Per: t.limit.Rate.Per}, Burst: max(quota.Whole(uint64(max(n, 0))), s.share.Burst)}
	c.Rate.Tokens = max(min(t.rate(n), reserved+pool), s.share.Rate.Tokens)
	return c
}

// rate returns n/B of the limit's rate, rounded down.
func (t *table) rate(n int64) quota.Tokens {
	if n >= t.scale.burst {
		return t.limit.Rate.Tokens
	}
	hi, lo := bits.Mul64(uint64(t.limit.Rate.Tokens), uint64(max(n, 0)))
	rate, _ := bits.Div64(hi, lo, uint64(t.scale.burst))
	return quota.Tokens(rate)
}
