package planner

import (
	"github.com/quorate/quorate/coordinator/fairshare"
	"github.com/quorate/quorate/coordinator/quota"
)

// divide sets what every seat should have, over all regions at once. First what
// is wanted, fairly; then what is left follows demand, less a little for
// newcomers. Seats out of reach keep what they hold.
func (t *table) divide(cfg Config) {
	left := t.total().less(partOf(t.unused()))
	for i := range t.seats {
		if s := &t.seats[i]; !s.reachable {
			s.fair = s.floor().max(partOf(s.reserved()))
			s.goal = s.fair
			left = left.less(s.fair)
		}
	}
	t.share(burst, left[burst], nil)
	winner := t.lumps()
	if winner != nil {
		t.share(burst, left[burst], winner)
	}
	t.share(rate, left[rate], winner)

	for i := range t.seats {
		t.hungry = t.hungry || t.seats[i].hungry()
	}
	for dim, total := range left {
		t.surplus(dim, total-t.total()[dim]*cfg.ReservePPM/quota.PPM)
	}
}

// hungry reports whether the seat's part of the rate is clearly less than wanted.
func (s *seat) hungry() bool {
	return s.reachable && s.active && s.part[rate]-s.fair[rate] > s.part[rate]/100
}

// lumps returns the seat whose turn it is to have a burst for its largest cost,
// where not all can have one; nil where they can. A bucket that is smaller than a
// request never admits it, so parts that are fair and all too small are of no use
// to anybody. Turns come as often as a seat's part of the demand.
func (t *table) lumps() *seat {
	total, tight := uint64(0), false
	for i := range t.seats {
		if s := &t.seats[i]; s.reachable && s.active && s.lump > 0 {
			total += uint64(max(s.part[rate], 1))
			tight = tight || s.lump > s.fair[burst]
		}
	}
	if !tight {
		return nil
	}
	turn := t.turn % total
	for i := range t.seats {
		if s := &t.seats[i]; s.reachable && s.active && s.lump > 0 {
			part := uint64(max(s.part[rate], 1))
			if turn < part {
				return s
			}
			turn -= part
		}
	}
	return nil
}

// turnOf is how long a turn lasts: long enough to fill a bucket, and so long that
// the moves in between do not count.
func turnOf(s scale) quota.Micros {
	return quota.Micros(min(max(2*s.full, 4), 60) * float64(quota.Second))
}

// share sets the fair parts in one dimension. The winner of a turn comes first.
func (t *table) share(dim int, total int64, winner *seat) {
	claims, parts := make([]fairshare.Claim, 0, 8), make([]int64, 0, 8)
	for i := range t.seats {
		s := &t.seats[i]
		if !s.reachable {
			continue
		}
		c := fairshare.Claim{Weight: s.weight, Floor: s.floor()[dim], Rank: s.rank}
		// A rate is of no use without a burst that holds what is asked for.
		waits := winner != nil && s != winner && s.lump > s.fair[burst]
		if s.active && (dim == burst || s.fair[burst] > 0 && !waits) {
			c.Want = s.part[dim]
		}
		if s == winner && dim == burst {
			c.Floor = max(c.Floor, min(s.lump, total-t.floors(dim, s)))
		}
		claims = append(claims, c)
	}
	t.place(fairshare.Divide(parts, total, claims), func(s *seat, n int64) { s.fair[dim], s.goal[dim] = n, n })
}

// floors is what the other seats within reach own for good.
func (t *table) floors(dim int, but *seat) (sum int64) {
	for i := range t.seats {
		if s := &t.seats[i]; s.reachable && s != but {
			sum += s.floor()[dim]
		}
	}
	return sum
}

// surplus raises the goals in one dimension. While somebody's rate is short,
// burst is worth most to it: there a bucket is empty, so it costs no tokens, and
// what others have in their buckets comes back.
func (t *table) surplus(dim int, total int64) {
	claims, parts := make([]fairshare.Claim, 0, 8), make([]int64, 0, 8)
	for i := range t.seats {
		s := &t.seats[i]
		if !s.reachable {
			continue
		}
		c := fairshare.Claim{Floor: s.goal[dim], Want: s.goal[dim], Rank: s.rank}
		if s.active && s.fair[burst] > 0 && (!t.hungry || s.hungry()) {
			c.Want, c.Weight = max(c.Want, t.total()[dim]), max(s.part[rate], 1)
		}
		claims = append(claims, c)
	}
	t.place(fairshare.Divide(parts, total, claims), func(s *seat, n int64) { s.goal[dim] = n })
}

