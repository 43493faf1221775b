package faults

import (
	"testing"
	"time"

	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/netproxy"
	"github.com/quorate/quorate/sim/workload"
)

// Answers that come later than they are believed, requests that arrive after
// their sender has given up, and streams that break between a request and its
// answer, so that everything is said twice.
func TestLateAndRepeatedSyncs(t *testing.T) {
	t.Parallel()
	const share = perSecond / 5 / 2 // what each region owns for ever
	s := open(t, document(rule("api", perSecond, "standing_share: 0.2")), live.Options{Regions: twoRegions()})
	tr := s.audited("api", perSecond)
	s.offer(tr, 1.5*perSecond, both...)
	s.recovers("start", tr, patience, both...)

	// The round trip is 0.2 s above timing.Answer: from now on nothing is
	// believed, although everything arrives.
	slow := timing().Answer/2 + 100*time.Millisecond
	s.delay("us", slow)
	s.forgotten("late answers", "us")
	s.onShare("late answers", tr, share, 2*time.Second, "us")
	s.delay("us", 0)
	s.recovers("the line is fast again", tr, 10*time.Second, both...)

	// Held for longer than an answer is believed, then delivered all at once,
	// several times: old requests reach the coordinator beside new ones.
	eu := s.Region("eu")
	for range 3 {
		eu.Cut()
		s.watch(timing().Answer+200*time.Millisecond, tr)
		eu.Heal()
		s.watch(300*time.Millisecond, tr)
	}
	s.recovers("held and delivered late", tr, 10*time.Second, both...)

	// Demand jumps from one region to the other all the time, so that there is
	// always an assignment or its confirmation on a line that breaks.
	extra := []*live.Load{
		s.load(live.LoadSpec{Region: "eu", Track: tr, Demand: jumps(0)}),
		s.load(live.LoadSpec{Region: "us", Track: tr, Demand: jumps(500 * time.Millisecond)}),
	}
	s.delay("eu", 10*time.Millisecond)
	s.delay("us", 10*time.Millisecond)
	for range 30 {
		s.watch(100*time.Millisecond, tr)
		for _, r := range s.Regions() {
			for _, c := range s.Coordinators() {
				r.Agent(0).Link(c.Name).Reset()
			}
		}
	}
	stop(extra)
	s.recovers("lines that break", tr, 10*time.Second, both...)
	s.bound(tr)
}

// delay changes the one-way delay between a region and all coordinators.
func (s *scene) delay(region string, d time.Duration) {
	for _, a := range s.Region(region).Agents {
		for _, c := range s.Coordinators() {
			a.Link(c.Name).SetDelay(netproxy.Delay{Min: d, Max: d})
		}
	}
}

// jumps is demand of twice the limit in half of every second, from at on.
func jumps(at time.Duration) workload.Curve {
	c := workload.Flash(0, 2*perSecond, at, 500*time.Millisecond)
	c.Period = time.Second
	return c
}
