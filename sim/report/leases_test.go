package report

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/fault"
	"github.com/quorate/quorate/sim/workload"
)

// A lease that stays is a line, one that swings is a bar, and two in one place are a star.
func TestLeasesAreDrawnTogether(t *testing.T) {
	have := "\n" + strings.Join(drawBands([]band{
		{low: []float64{100, 100, 20}, high: []float64{100, 100, 110}},
		{low: []float64{5, 100, 0}, high: []float64{5, 100, 0}},
	}), "\n")
	want := `
  120 |  1
      |1*1
      |  1
      |  1
      |  1
      |  1
   60 |  1
      |  1
      |  1
      |  1
      |
      |2 2`
	if have != want {
		t.Errorf("have%s\nwant%s", have, want)
	}
}

func TestLeasesSettleWhenNothingChangesAnyMore(t *testing.T) {
	const s = quota.Second
	plan := func(change func(p *sim.Plan)) sim.Plan {
		p := sim.Plan{Start: 5 * s, Duration: 65 * s, KeepLeases: true, Load: []sim.Load{{Curve: workload.Steady(3)}}}
		p.Faults.Network.Delay, p.Faults.DriftPPM = 75_000, 100
		change(&p)
		return p
	}
	for _, tt := range []struct {
		reason string
		change func(p *sim.Plan)
		from   quota.Micros // 0 for never
	}{
		{"steady from the beginning", func(*sim.Plan) {}, 15 * s},
		{"a step", func(p *sim.Plan) { p.Load[0].Curve = workload.Step(1, 2, 20*time.Second) }, 35 * s},
		{"an event", func(p *sim.Plan) { p.Events = []sim.Event{{At: 30 * s, Kind: sim.Elect}} }, 40 * s},
		{"a day and a night, again and again", func(p *sim.Plan) { p.Load[0].Curve = workload.FollowTheSun(2, 1, 2, 20*time.Second)[0] }, 0},
		{"faults at random", func(p *sim.Plan) { p.Faults = fault.Plan{Kills: 10 * s} }, 0},
		{"a step at the very end", func(p *sim.Plan) { p.Load[0].Curve = workload.Step(1, 2, 55*time.Second) }, 0},
		{"nobody has noted the leases", func(p *sim.Plan) { p.KeepLeases = false }, 0},
	} {
		if have, ok := settledFrom(plan(tt.change)); ok != (tt.from > 0) || ok && have != tt.from {
			t.Errorf("%s: have %v, %v, want %v", tt.reason, have.Duration(), ok, tt.from.Duration())
		}
	}
}
