package planner

import (
	"strconv"
	"testing"

	"github.com/quorate/quorate/coordinator/fairshare"
	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// Where the largest requests of all regions do not fit into the burst together,
// one region after the other has a bucket that takes its own, as often as its part
// of the demand; the rate goes where it can be used.
func TestLargeRequestsTakeTurns(t *testing.T) {
	limit := quota.Limit{Capacity: quota.Capacity{Rate: quota.Rate{Tokens: 100 * quota.Token, Per: quota.Second}, Burst: 100 * quota.Token}}
	wants := []float64{80, 15, 5}
	divided := func(turn uint64, lump int64) *table {
		tb := &table{limit: limit, scale: scaleOf(limit, Config{}.withDefaults()), turn: turn}
		for i, w := range wants {
			tb.seats = append(tb.seats, seat{
				region: string(rune('a' + i)), weight: 1, reachable: true, active: true,
				wish: wish{part: part{int64(w * float64(quota.Token)), lump}, lump: lump},
			})
		}
		tb.divide(Config{}.withDefaults())
		return tb
	}
	won := make([]int, len(wants))
	for turn := range uint64(10_000) {
		tb := divided(fairshare.Rank("turn", strconv.FormatUint(turn, 10)), 90)
		winners := 0
		for i := range tb.seats {
			if s := &tb.seats[i]; s.fair[burst] >= 90 {
				winners++
				won[i]++
				if s.goal[rate] < s.part[rate] {
					t.Fatalf("%s has the burst and a rate of %v, less than it wants", s.region, quota.Tokens(s.goal[rate]))
				}
			}
		}
		if winners != 1 {
			t.Fatalf("turn %d: %d regions have a burst for their requests, want 1", turn, winners)
		}
	}
	for i, w := range wants {
		if have := float64(won[i]) / 100; have < w-2 || have > w+2 {
			t.Errorf("region %d: have %.1f %% of the turns, want about %.0f %%", i, have, w)
		}
	}
	if tb := divided(0, 30); tb.seats[0].fair[burst] < 30 || tb.seats[1].fair[burst] < 30 || tb.seats[2].fair[burst] < 30 {
		t.Error("all requests fit, and somebody has no burst for its own")
	}
}

// of is so many tokens a second and a burst.
func of(rate float64, burst uint64) quota.Capacity {
	return quota.Capacity{Rate: quota.Rate{Tokens: quota.Tokens(rate * float64(quota.Token)), Per: quota.Second}, Burst: quota.Whole(burst)}
}

// leased is the seat of a region that wants twice its lease.
func leased(region string, weight int64, lease, share quota.Capacity) seat {
	s := seat{region: region, weight: weight, reachable: true, active: true, share: share, next: share, held: true}
	s.holding = ledger.Holding{Region: region, Epoch: 1, Lease: lease, Leased: true}
	s.wish = wish{part: part{int64(lease.Rate.Tokens) * 2, 2 * lease.Burst.Floor()}, low: true}
	return s
}

// What a dead band leaves with everybody may be, in sum, what a region needs before it
// may adopt its share, or what a lowered limit has too little. That is recalled.
func TestRoomIsMadeThoughNobodyHasMuchTooMuch(t *testing.T) {
	joining := func(region string, weight int64, next quota.Capacity) seat {
		return seat{region: region, weight: weight, reachable: true, share: of(0, 0), next: next}
	}
	for _, tt := range []struct {
		reason string
		limit  quota.Capacity
		seats  []seat
	}{
		{"a region waits for its first configuration, whose share does not fit", of(20, 40), []seat{
			leased("ap", 3, of(7.332712, 14), of(1.5, 3)), leased("eu", 2, of(4.746772, 10), of(1, 2)),
			joining("sa", 2, of(1, 2)), leased("us", 3, of(7.125, 14), of(1.5, 3)),
		}},
		{"it misses burst", of(1000, 1000), []seat{
			leased("ap", 1, of(320, 333), of(10, 10)), leased("eu", 1, of(320, 333), of(10, 10)),
			joining("sa", 1, of(10, 10)), leased("us", 1, of(320, 333), of(10, 10)),
		}},
		{"a limit was lowered a little", of(990, 990), []seat{
			leased("ap", 1, of(334, 334), of(10, 10)), leased("eu", 1, of(333, 333), of(10, 10)), leased("us", 1, of(333, 333), of(10, 10)),
		}},
	} {
		cfg := Config{}.withDefaults()
		tb := &table{key: "k", limit: quota.Limit{Capacity: tt.limit}, opened: true, seats: tt.seats}
		tb.scale = scaleOf(tb.limit, cfg)
		if tb.crowded() == [2]bool{} {
			t.Fatalf("%s: there is room already", tt.reason)
		}
		for range 5 {
			tb.hungry = false
			tb.decide(nil, 0, cfg, &entry{})
			for i := range tb.seats {
				if s := &tb.seats[i]; s.inFlight() {
					tb.confirm(s, 0)
				}
			}
		}
		if tb.crowded() != [2]bool{} {
			t.Errorf("%s: the pool is still %v", tt.reason, tb.pool())
		}
	}
}

// It may also be what a small region lacks for good (seed 303390): three regions have 4.8
// % too much, which is a third of the part of the fourth.
func TestASmallRegionIsNotShortOfWhatOthersHaveALittleTooMuch(t *testing.T) {
	cfg := Config{}.withDefaults()
	share := func(weight float64) quota.Capacity { return of(weight/4, 1) }
	tb := &table{key: "k", limit: quota.Limit{Capacity: of(60, 60)}, opened: true, seats: []seat{
		leased("ap", 1, of(4.988484, 7), share(1)), leased("eu", 2, of(15.717576, 15), share(2)),
		leased("sa", 3, of(23.576364, 23), share(3)), leased("us", 2, of(15.717576, 15), share(2)),
	}}
	tb.scale = scaleOf(tb.limit, cfg)
	for range 3 {
		tb.hungry = false
		tb.decide(nil, 0, cfg, &entry{})
		for i := range tb.seats {
			if s := &tb.seats[i]; s.inFlight() {
				tb.confirm(s, 0)
			}
		}
	}
	if have := tb.seats[0].holding.Lease.Rate.PerSecond(); have < 7.4 {
		t.Errorf("ap has %.2f a second, and 7.5 is its part", have)
	}
}
