package play

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/report"
)

// Write prints the report for people, as that of a run in virtual time.
func (r Report) Write(out io.Writer) error {
	page := report.Live{
		Run: report.Run{About: r.About, Plan: r.plan, Result: sim.Report{
			Plan: r.Plan, Seed: r.Seed, Violations: r.Violations, Cells: r.cells,
		}},
		Parts: []string{
			fmt.Sprintf("%d coordinators", r.Coordinators),
			map[string]string{string(live.StoreRedis): "a Redis per region", string(live.StoreSentinel): "two Redis and three Sentinels per region"}[r.Store],
			fmt.Sprintf("sessions of %g s", r.TTLS),
		},
		Partial: r.Partial,
	}
	for _, m := range r.marks {
		page.Marks = append(page.Marks, report.Mark{At: m.at, Text: m.text})
	}
	for _, k := range r.Keys {
		page.Result.Keys = append(page.Result.Keys, k.KeyReport)
	}
	page.Lines = r.lines()
	return page.Write(out)
}

// lines are what only a run on real processes has.
func (r Report) lines() (lines []report.Line) {
	line := func(name string, parts ...string) { lines = append(lines, report.Line{Name: name, Parts: parts}) }
	worst := Key{}
	with := map[Verdict]int{}
	for _, k := range r.Keys {
		worst.Overshoot, worst.Possible = max(worst.Overshoot, k.Overshoot), max(worst.Possible, k.Possible)
		with[k.Verdict]++
	}
	line("overshoot", fmt.Sprintf("%v tokens in the worst window", worst.Overshoot), fmt.Sprintf("%v possible between asking and answer", worst.Possible))
	for _, v := range []Verdict{Within, Unjudged} {
		if n := with[v]; n > 0 {
			line("bound", fmt.Sprintf("of %d keys %s", n, v))
		}
	}
	var failed, dropped int64
	for _, one := range r.Regions {
		failed, dropped = failed+one.Failed, dropped+one.Dropped
	}
	if failed+dropped > 0 {
		line("requests", fmt.Sprintf("%d failed", failed), fmt.Sprintf("%d not sent", dropped))
	}
	line("decisions", fmt.Sprintf("p50 %.1f ms", float64(r.DecisionP50US)/1000), fmt.Sprintf("p99 %.1f ms", float64(r.DecisionP99US)/1000))
	var faults []string
	for _, what := range slices.Sorted(maps.Keys(r.Counts)) {
		faults = append(faults, fmt.Sprintf("%d %s", r.Counts[what], what))
	}
	if len(faults) > 0 {
		line("faults fired", faults...)
	}
	line("seen", fmt.Sprintf("%d leader changes", r.LeaderChanges), fmt.Sprintf("%d Redis fail-overs", r.FailOvers))
	if !r.Partial {
		parts := []string{fmt.Sprintf("%d judged", r.Shares), fmt.Sprintf("%d with too few requests for it", r.SharesUnjudged)}
		if r.Windows > 1 {
			parts = append(parts, fmt.Sprintf("measured %d times", r.Windows))
		}
		line("fair shares", parts...)
	}
	if r.WallClockAheadMS > 0 {
		line("wall clock", fmt.Sprintf("jumped %g ms ahead on this machine, which is allowed for", r.WallClockAheadMS))
	}
	return lines
}
