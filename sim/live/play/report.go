package play

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/live"
)

// Report is what a run measured. The JSON names are an interface; what a run in
// virtual time has, too, has the same name.
type Report struct {
	Plan  string `json:"plan"`
	About string `json:"about,omitempty"`
	Seed  uint64 `json:"seed"`
	// DurationS is how long the load ran, with the time after everything had healed.
	DurationS float64 `json:"duration_s"`
	// Partial says that the run was ended early: then fair shares were not measured.
	Partial      bool     `json:"partial"`
	Coordinators int      `json:"coordinators"`
	Store        string   `json:"store"`
	TTLS         float64  `json:"ttl_s"`
	Regions      []Region `json:"regions"`
	Keys         []Key    `json:"keys"`
	// Utilization is that of the first key.
	Utilization float64 `json:"utilization"`
	// Violations are the promises that were broken: Bound, Worst or Liveness.
	Violations []sim.Violation `json:"violations"`
	// Shares is how many regions were measured against their fair share of a key,
	// SharesUnjudged how many more had too few requests for that.
	Shares         int `json:"shares_judged"`
	SharesUnjudged int `json:"shares_unjudged"`
	// Windows is how often that was measured until every region had its fair share: at
	// most three times, as the machine may have been too busy.
	Windows int `json:"share_windows"`
	// Counts is how often each kind of fault was made.
	Counts        sim.Counts `json:"counts"`
	LeaderChanges int        `json:"leader_changes"`
	FailOvers     int        `json:"fail_overs"`
	// WallClockAheadMS is how far this machine's wall clock, which the stores read,
	// jumped ahead during the run, which the audit allows for.
	WallClockAheadMS float64 `json:"wall_clock_ahead_ms"`
	// The latencies of the decisions about the first key.
	DecisionP50US int64   `json:"decision_p50_us"`
	DecisionP99US int64   `json:"decision_p99_us"`
	Events        []Event `json:"events"`

	plan  sim.Plan // as it was played
	marks []mark
	cells map[string][]sim.Cell
}

// Region is one region of a Report, its requests in tokens: Offered is the sum of
// the others.
type Region struct {
	Name     string `json:"name"`
	Agents   int    `json:"agents"`
	Weight   int64  `json:"weight"`
	Offered  int64  `json:"offered"`
	Admitted int64  `json:"admitted"`
	Denied   int64  `json:"denied"`
	Failed   int64  `json:"failed"`
	Dropped  int64  `json:"dropped"`
}

// Key is one key of a Report. Its Overshoot is what is proven.
type Key struct {
	Name string `json:"name"`
	sim.KeyReport
	// Failed got no decision, and Dropped was never sent.
	Failed  quota.Tokens `json:"failed_micro"`
	Dropped quota.Tokens `json:"dropped_micro"`
	// Possible is the overshoot that there may have been between asking and answer,
	// Allowed the Worst case: what the assumptions that were broken on purpose allow.
	Possible quota.Tokens `json:"overshoot_possible_micro"`
	Allowed  quota.Tokens `json:"overshoot_allowed_micro"`
	Verdict  Verdict      `json:"verdict"`
}

// mark is a fault of the scenario on the time axis.
type mark struct {
	at   quota.Micros
	text string
}

// Broken reports whether any promise was broken.
func (r Report) Broken() bool { return len(r.Violations) > 0 }

func (r *Region) add(c live.Counts) {
	r.Offered += c.Offered.Floor()
	r.Admitted += c.Admitted.Floor()
	r.Denied += c.Denied.Floor()
	r.Failed += c.Failed.Floor()
	r.Dropped += c.Dropped.Floor()
}

// report makes the report of the run so far.
func (r *run) report(partial bool, sight live.Sight) Report {
	took := r.conductor.now()
	out := Report{
		Plan: r.plan.Name, About: r.About, Seed: r.seed, DurationS: round(took), Partial: partial,
		Coordinators: r.coordinators, Store: string(r.store), TTLS: r.timing.TTL.Seconds(),
		Violations: []sim.Violation{}, LeaderChanges: sight.Changes, Windows: r.windows,
		WallClockAheadMS: float64(r.world.WallClockAhead().Microseconds()) / 1000,
		plan:             r.plan, cells: r.series.cells,
	}
	out.plan.Duration = min(quota.MicrosOf(took), r.span+quota.MicrosOf(time.Duration(max(0, r.windows-1))*r.window()))
	for _, e := range r.events {
		out.marks = append(out.marks, mark{e.At, e.String()})
	}
	out.Events, out.Counts = r.conductor.history()
	tallies := r.tally()
	out.DecisionP50US, out.DecisionP99US = int64(tallies[0].P50), int64(tallies[0].P99)
	out.Utilization = math.Round(tallies[0].Utilization()*10_000) / 10_000
	for i, one := range r.plan.Regions {
		region := Region{Name: one.Name, Agents: one.Agents, Weight: one.Weight}
		for _, t := range tallies {
			region.add(t.Regions[one.Name])
		}
		out.Regions = append(out.Regions, region)
		out.FailOvers += r.world.Regions()[i].FailOvers()
	}
	for k, t := range tallies {
		out.Keys = append(out.Keys, r.key(k, t, &out))
	}
	return out
}

// key reports one key, and adds what was broken of it.
func (r *run) key(k int, t live.Tally, out *Report) Key {
	audit, allowed, verdict := r.judge(k)
	one := r.plan.Keys[k]
	var names []string
	for _, e := range one.Entries {
		names = append(names, e.Key+"="+e.Value)
	}
	key := Key{
		Name: strings.Join(names, ","), Failed: t.Counts.Failed, Dropped: t.Counts.Dropped,
		Possible: audit.Possible, Allowed: allowed, Verdict: verdict,
		KeyReport: sim.KeyReport{
			Key:     r.set.Match(one.Domain, one.Entries).Key(one.Domain, one.Entries, 0),
			Offered: t.Counts.Offered, Admitted: t.Counts.Admitted, Denied: t.Counts.Denied, Ideal: t.Ideal,
			DeniedWhileThere: t.DeniedWhileThere, Overshoot: audit.Certain,
			Regions: map[string]quota.Tokens{}, Limit: r.limits[k].Limit,
		},
	}
	for name, c := range t.Regions {
		key.Regions[name] = c.Admitted
	}
	broken := func(promise, format string, args ...any) {
		out.Violations = append(out.Violations, sim.Violation{Promise: promise, At: out.plan.Duration, What: fmt.Sprintf(format, args...)})
	}
	if verdict == Broken && allowed == 0 {
		broken("Bound", "%v tokens more of %s than B + R*W in some window", audit.Certain, key.Name)
	} else if verdict == Broken {
		broken("Worst", "%v tokens more of %s than B + R*W in some window, and %v is the most that the broken assumptions allow", audit.Certain, key.Name, allowed)
	}
	for _, s := range r.fair(k) {
		if !s.judged() {
			out.SharesUnjudged++
			continue
		}
		out.Shares++
		if s.missed() {
			broken("Liveness", "of %s %v", key.Name, s)
		}
	}
	return key
}

func round(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }
