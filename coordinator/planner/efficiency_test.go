package planner

import (
	"fmt"
	"math"
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
	return func(s float64) float64 { return mean * (1 + 0.875*math.Sin(2*math.Pi*(s/period+phase))) }
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
// bucket would have admitted, over Poisson arrivals of three seeds, three seconds
// after the first request. With -v it prints the table of the package comment.
func TestEfficiency(t *testing.T) {
	for _, tt := range []struct {
		reason      string
		rate, burst int
		loads       [3]curve // of ap, eu and us
		seconds     int
		least       [2]float64 // percent, near and far
	}{
		{"the live demo: 50 20 400 of 200", 200, 200, [3]curve{steady(50), steady(20), steady(400)}, 60, [2]float64{99.2, 98.7}},
		{"the live demo, half a second of burst", 200, 100, [3]curve{steady(50), steady(20), steady(400)}, 60, [2]float64{99.2, 98.7}},
		{"the live step", 200, 200, [3]curve{steady(50), stepAt(8, 400, 20), stepAt(8, 20, 400)}, 16, [2]float64{98.5, 94.5}},
		{"skew 80/15/5 at 1.5x", 1000, 1000, [3]curve{steady(1200), steady(225), steady(75)}, 60, [2]float64{99.5, 99}},
		{"skew 80/15/5 at 1.5x, half a second", 1000, 500, [3]curve{steady(1200), steady(225), steady(75)}, 60, [2]float64{99.5, 99}},
		{"skew 80/15/5 at 3x", 1000, 1000, [3]curve{steady(2400), steady(450), steady(150)}, 60, [2]float64{99.5, 99}},
		{"skew 80/15/5 at 3x, half a second", 1000, 500, [3]curve{steady(2400), steady(450), steady(150)}, 60, [2]float64{99.5, 99}},
		{"skew at 0.95x", 1000, 1000, [3]curve{steady(760), steady(140), steady(50)}, 60, [2]float64{99.8, 99.8}},
		{"all regions at 3x", 1000, 1000, [3]curve{steady(1000), steady(1000), steady(1000)}, 60, [2]float64{99.5, 99.5}},
		{"follow the sun at 1.2x", 1000, 1000, [3]curve{sun(400, 20, 0), sun(400, 20, 1./3), sun(400, 20, 2./3)}, 60, [2]float64{98.5, 93}},
		{"follow the sun at 1.2x, half a second", 1000, 500, [3]curve{sun(400, 20, 0), sun(400, 20, 1./3), sun(400, 20, 2./3)}, 60, [2]float64{98.5, 92.5}},
		{"follow the sun at 2x", 1000, 1000, [3]curve{sun(675, 20, 0), sun(675, 20, 1./3), sun(675, 20, 2./3)}, 60, [2]float64{99, 96}},
		{"flash of 10x", 1000, 1000, [3]curve{steady(400), steady(200), func(s float64) float64 {
			if s >= 10 && s < 20 {
				return 10_000
			}
			return 50
		}}, 30, [2]float64{98.5, 97}},
		{"one of three, others silent", 1000, 1000, [3]curve{steady(0), steady(3000), steady(0)}, 60, [2]float64{93, 93}},
		{"one of three, others trickle", 1000, 1000, [3]curve{steady(5), steady(3000), steady(5)}, 60, [2]float64{94, 94}},
		{"by the minute, 80/15/5 at 1.5x", 6000, 6000, [3]curve{steady(120), steady(22.5), steady(7.5)}, 300, [2]float64{98.5, 98}},
		{"slow, 80/15/5 at 1.5x", 20, 20, [3]curve{steady(24), steady(4.5), steady(1.5)}, 120, [2]float64{97.5, 94.5}},
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
					w.run(3 * quota.Second)
					c := w.central[shop]
					// From here on; the ideal bucket starts with what the regions have.
					c.ideal, c.admitted, c.level = 0, 0, w.l.Account(shop).Level(w.l.Clock())
					for _, r := range w.regions {
						c.level += max(r.bucket(shop, w.now).level, 0)
					}
					w.ops["Assign"] = 0
					w.run(quota.Micros(tt.seconds-3) * quota.Second)
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
				t.Logf("%-40s %-15s %6.2f %%  %5.1f assignments a second, admitted %s %% of what was asked for", tt.reason, net.name, have, ops/3/float64(tt.seconds), fmt.Sprintf("%5.1f %5.1f %5.1f", parts[0], parts[1], parts[2]))
				if least := tt.least[n]; have < least {
					t.Errorf("admitted %.2f %% of an ideal bucket, want at least %.2f %%", have, least)
				}
			})
		}
	}
}

// A new leader knows nothing of demand. It must not take seconds to find out that
// a lease is unused while somebody starves.
func TestNewLeaderMovesUnusedLeasesSoon(t *testing.T) {
	for _, net := range []network{lan, wan} {
		w := newWorld(1, document(1000, "second", 1000, "0.1"), "ap", "eu", "us")
		w.delay, w.commit = net.delay, net.commit
		moved := seconds(w.now) + 5
		w.region("ap").demand[shop] = func(s float64) float64 { return stepAt(moved, 2000, 20)(s) }
		w.region("eu").demand[shop] = func(s float64) float64 { return stepAt(moved, 20, 2000)(s) }
		w.run(5 * quota.Second)
		w.elect()
		start := w.now
		for w.l.Account(shop).Reserved("eu").Rate.PerSecond() < 800 {
			w.run(1000)
			if w.now-start > 2*quota.Second {
				t.Fatalf("%s: eu holds %v", net.name, w.l.Account(shop).Reserved("eu"))
			}
		}
		// Reports every 150 ms, and three times the way to a region and back.
		if took := w.now - start; took > 400_000+3*(2*net.delay+net.commit) {
			t.Errorf("%s: took %v", net.name, took.Duration())
		}
	}
}
