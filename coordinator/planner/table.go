package planner

import (
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
	windowed bool // its tokens are spent once: those of a fixed window, see window.go
	level    quota.Tokens
	scale    scale
	seats    []seat
	loans    []loan
	// lendable is how many more shares may be lent now, and lends how many are;
	// deferred says that it was too few.
	lendable, lends int
	deferred        bool
	hungry          bool   // somebody's part of the rate is less than it wants
	turn            uint64 // whose turn it is where only one can have a burst, see lumps
}

// seat is one region's place at the table.
type seat struct {
	region string
	weight int64
	rank   uint64
	// share is what the ledger counts as standing share; next what the newest
	// configuration gives, which must fit before the region may adopt it.
	share, next quota.Capacity
	// borrowed is what the ledger counts as the region's of other regions' shares,
	// beside its lease. All parts of a seat include it.
	borrowed quota.Capacity
	held     bool // there is a holding
	holding  ledger.Holding
	session  quota.SessionID
	// reachable says that an assignment would arrive and be confirmed.
	reachable bool
	forgot    bool // the region has lost its lease
	without   bool // the region does without its share, which it believes to be on loan
	// misses says that the region has not, or no longer, what is counted as borrowed.
	misses bool

	// What divide is asked for and what it answers.
	quiet  quota.Micros // for how long it has asked for nothing
	unseen bool         // it never has, as far as anybody knows
	active bool         // asked for something lately, more than its share covers
	wish
	occupancy        // of a sliding window
	reported   int64 // of a fixed window: whole tokens that it had before what is in flight
	fair, goal part  // its part of what is wanted; the same with surplus
}

// part is a part of a limit in its two dimensions, which are divided apart from
// each other: micro-tokens a period and whole tokens of burst.
type part [2]int64

const (
	rate  = 0
	burst = 1
)

// partOf rounds the burst up.
func partOf(c quota.Capacity) part { return part{int64(c.Rate.Tokens), units(c.Burst)} }

func (p part) less(q part) part { return part{p[rate] - q[rate], p[burst] - q[burst]} }
func (p part) max(q part) part  { return part{max(p[rate], q[rate]), max(p[burst], q[burst])} }

// covers reports whether p is at least q in both dimensions.
func (p part) covers(q part) bool { return p[rate] >= q[rate] && p[burst] >= q[burst] }

// reserved returns what the ledger counts for the seat (I1).
func (s *seat) reserved() quota.Capacity {
	c := s.share
	if s.held && s.holding.Leased {
		c = c.Max(s.holding.Lease)
	}
	if s.held && s.holding.Flight != nil {
		c = c.Max(s.holding.Flight.Lease)
		c.Burst = max(c.Burst, s.share.Burst+s.holding.Flight.Credit)
	}
	return c.Add(s.borrowed)
}

// lease returns the confirmed capacity in force: the lease, else the share.
func (s *seat) lease() quota.Capacity {
	if s.held && s.holding.Leased {
		return s.holding.Lease.Add(s.borrowed)
	}
	return s.share.Add(s.borrowed)
}

func (s *seat) leased() bool   { return s.held && s.holding.Leased }
func (s *seat) inFlight() bool { return s.held && s.holding.Flight != nil }

// free reports whether the seat can be assigned something now.
func (s *seat) free() bool { return s.reachable && !s.inFlight() }

// floor returns what the region owns, now and under the newest configuration.
func (s *seat) floor() part { return partOf(s.share.Max(s.next).Add(s.borrowed)) }
func (s *seat) cur() part   { return partOf(s.lease()) }

// units rounds up to whole tokens.
func units(t quota.Tokens) int64 { return (t + quota.Token - 1).Floor() }

// pool returns the capacity that nobody holds; negative while a lowered limit is
// being recalled.
func (t *table) pool() quota.Capacity {
	p := t.limit.Capacity
	for i := range t.seats {
		p = p.Sub(t.seats[i].reserved())
	}
	return p.Sub(t.unused())
}

// spare is what the pool can give away.
func (t *table) spare() part {
	p := t.pool()
	return part{max(int64(p.Rate.Tokens), 0), max(p.Burst, 0).Floor()}
}

// total is the whole limit.
func (t *table) total() part { return part{int64(t.limit.Rate.Tokens), t.scale.burst} }

func (t *table) clamp() { t.level = min(t.level, max(t.pool().Burst, 0)) }

// confirm applies a region's answer as the ledger will.
func (t *table) confirm(s *seat, surrendered quota.Tokens) {
	if t.limit.Window > 0 {
		t.confirmPlaces(s, surrendered)
		return
	}
	before := s.reserved().Burst
	if s.holding.Flight.Release {
		s.held, s.holding = false, ledger.Holding{}
	} else {
		s.holding.Lease, s.holding.Leased, s.holding.Flight = s.holding.Flight.Lease, true, nil
	}
	t.level += min(surrendered, max(before-s.reserved().Burst, 0))
	t.clamp()
}

// assign plans a lease, with all the tokens that the growth allows: a pool that
// shrinks below its level would lose the rest.
func (t *table) assign(s *seat, p part, credit bool) ledger.Assign {
	op := ledger.Assign{Region: s.region, Session: s.session, Key: t.key, Prev: s.holding.Epoch, Lease: t.capacity(s, p)}
	growth := op.Lease.Burst - s.reserved().Burst + s.borrowed.Burst
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

// capacity returns a part as far as the pool has it and never below the standing
// share.
func (t *table) capacity(s *seat, p part) quota.Capacity {
	c := quota.Capacity{Rate: quota.Rate{Tokens: quota.Tokens(max(p[rate], 0)), Per: t.limit.Rate.Per}, Burst: quota.Whole(uint64(max(p[burst], 0)))}
	most := s.reserved()
	spare := t.pool()
	c.Rate.Tokens = min(c.Rate.Tokens, most.Rate.Tokens+max(spare.Rate.Tokens, 0))
	c.Burst = min(c.Burst, most.Burst+max(spare.Burst, 0))
	return c.Sub(s.borrowed).Max(s.share)
}
