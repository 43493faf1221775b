package model

import "fmt"

// Capacity is a token bucket without its level.
type Capacity struct{ Rate, Burst int8 }

// String writes the rate per tick and the burst.
func (c Capacity) String() string { return fmt.Sprintf("%d/t+%d", c.Rate, c.Burst) }

func (c Capacity) plus(o Capacity) Capacity  { return Capacity{c.Rate + o.Rate, c.Burst + o.Burst} }
func (c Capacity) minus(o Capacity) Capacity { return Capacity{c.Rate - o.Rate, c.Burst - o.Burst} }

func (c Capacity) larger(o Capacity) Capacity {
	return Capacity{max(c.Rate, o.Rate), max(c.Burst, o.Burst)}
}

func (c Capacity) covers(o Capacity) bool { return c.Rate >= o.Rate && c.Burst >= o.Burst }

// fill returns the level one tick later.
func (c Capacity) fill(level int8) int8 { return min(c.Burst, level+c.Rate) }

// state is everything that decides what can happen next. Times are ticks that
// remain, never dates, and epochs count from the last confirmed one, so that
// the space is finite although time is not.
type state struct {
	audit int8 // level of the one central bucket that the Bound speaks of
	pool  Capacity
	level int8 // of the pool
	side  [2]side
}

// side is one region: what the ledger and its leader know, what is on its way,
// and what its store holds.
type side struct {
	// The ledger.
	open    bool     // there is a session
	gone    bool     // it belongs to an incarnation that is no more
	lease   Capacity // confirmed; the standing share when there is none
	flying  bool     // an assignment is in flight, with epoch 1
	flight  parcel
	silent  bool
	silence int8 // ticks since the mark, at most a life

	// The leader's memory.
	timer    int8 // ticks until the session may be ended
	opened   int8 // ticks since the session opened; kept for newLeaderKeepsTimers only
	believed bond // the session a deposed leader believes in; kept for noLeadershipCheck only

	// The network. What was sent once may arrive at any time, and again.
	answers  uint8 // to syncs that name the open session: one bit per age
	oldMail  uint8 // the same, for the session before it
	late     bool  // an assignment of the session before it is still under way
	parcel   parcel
	answered bool // the region's answer to the assignment in flight
	returned int8 // the tokens it surrendered

	// The store.
	bond     bond     // the session it has
	deadline int8     // ticks until what it leased is void
	held     Capacity // the lease of that session
	epoch    int8     // of the last assignment applied: 0 confirmed, 1 the one in flight
	tokens   int8
	// spare is the level as a standing share. It counts while the store has a
	// session whose deadline has passed: the record is cut only when somebody
	// takes a token, and comes back uncut when the session is renewed.
	spare int8
}

// parcel is what an assignment carries.
type parcel struct {
	lease  Capacity
	credit int8
}

// bond says which session is meant: none, the last one that ended, or the one
// that is open.
type bond int8

const (
	unbound bond = iota
	before
	current
)

func name(i int) string { return string(rune('A' + i)) }

// initial returns the world before anything happened: every bucket is full.
func (c *Config) initial() state {
	s := state{audit: c.Limit.Burst, pool: c.Limit}
	for i := range s.side {
		r := &s.side[i]
		r.lease, r.held, r.tokens = c.Shares[i], c.Shares[i], c.Shares[i].Burst
		s.pool = s.pool.minus(c.reserved(r, i))
	}
	s.level = s.pool.Burst
	return s
}

// broken returns what is wrong in a state, empty for nothing.
func (c *Config) broken(s *state) string {
	if s.audit < 0 {
		return "more was admitted than the Bound allows"
	}
	if c.BoundOnly {
		return ""
	}
	sum := s.pool
	for i := range s.side {
		r := &s.side[i]
		sum = sum.plus(owed(r, c.Shares[i]))
		switch {
		case r.bond == before && (r.deadline > 0 || r.oldMail != 0):
			return name(i) + " outlives the session that its lease belongs to"
		case r.epoch < 0 || r.epoch > 1 || r.epoch == 1 && r.bond == current && !r.flying:
			return name(i) + " applied an epoch that the ledger has not given out"
		case r.bond == current && (r.gone || r.epoch == 0 && r.held != r.lease || r.epoch == 1 && r.held != r.flight.lease):
			return name(i) + " holds a lease that the ledger does not count"
		case r.tokens < 0 || r.tokens > r.held.Burst || r.spare > c.Shares[i].Burst:
			return name(i) + " has more tokens than burst"
		}
	}
	switch {
	case sum != c.Limit:
		return fmt.Sprintf("pool and reserved are %v together, the limit is %v", sum, c.Limit)
	case !s.pool.covers(Capacity{}) || s.level < 0 || s.level > s.pool.Burst:
		return fmt.Sprintf("the pool is %v with %d tokens", s.pool, s.level)
	}
	return ""
}

// owed is what must be set aside for a region whatever the ledger believes: the
// larger of everything it may be using.
func owed(r *side, share Capacity) Capacity {
	c := share.larger(r.lease)
	if r.flying {
		c = c.larger(r.flight.lease)
	}
	return c
}
