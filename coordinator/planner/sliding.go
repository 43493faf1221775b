package planner

import (
	"math"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// A sliding window is divided by places and nothing else: a region needs as many as it
// will occupy, what arrives in a window. There is no rate, and what is in use cannot be
// taken away: a region that is to have less admits by its new lease from then on, and
// gives up what has moved on, a band at a time, until it has no more than that.

// occupancy is what is known of a seat of a sliding window, in whole tokens.
type occupancy struct {
	aimed    int64 // what the region admits by
	occupied int64 // at most
}

// crowd is how many standard deviations of the arrivals of a window a region should
// have places for.
const crowd = 0.7

// places sets what a seat wants of a sliding window, and what of it is occupied. d is
// nil where nobody has reported anything.
func (t *table) places(now quota.Micros, s *seat, d *demand, r *region) {
	cur := s.cur()[burst]
	s.occupancy = occupancy{cur, cur}
	if s.quiet > t.limit.Window+t.limit.Window/50 {
		s.occupied = 0 // whatever it admitted has moved on
	}
	if d == nil {
		return
	}
	if d.burst != 0 || d.level != 0 {
		s.occupied = min(s.occupied, max(units(d.burst-d.level), 0))
	}
	if s.leased() && d.aimedAt == s.holding.Epoch {
		s.aimed = d.aimed.Floor()
	}
	expected := d.rate(now, r, t.scale) * t.scale.per * headroom
	want := max(1, expected+crowd*math.Sqrt(d.step()*expected))
	s.wish = wish{low: d.refused(now) || d.level < d.burst/4, full: max(d.level.Floor(), 0)}
	if largest := tokens(d.largest); largest <= float64(t.scale.burst) && now-d.largestAt <= t.scale.idle {
		want = max(want, largest)
		s.lump = int64(math.Ceil(largest))
	}
	places := int64(math.Ceil(min(want, float64(t.scale.burst))))
	s.part = part{places, places}
	s.forgot = s.leased() && d.forgotPlaces(s.holding.Epoch)
}

// forgotPlaces is forgot for a sliding window, where a region may admit by less than
// its lease.
func (d *demand) forgotPlaces(epoch quota.Epoch) bool {
	return d.seen == d.last && d.seen > d.settled+routeAge && d.epoch < epoch
}

// slide is decide for a sliding window.
func (t *table) slide(ops []ledger.Op, cfg Config, e *entry) ([]ledger.Op, shortage) {
	if t.orphaned {
		for i := range t.seats {
			t.seats[i].active = false
		}
	}
	left := t.total()[burst]
	for i := range t.seats {
		if s := &t.seats[i]; !s.reachable {
			s.fair = s.floor().max(partOf(s.reserved()))
			s.goal = s.fair
			left -= s.fair[burst]
		}
	}
	t.share(burst, left, nil)
	if winner := t.lumps(); winner != nil {
		t.share(burst, left, winner)
	}
	t.surplus(burst, left-t.total()[burst]*cfg.ReservePPM/quota.PPM)

	lack := t.missing()
	ops = t.vacate(ops, lack)
	if e.bare {
		return t.unlock(ops), shortage{}
	}
	ops = t.occupy(ops, cfg)
	return t.repairPlaces(ops), shortage{some: [2]bool{burst: lack > 0}}
}

// missing is how many places regions have less than they should, beyond what is free
// and what is on its way to the pool.
func (t *table) missing() int64 {
	missing := -t.free()
	if pool := t.pool().Burst; pool < 0 {
		missing += units(-pool)
	}
	for i := range t.seats {
		s := &t.seats[i]
		reserved := partOf(s.reserved())[burst]
		missing += max(0, max(s.fair[burst], s.floor()[burst])-reserved)
		if s.reachable && s.inFlight() {
			missing -= max(0, reserved-partOf(s.share.Max(s.holding.Flight.Lease))[burst])
		}
	}
	return missing
}

// step is the dead band of n places: half of what the arrivals of a window vary by, and
// less in a long window, where places move slowly and a few that are in the wrong region
// stay there for long.
func (t *table) step(n int64) int64 {
	part := min(max(4/t.scale.per, 0.5), 1)
	return max(1, int64(math.Sqrt(float64(n))/2*part), t.total()[burst]/500)
}

// free is how many places the pool can give away.
func (t *table) free() int64 { return max(0, min(t.spare()[burst], t.level.Floor())) }

// vacate takes places that others need, and leases that nobody uses. A region that has
// too many is told once to admit by fewer, and again whenever a band of them is free.
func (t *table) vacate(ops []ledger.Op, missing int64) []ledger.Op {
	must := t.crowded()[burst]
	for i := range t.seats {
		s := &t.seats[i]
		if !s.free() || !s.leased() {
			continue
		}
		cur, floor, band := s.cur()[burst], s.floor()[burst], t.step(s.cur()[burst])
		if must {
			band = 1
		}
		to := s.goal[burst]
		if !s.active {
			to = floor
		}
		idle := cur - max(to, s.occupied)
		switch {
		case !s.active && s.occupied <= partOf(s.share)[burst]:
			ops = append(ops, t.release(s))
		case missing > 0 && (s.aimed-to >= band || idle >= band):
			ops = append(ops, t.settle(s, to))
		}
	}
	return ops
}

// occupy divides the free places: first to those who have less than their fair part,
// then towards the goals.
func (t *table) occupy(ops []ledger.Op, cfg Config) []ledger.Op {
	growth := t.growth(burst, t.free(), t.total()[burst]*cfg.ReservePPM/quota.PPM)
	for i := range t.seats {
		s := &t.seats[i]
		if !s.free() || !s.active && !s.leased() {
			continue
		}
		reserved := partOf(s.reserved())[burst]
		to, band := reserved+growth[i], t.step(s.cur()[burst])
		more := to - s.aimed
		if to > s.goal[burst] && growth[i] <= 0 {
			more = s.goal[burst] - s.aimed // it has more than it should admit by
		}
		if s.active && more > 0 && (more >= band || s.low && more >= max(1, band/10)) || s.leased() && !s.holding.Lease.Covers(s.share) {
			ops = append(ops, t.settle(s, max(to, s.floor()[burst])))
		}
	}
	return ops
}

// unlock opens an account of which the ledger does not have as much to give as it should:
// a region gets a lease of what it has, and then everybody knows what there is.
func (t *table) unlock(ops []ledger.Op) []ledger.Op {
	for i := range t.seats {
		if s := &t.seats[i]; s.free() && s.active {
			return append(ops, t.settle(s, s.cur()[burst]))
		}
	}
	return ops
}

// repairPlaces assigns a lease as it is to a region that has lost it.
func (t *table) repairPlaces(ops []ledger.Op) []ledger.Op {
	for i := range t.seats {
		if s := &t.seats[i]; s.free() && s.leased() && s.forgot {
			ops = append(ops, t.settle(s, s.cur()[burst]))
		}
	}
	return ops
}

// settle plans a lease of a number of places, never fewer than the standing share. It
// grows by its credit.
func (t *table) settle(s *seat, places int64) ledger.Assign {
	lease := quota.Capacity{Rate: quota.Rate{Per: t.limit.Rate.Per}, Burst: quota.Whole(uint64(max(places, 0)))}.Max(s.share)
	op := ledger.Assign{Region: s.region, Session: s.session, Key: t.key, Prev: s.holding.Epoch, Lease: lease}
	op.Credit = max(0, lease.Burst-s.reserved().Burst)
	t.send(s, &ledger.Flight{Lease: lease, Credit: op.Credit})
	return op
}

// confirmPlaces is confirm for a sliding window, see package ledger.
func (t *table) confirmPlaces(s *seat, surrendered quota.Tokens) {
	before, had, f := s.reserved().Burst, s.lease().Burst, s.holding.Flight
	lease := f.Lease
	lease.Burst = max(lease.Burst, max(had, s.share.Burst)-surrendered)
	if f.Release && lease == f.Lease {
		s.held, s.holding = false, ledger.Holding{}
	} else {
		s.holding.Lease, s.holding.Leased, s.holding.Flight = lease, true, nil
	}
	t.level += min(surrendered, before-s.reserved().Burst)
}
