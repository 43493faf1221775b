package planner

import (
	"github.com/quorate/quorate/coordinator/fairshare"
	"github.com/quorate/quorate/coordinator/quota"
)

// divide sets what every seat should have, over all regions at once: first what
// is wanted, fairly; then what is left follows demand, less a little for
// newcomers. Seats out of reach keep what they hold.
func (t *table) divide(cfg Config) {
	total := t.scale.burst
	claims, got := make([]fairshare.Claim, 0, 8), make([]int64, 0, 8)
	for i := range t.seats {
		s := &t.seats[i]
		if !s.reachable {
			s.fair = max(s.floor(), units(s.reserved().Burst))
			s.goal = s.fair
			total -= s.fair
			continue
		}
		want := s.floor()
		if s.active {
			want = max(want, s.want)
		}
		claims = append(claims, fairshare.Claim{Weight: s.weight, Floor: s.floor(), Want: want, Rank: s.rank})
	}
	t.place(fairshare.Divide(got, total, claims), func(s *seat, n int64) { s.fair, s.goal = n, n })

	total -= t.scale.burst * cfg.ReservePPM / quota.PPM
	claims = claims[:0]
	for i := range t.seats {
		s := &t.seats[i]
		if !s.reachable {
			continue
		}
		c := fairshare.Claim{Floor: s.fair, Want: s.fair, Rank: s.rank}
		if s.active {
			c.Want, c.Weight = t.scale.burst, s.want
		}
		claims = append(claims, c)
	}
	t.place(fairshare.Divide(got, total, claims), func(s *seat, n int64) { s.goal = n })
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

// shortage says whether somebody has less than it should while the pool and
// what is on its way back to it do not suffice.
type shortage struct {
	some bool // at all
	much bool // by more than a dead band, by two where tokens do not run out yet
}

func (t *table) shortage(cfg Config) shortage {
	pool := t.pool()
	coming := max(pool.Burst, 0).Floor()
	var lack, muchLack int64
	if pool.Burst < 0 {
		lack = units(-pool.Burst)
		muchLack = lack
	}
	for i := range t.seats {
		s := &t.seats[i]
		reserved := units(s.reserved().Burst)
		need := max(s.fair, s.floor()) - reserved
		if need > 0 {
			lack += need
			band := cfg.band(s.fair)
			if need >= band && s.low || need >= 2*band || s.floor() > reserved {
				muchLack += need
			}
		}
		if s.reachable && s.inFlight() {
			coming += reserved - units(s.share.Max(s.holding.Flight.Lease).Burst)
		}
	}
	return shortage{some: lack > coming, much: muchLack > coming}
}
