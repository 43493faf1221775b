package planner

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

type curve = func(s float64) float64 // requests a second, s seconds after the start

func steady(rate float64) curve { return func(float64) float64 { return rate } }

func stepAt(at, before, after float64) curve {
	return func(s float64) float64 {
		if s < at {
			return before
		}
		return after
	}
}

// sun is a load that follows the sun around three regions.
func sun(mean, period, phase float64) curve {
	return func(s float64) float64 { return mean * (1 + 0.9*math.Sin(2*math.Pi*(s/period+phase))) }
}

// network is the way between regions and the leader.
type network struct {
	name          string
	delay, commit quota.Micros
}

var (
	lan = network{"5 ms", 2500, 2000}
	wan = network{"150 ms + 40 ms", 75_000, 40_000}
)

// Efficiency is what the planner is for: the part of what one ideal central
// bucket would have admitted, over Poisson arrivals of three seeds, from the
// first request on.
func TestEfficiency(t *testing.T) {
	for _, tt := range []struct {
		reason      string
		rate, burst int
		loads       [3]curve // of ap, eu and us
		seconds     int
		least       [2]float64 // percent, near and far
	}{
		{"the live demo: 50 20 400 of 200", 200, 200, [3]curve{steady(50), steady(20), steady(400)}, 60, [2]float64{98.5, 98.5}},
		{"the live demo, half a second of burst", 200, 100, [3]curve{steady(50), steady(20), steady(400)}, 60, [2]float64{98.5, 98.5}},
		{"the live step", 200, 200, [3]curve{steady(50), stepAt(8, 400, 20), stepAt(8, 20, 400)}, 16, [2]float64{96, 96}},
		{"skew 80/15/5 at 1.5x", 1000, 1000, [3]curve{steady(1200), steady(225), steady(75)}, 60, [2]float64{99, 99}},
		{"skew 80/15/5 at 1.5x, half a second", 1000, 500, [3]curve{steady(1200), steady(225), steady(75)}, 60, [2]float64{99, 99}},
		{"skew 80/15/5 at 3x", 1000, 1000, [3]curve{steady(2400), steady(450), steady(150)}, 60, [2]float64{99, 99}},
		{"skew 80/15/5 at 3x, half a second", 1000, 500, [3]curve{steady(2400), steady(450), steady(150)}, 60, [2]float64{99, 99}},
		{"skew at 0.95x", 1000, 1000, [3]curve{steady(760), steady(140), steady(50)}, 60, [2]float64{99, 99}},
		{"all regions at 3x", 1000, 1000, [3]curve{steady(1000), steady(1000), steady(1000)}, 60, [2]float64{98.5, 98.5}},
		{"follow the sun at 1.2x", 1000, 1000, [3]curve{sun(400, 20, 0), sun(400, 20, 1./3), sun(400, 20, 2./3)}, 60, [2]float64{97, 97}},
		{"follow the sun at 1.2x, half a second", 1000, 500, [3]curve{sun(400, 20, 0), sun(400, 20, 1./3), sun(400, 20, 2./3)}, 60, [2]float64{97, 97}},
		{"flash of 10x", 1000, 1000, [3]curve{steady(400), steady(200), func(s float64) float64 {
			if s >= 10 && s < 20 {
				return 10_000
			}
			return 50
		}}, 30, [2]float64{95, 95}},
		{"one of three, others silent", 1000, 1000, [3]curve{steady(0), steady(3000), steady(0)}, 60, [2]float64{93, 93}},
		{"one of three, others trickle", 1000, 1000, [3]curve{steady(5), steady(3000), steady(5)}, 60, [2]float64{93, 93}},
		{"by the minute, 80/15/5 at 1.5x", 6000, 6000, [3]curve{steady(120), steady(22.5), steady(7.5)}, 300, [2]float64{97, 97}},
		{"slow, 80/15/5 at 1.5x", 20, 20, [3]curve{steady(24), steady(4.5), steady(1.5)}, 120, [2]float64{95, 95}},
	} {
		unit := "second"
		if tt.rate == 6000 {
			unit = "minute"
		}
		for n, net := range []network{lan, wan} {
			t.Run(tt.reason+", "+net.name, func(t *testing.T) {
				t.Parallel()
				var ideal, admitted, ops float64
				parts := [3]float64{}
				for seed := uint64(1); seed <= 3; seed++ {
					w := newWorld(seed, document(tt.rate, unit, tt.burst, "0.1"), "ap", "eu", "us")
					w.delay, w.commit = net.delay, net.commit
					w.run(quota.Second)
					start := seconds(w.now)
					for i, r := range w.regions {
						r.demand[shop] = func(s float64) float64 { return tt.loads[i](s - start) }
					}
					w.run(quota.Micros(tt.seconds) * quota.Second)
					c := w.central[shop]
					if c.worst < -quota.Token/1000 {
						t.Errorf("overdrawn by %v", -c.worst)
					}
					ideal, admitted, ops = ideal+float64(c.ideal), admitted+float64(c.admitted), ops+float64(w.ops["Assign"])
					for i, r := range w.regions {
						if b := r.buckets[shop]; b != nil && b.asked > 0 {
							parts[i] += 100 * float64(b.got) / float64(b.asked) / 3
						}
					}
				}
				have := 100 * admitted / ideal
				t.Logf("TABLE %-40s %-15s %6.2f %%  %5.1f assignments a second, admitted %s %% of what was asked for", tt.reason, net.name, have, ops/3/float64(tt.seconds), fmt.Sprintf("%5.1f %5.1f %5.1f", parts[0], parts[1], parts[2]))
				if least := tt.least[n]; have < least {
					t.Errorf("admitted %.2f %% of an ideal bucket, want at least %.2f %%", have, least)
				}
			})
		}
	}
	_ = slices.Sort[[]int]
}
