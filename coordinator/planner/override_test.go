package planner

import (
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

// The limits of requests are divided as those of rules are: each beside the rule's own
// and beside the others, by demand, and never more than there is. Of a bound that was
// broken the central bucket would show a level below zero.
func TestLimitsOfRequestsAreDivided(t *testing.T) {
	const (
		ofRule = quota.Key("shop|user=bob##override+1+200")
		ofNone = quota.Key("shop|other=bob##override+60+6000")
		zero   = quota.Key("shop|user=bob##override+60+0")
	)
	w := newWorld(3, document(100, "second", 100, "0.3"), "ap", "eu", "us")
	for name, rates := range map[string][2]float64{"ap": {400, 20}, "eu": {50, 200}, "us": {0, 20}} {
		r := w.region(name)
		r.demand[ofRule], r.demand[ofNone], r.demand[zero] = steady(rates[0]), steady(rates[1]), steady(10)
		r.demand["shop|user=bob"] = steady(100)
	}
	w.run(30 * quota.Second)
	for _, k := range []quota.Key{ofRule, ofNone, "shop|user=bob"} {
		c := w.central[k]
		if c.worst < 0 {
			t.Errorf("%s is %v over its bound", k, -c.worst)
		}
		if e := c.efficiency(); e < 98 {
			t.Errorf("%s: %.1f %% of what one bucket admits, want 98", k, e)
		}
	}
	if c := w.central[zero]; c.admitted != 0 {
		t.Errorf("%v admitted of nothing", c.admitted)
	}
	a := w.l.Account(ofRule)
	ap, _ := a.Holding("ap")
	eu, _ := a.Holding("eu")
	if ap.Lease.Rate.Tokens < 2*eu.Lease.Rate.Tokens || eu.Lease.Rate.Tokens < quota.Whole(40) {
		t.Errorf("ap asks for 400 and eu for 50 of 200: they hold %v and %v", ap.Lease, eu.Lease)
	}
	if len(w.refusals) > 0 {
		t.Errorf("refused: %q", w.refusals)
	}

	// When nobody asks any more the accounts are forgotten, and equal to never seen.
	for _, r := range w.regions {
		clear(r.demand)
	}
	w.run(180 * quota.Second)
	if n := w.l.Len(); n > 0 {
		t.Errorf("%d accounts are left", n)
	}
}
