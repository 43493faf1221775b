package demo

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/check"
	"github.com/quorate/quorate/sim/live"
)

// Summary is what a demo measured. The JSON names are an interface.
type Summary struct {
	Regions   int     `json:"regions"`
	DurationS float64 `json:"duration_s"`
	Seed      uint64  `json:"seed"`
	// Partial says that the demo was ended early.
	Partial   bool   `json:"partial"`
	Store     string `json:"store"`
	LimitPerS uint32 `json:"limit_per_s"`
	Burst     uint32 `json:"burst"`

	// Requests: Offered = Admitted + Denied + Failed + Dropped.
	Offered  int64 `json:"offered"`
	Admitted int64 `json:"admitted"`
	Denied   int64 `json:"denied"`
	Failed   int64 `json:"failed"`
	Dropped  int64 `json:"dropped"`
	// Ideal is what one central bucket would have admitted of the same arrivals.
	Ideal       int64   `json:"ideal"`
	Utilization float64 `json:"utilization"`

	// OvershootTokens is the proven overshoot in the worst window; the other two
	// take the time of the answer, and the worst case of what the auditor's
	// clock cannot know.
	OvershootTokens         float64 `json:"overshoot_tokens"`
	OvershootRawTokens      float64 `json:"overshoot_raw_tokens"`
	OvershootPossibleTokens float64 `json:"overshoot_possible_tokens"`
	BoundViolations         int     `json:"bound_violations"`
	// WallClockAheadMS is how far this machine's wall clock, which the stores
	// read, jumped ahead during the run; the overshoot is beyond what that explains.
	WallClockAheadMS float64 `json:"wall_clock_ahead_ms"`

	LeaderChanges int   `json:"leader_changes"`
	Partitions    int   `json:"partitions"`
	DecisionP50US int64 `json:"decision_p50_us"`
	DecisionP99US int64 `json:"decision_p99_us"`

	PerRegion []RegionSummary `json:"per_region"`
	Events    []EventSummary  `json:"events"`
}

// RegionSummary is one region's part of a Summary.
type RegionSummary struct {
	Name     string `json:"name"`
	Agents   int    `json:"agents"`
	Offered  int64  `json:"offered"`
	Admitted int64  `json:"admitted"`
	Denied   int64  `json:"denied"`
	Failed   int64  `json:"failed"`
	Dropped  int64  `json:"dropped"`
}

// EventSummary is an Event of a Summary.
type EventSummary struct {
	AtS  float64 `json:"at_s"`
	Text string  `json:"text"`
}

func summarize(o Options, w *live.World, took time.Duration, t live.Tally, audit check.Report, sight live.Sight, events []Event, partitions int) Summary {
	s := Summary{
		Regions: len(w.Regions()), DurationS: math.Round(took.Seconds()*1000) / 1000, Seed: o.Seed,
		Partial: took < o.Duration, Store: "embedded", LimitPerS: o.Rate, Burst: o.Burst,
		Offered: t.Counts.Offered.Floor(), Admitted: t.Counts.Admitted.Floor(), Denied: t.Counts.Denied.Floor(),
		Failed: t.Counts.Failed.Floor(), Dropped: t.Counts.Dropped.Floor(),
		Ideal: t.Ideal.Floor(), Utilization: math.Round(t.Utilization()*10_000) / 10_000,
		OvershootTokens: tokens(audit.Certain), OvershootRawTokens: tokens(audit.Raw), OvershootPossibleTokens: tokens(audit.Possible),
		WallClockAheadMS: float64(w.WallClockAhead().Microseconds()) / 1000,
		LeaderChanges:    sight.Changes, Partitions: partitions,
		DecisionP50US: int64(t.P50), DecisionP99US: int64(t.P99),
		Events: []EventSummary{},
	}
	if audit.Broken() {
		s.BoundViolations = 1
	}
	for _, r := range w.Regions() {
		if r.Redis() != nil {
			s.Store = "redis"
		}
		c := t.Regions[r.Name]
		s.PerRegion = append(s.PerRegion, RegionSummary{
			Name: r.Name, Agents: len(r.Agents), Offered: c.Offered.Floor(), Admitted: c.Admitted.Floor(),
			Denied: c.Denied.Floor(), Failed: c.Failed.Floor(), Dropped: c.Dropped.Floor(),
		})
	}
	for _, e := range events {
		s.Events = append(s.Events, EventSummary{AtS: math.Round(e.At.Seconds()*10) / 10, Text: e.Text})
	}
	return s
}

func tokens(t quota.Tokens) float64 { return float64(t) / float64(quota.Token) }

// Broken reports whether the Bound was broken.
func (s Summary) Broken() bool { return s.BoundViolations > 0 }

// Write prints the summary for people.
func (s Summary) Write(out io.Writer) {
	verdict := "kept"
	if s.Broken() {
		verdict = "BROKEN"
	}
	partial := ""
	if s.Partial {
		partial = ", ended early"
	}
	fmt.Fprintf(out, "\n%d regions on %s, %.1f s%s, seed %d\n", s.Regions, s.Store, s.DurationS, partial, s.Seed)
	clock := ""
	if s.WallClockAheadMS > 0 {
		clock = fmt.Sprintf("; this machine's wall clock jumped %g ms ahead, which is allowed for", s.WallClockAheadMS)
	}
	for _, line := range []struct {
		name  string
		value string
	}{
		{"limit", fmt.Sprintf("%d/s, burst %d", s.LimitPerS, s.Burst)},
		{"offered", fmt.Sprint(s.Offered)},
		{"admitted", fmt.Sprint(s.Admitted)},
		{"denied", fmt.Sprint(s.Denied)},
		{"no answer", fmt.Sprintf("%d (%d failed, %d not sent)", s.Failed+s.Dropped, s.Failed, s.Dropped)},
		{"ideal", fmt.Sprintf("%d, by one central bucket", s.Ideal)},
		{"utilization", fmt.Sprintf("%.1f %%", 100*s.Utilization)},
		{"bound", fmt.Sprintf("%s: worst overshoot %g tokens proven, %g possible between asking and answer%s", verdict, s.OvershootTokens, s.OvershootPossibleTokens, clock)},
		{"on the way", fmt.Sprintf("%d leader changes, %d partitions", s.LeaderChanges, s.Partitions)},
		{"decisions", fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", float64(s.DecisionP50US)/1000, float64(s.DecisionP99US)/1000)},
	} {
		fmt.Fprintf(out, "  %-12s %s\n", line.name, line.value)
	}
}