// place gives the parts to the seats within reach, in order.
func (t *table) place(parts []int64, set func(*seat, int64)) {
	for i := range t.seats {
		if s := &t.seats[i]; s.reachable {
			set(s, parts[0])
			parts = parts[1:]
		}
	}
}

// shortage says, in each dimension, whether somebody has less than it should
// while the pool and what is on its way back to it do not suffice.
type shortage struct {
	some [2]bool // at all
	much [2]bool // by more than a dead band, by two where tokens do not run out yet
	must [2]bool // so that any excess is recalled: see crowded, and shortage
}

func (s shortage) any() bool { return s.some[rate] || s.some[burst] }

func (t *table) shortage(cfg Config) (short shortage) {
	pool := t.pool()
	debt := partOf(quota.Capacity{Rate: quota.Rate{Tokens: -pool.Rate.Tokens}, Burst: -pool.Burst})
	for dim, coming := range t.spare() {
		lack := max(debt[dim], 0)
		much, starved := lack, int64(0)
		for i := range t.seats {
			s := &t.seats[i]
			floor, reserved := s.floor()[dim], partOf(s.reserved())[dim]
			if need := max(s.fair[dim], floor) - reserved; need > 0 {
				lack += need
				band := t.band(cfg, dim, s.fair[dim])
				if need >= band && s.low || need >= 2*band || floor > reserved {
					much += need
				}
				if dim == rate && need >= band && s.low && s.reachable && !s.inFlight() {
					starved = max(starved, need)
				}
			}
			if s.reachable && s.inFlight() {
				coming += reserved - partOf(s.share.Max(s.holding.Flight.Lease).Add(s.borrowed))[dim]
			}
		}
		short.some[dim], short.much[dim] = lack > coming, much > coming
		if starved > 0 {
			// Where all others have a little too much, of which none is worth a recall,
			// a small region would do without the sum of it for good.
			worth, little := t.recallable(cfg, dim)
			short.must[dim] = much-coming > worth && little >= starved/2
		}
	}
	for dim, must := range t.crowded() {
		short.must[dim] = short.must[dim] || must
		short.some[dim] = short.some[dim] || must
	}
	return short
}

// recallable is what the seats have too much of: what shrink recalls when much is short,
// and what is too little of each for that.
func (t *table) recallable(cfg Config, dim int) (worth, little int64) {
	for i := range t.seats {
		s := &t.seats[i]
		if !s.free() || !s.leased() {
			continue
		}
		cur := s.cur()[dim]
		switch excess := cur - s.goal[dim]; {
		case excess >= max(1, t.band(cfg, dim, cur)/2):
			worth += excess
		case excess > 0:
			little += excess
		}
	}
	return worth, little
}

// crowded reports whether what is held, as it will be when what is in flight has
// arrived, leaves no room for the standing shares of the newest configuration, or is
// more than the limit. A region adopts nothing before there is room, and a limit that
// was lowered is not in force before the pool is back at zero: what is missing is
// recalled although everybody may have less of it too much than a dead band. Nothing
// is offered to a region out of reach, so there is no haste.
func (t *table) crowded() [2]bool {
	left := t.limit.Capacity.Sub(t.unused())
	for i := range t.seats {
		s := &t.seats[i]
		held := s.reserved()
		if s.reachable {
			if s.inFlight() {
				held = s.share.Max(s.holding.Flight.Lease).Add(s.borrowed)
			}
			held = held.Max(s.next.Add(s.borrowed))
		}
		left = left.Sub(held)
	}
	return [2]bool{rate: left.Rate.Tokens < 0, burst: left.Burst < 0}
}

// band returns the smallest change of n that is worth an assignment when nobody
// runs out of tokens; half of it is when somebody does.
func (t *table) band(cfg Config, dim int, n int64) int64 {
	return max(1, 2*(n*cfg.BandPPM/quota.PPM), t.total()[dim]/200)
}
