package planner

import (
	"strconv"
	"testing"

	"github.com/quorate/quorate/coordinator/fairshare"
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
