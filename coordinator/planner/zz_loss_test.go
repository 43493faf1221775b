package planner

import (
	"fmt"
	"os"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

func TestLoss(t *testing.T) {
	if os.Getenv("LOSS") == "" {
		t.Skip()
	}
	for _, c := range []struct {
		name        string
		rate, burst int
		loads       [3]curve
	}{
		{"demo", 200, 200, [3]curve{steady(50), steady(20), steady(400)}},
		{"1.5", 1000, 1000, [3]curve{steady(1200), steady(225), steady(75)}},
		{"sun", 1000, 1000, [3]curve{sun(400, 20, 0), sun(400, 20, 1./3), sun(400, 20, 2./3)}},
		{"oneT", 1000, 1000, [3]curve{steady(5), steady(3000), steady(5)}},
		{"slow", 20, 20, [3]curve{steady(24), steady(4.5), steady(1.5)}},
	} {
		for _, net := range []network{lan, wan} {
			w := newWorld(1, document(c.rate, "second", c.burst, "0.1"), "ap", "eu", "us")
			w.delay, w.commit = net.delay, net.commit
			w.run(quota.Second)
			start := seconds(w.now)
			for i, r := range w.regions {
				r.demand[shop] = func(s float64) float64 { return c.loads[i](s - start) }
			}
			w.run(3 * quota.Second)
			ce := w.central[shop]
			i0, a0 := ce.ideal, ce.admitted
			var full [3]float64
			var missing, pool, stock float64
			const secs = 60
			for ms := 0; ms < secs*1000; ms++ {
				w.run(1000)
				sum := 0.0
				for i, r := range w.regions {
					b := r.bucket(shop, w.now)
					cp, _ := r.inForce(shop, b, w.now)
					sum += cp.Rate.PerSecond()
					if l, _ := cp.Refill(min(b.level, cp.Burst), w.now-b.at); l >= cp.Burst {
						full[i] += cp.Rate.PerSecond() / 1000 / secs
					}
					stock += tokens(b.level) / 1000 / secs
				}
				if a := w.l.Account(shop); a != nil {
					pool += a.Pool().Rate.PerSecond() / 1000 / secs
				}
				missing += (float64(c.rate) - sum) / 1000 / secs
			}
			R := float64(c.rate) / 100
			fmt.Printf("%-5s %-15s eff %.2f  startloss %.0f tokens; percent of R: missing %.2f (pool %.2f) overflow %.2f %.2f %.2f; stock %.0f\n", c.name, net.name,
				100*float64(ce.admitted-a0)/float64(ce.ideal-i0), tokens(i0-a0), missing/R, pool/R, full[0]/R, full[1]/R, full[2]/R, stock)
		}
	}
}
