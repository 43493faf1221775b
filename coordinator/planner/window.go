package planner

import (
	"math"

	"github.com/quorate/quorate/coordinator/fairshare"
	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// A key of a window has no rate to divide, only tokens that are spent once. So its
// plan does not follow what regions hold but what is left: in the pool, and in the
// regions' buckets as they last reported them.
//
//	left   = pool + what the regions have
//	want   = what a region will ask for within the horizon, at most half of what is left
//	fair   = water-filling of what is left by want
//
// Who has less than half of its want gets more from the pool. Where the pool has not
// enough, those who have more than their fair part give it back: their lease is
// cut down to what they may keep. Half of what is left stays where newcomers find it
// at once, so a region takes in what there is in ever smaller steps, and a limit of
// five is spent to the last token wherever it is asked for.
//
// Nothing says when a window is over: the leader has no clock for that (window.go of
// the ledger). Nobody asks for its key any more; then the leases are released, one
// key after the other, and the account is dropped when the ledger agrees.

const (
	// horizon is how far ahead a region has what it needs: well beyond the way to the
	// coordinator and back.
	horizon = 10 * quota.Second
	// rest is how long nobody must have asked for a window for its leases to be
	// released, and scatter over which time all those of a moment are.
	rest    = 60 * quota.Second
	scatter = 30 * quota.Second
	// forgetAge is how long nobody must have reported anything of a key of a window
	// for its account to be dropped.
	forgetAge = 600 * quota.Second
	// ample: of what is left after all wants, one token in so many is given away at
	// once, for fewer assignments, but to nobody more than it asks for in so many
	// horizons. It can be taken back; a region that is lost takes it with it.
	ample, stock = 4, 5
)

// sips sets what each seat of a window's table has and wants: the wish's rate is in
// micro-tokens a second, its burst the want within the horizon, full what it has.
func (t *Term) sips(now quota.Micros, tb *table, e *entry) {
	for i := range tb.seats {
		s := &tb.seats[i]
		d := e.demand(s.region)
		s.quiet = now - e.since
		s.unseen = d == nil || d.last == -never
		s.wish = wish{}
		s.full, s.reported = s.has(d)
		if d == nil {
			continue
		}
		s.quiet = min(s.quiet, now-d.last)
		s.active = now-d.last < rest && (s.held || d.presses(now, s.share.Burst))
		s.forgot = s.leased() && d.forgot(s.holding.Epoch, s.holding.Lease)
		if !s.active {
			continue
		}
		asked := d.rate(now, t.regions[s.region], tb.scale)
		s.part = part{int64(asked * float64(quota.Token)), int64(math.Ceil(asked * seconds(horizon)))}
		if now-d.last < horizon {
			s.lump = max(1, int64(math.Ceil(tokens(d.largest))))
			s.part[burst] = max(s.part[burst], s.lump)
		}
		s.low = d.refused(now) || s.full < s.lump
	}
}

// has returns the whole tokens that the seat has, as far as is known: what was last
// reported and what it was given since, with what is in flight and without.
func (s *seat) has(d *demand) (with, without int64) {
	lease := s.share.Burst
	if s.leased() {
		lease = s.holding.Lease.Burst
	}
	level := lease // nobody has reported anything: it may have all
	if d != nil && d.seen > 0 {
		level = d.level
		if d.epoch < s.holding.Epoch {
			level += max(0, lease-d.burst)
		} else if s.inFlight() {
			n := max(0, level.Floor()) // it has arrived
			return n, n
		}
		level = min(level, lease)
	}
	without = max(0, level.Floor())
	if s.inFlight() {
		level = min(level+s.holding.Flight.Credit, max(s.holding.Flight.Lease.Burst, s.share.Burst))
	}
	return max(0, level.Floor()), without
}

// window returns the changes of a window's leases that are worth proposing now.
func (t *table) window(ops []ledger.Op, now quota.Micros, e *entry) ([]ledger.Op, shortage) {
	if ops, some := t.adjourn(ops, now, e); some {
		return ops, shortage{}
	}
	credit := !e.bare
	before := len(ops)
	if ops = t.room(ops); len(ops) > before {
		return ops, shortage{}
	}
	lack := t.pour(&ops, credit)
	short := shortage{some: [2]bool{burst: lack > 0 && t.takeBack(&ops, lack)}}
	return t.repair(ops), short
}

// adjourn releases all leases when nobody has asked for anything in a while; some is
// true when there is nothing else to do for now.
func (t *table) adjourn(ops []ledger.Op, now quota.Micros, e *entry) (_ []ledger.Op, some bool) {
	if t.busy() || now < t.adjourns(e) {
		return ops, false
	}
	for i := range t.seats {
		if s := &t.seats[i]; s.free() && s.held {
			ops = append(ops, t.release(s))
		}
	}
	return ops, true
}

// adjourns returns when leases are released if nobody asks for anything before.
func (t *table) adjourns(e *entry) quota.Micros {
	last := e.since
	for i := range e.demands {
		last = max(last, e.demands[i].last)
	}
	return last + rest + quota.Micros(fairshare.Rank(string(t.key), "")%uint64(scatter))
}

// room cuts leases where the standing shares of the newest configuration, or a
// lowered limit, need the capacity: first what is spent, of which nothing comes back.
func (t *table) room(ops []ledger.Op) []ledger.Op {
	if !t.crowded()[burst] {
		return ops
	}
	left := t.scale.burst
	claims := make([]fairshare.Claim, 0, 8)
	for i := range t.seats {
		s := &t.seats[i]
		if !s.reachable {
			left -= units(s.reserved().Burst)
			continue
		}
		claims = append(claims, fairshare.Claim{Weight: s.weight, Floor: s.floor()[burst], Want: s.full, Rank: s.rank})
	}
	t.place(fairshare.Divide(nil, left, claims), func(s *seat, n int64) {
		if s.free() && s.leased() && n < s.cur()[burst] {
			ops = append(ops, t.keep(s, n))
		}
	})
	return ops
}

// keep cuts a lease down to n tokens, or ends it where that is what the region owns.
func (t *table) keep(s *seat, n int64) ledger.Op {
	if n <= units(s.share.Burst) {
		return t.release(s)
	}
	return t.assign(s, part{burst: n}, false)
}

// left returns the tokens that can be divided: in the pool and within reach.
func (t *table) left() int64 {
	n := t.level.Floor()
	for i := range t.seats {
		if s := &t.seats[i]; s.reachable {
			n += s.full + s.coming()
		}
	}
	return n
}

// coming is what the seat is about to give back.
func (s *seat) coming() int64 { return max(0, s.reported-s.full) }

// pour sets every seat's fair part, gives to those who run low from the pool, and
// returns what the pool had not.
func (t *table) pour(ops *[]ledger.Op, credit bool) (lack int64) {
	left := t.left()
	t.sipFair(left, nil)
	if winner := t.sipTurn(left); winner != nil {
		t.sipFair(left, winner)
	}
	spare := max(0, min(t.level.Floor(), t.spare()[burst]))
	needs, rates := make([]fairshare.Claim, len(t.seats)), make([]fairshare.Claim, len(t.seats))
	var needed, fair, taken int64
	for i := range t.seats {
		s := &t.seats[i]
		needs[i] = fairshare.Claim{Weight: s.weight, Rank: s.rank}
		rates[i] = fairshare.Claim{Weight: max(s.part[rate], 1), Rank: s.rank}
		if s.reachable {
			fair += s.fair[burst]
		}
		if s.active {
			rates[i].Want = min(left, stock*s.part[burst])
		}
		if s.thirsty() {
			needs[i].Want = s.fair[burst] - s.full
			needed += needs[i].Want
			if !s.free() {
				needs[i].Want = 0 // it waits for what is in flight
			}
		}
	}
	given := fairshare.Divide(nil, spare, needs)
	for _, n := range given {
		taken += n
	}
	more := fairshare.Divide(nil, max(0, min(spare-taken, (left-fair)/ample)), rates)
	for i := range t.seats {
		s := &t.seats[i]
		n := given[i]
		if n > 0 {
			n += more[i]
		}
		if n > 0 || s.free() && s.leased() && !s.holding.Lease.Covers(s.share) { // or the share outgrew the lease
			if !credit {
				n = 0 // growth without its tokens would lose them
			}
			*ops = append(*ops, t.assign(s, part{burst: units(s.reserved().Burst) + n}, credit))
		}
	}
	return needed - taken
}

// thirsty reports whether the seat runs low.
func (s *seat) thirsty() bool {
	return s.reachable && s.active && s.fair[burst] > s.full && (s.low || 2*s.full < s.part[burst])
}

// sipFair divides what is left by want. A share stays where it is.
func (t *table) sipFair(left int64, winner *seat) {
	claims := make([]fairshare.Claim, 0, 8)
	for i := range t.seats {
		s := &t.seats[i]
		if !s.reachable {
			continue
		}
		c := fairshare.Claim{Weight: s.weight, Floor: min(s.full, units(s.share.Burst)), Rank: s.rank}
		if s.active {
			c.Want = min(s.part[burst], max(s.lump, (left+1)/2))
		}
		if s == winner {
			c.Floor = max(c.Floor, s.lump)
		}
		claims = append(claims, c)
	}
	t.place(fairshare.Divide(nil, left, claims), func(s *seat, n int64) { s.fair[burst] = n })
}

// sipTurn returns the seat whose turn it is to have enough for its largest request,
// where what is left is not enough for all of them; nil where it is.
func (t *table) sipTurn(left int64) *seat {
	var large []*seat
	for i := range t.seats {
		if s := &t.seats[i]; s.reachable && s.active && s.lump > s.fair[burst] && s.lump <= left {
			large = append(large, s)
		}
	}
	if len(large) == 0 {
		return nil
	}
	return large[t.turn%uint64(len(large))]
}

// takeBack cuts the leases of those who have more than their fair part until what is
// lacking comes back, and reports whether any does or will.
func (t *table) takeBack(ops *[]ledger.Op, lack int64) bool {
	some := false
	for i := range t.seats {
		if n := t.seats[i].coming(); n > 0 {
			lack, some = lack-n, true
		}
	}
	for i := range t.seats {
		s := &t.seats[i]
		keep := max(s.fair[burst], units(s.share.Burst))
		if lack <= 0 || !s.free() || !s.leased() || s.full-keep < max(1, keep/10) {
			continue
		}
		lack, some = lack-(s.full-keep), true
		*ops = append(*ops, t.keep(s, keep))
	}
	return some
}

// windowDue returns when the key of a window must be planned though nobody reports
// anything.
func (t *table) windowDue(now quota.Micros, l *ledger.Ledger, e *entry) quota.Micros {
	if e.short || !t.opened {
		return now + shortAge
	}
	if t.held() {
		return max(t.adjourns(e), now+quota.Second)
	}
	due := max(now+quota.Second, e.heard+forgetAge)
	if a := l.Account(e.key); a != nil {
		due = max(due, now+a.Left(l.Clock()))
	}
	return due
}

// full reports whether the pool has all that there is, as if nobody had ever asked.
func (t *table) full() bool { return t.level >= max(t.pool().Burst, 0) }

// held reports whether some region holds a lease, or is about to.
func (t *table) held() bool {
	for i := range t.seats {
		if t.seats[i].held {
			return true
		}
	}
	return false
}
