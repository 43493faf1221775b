package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
)

// Result is one workload on one system. The JSON names are an interface.
type Result struct {
	Workload    string  `json:"workload"`
	System      string  `json:"system"`
	Utilization float64 `json:"utilization"`
	// OvershootTokens is the worst overshoot of any key over every window.
	OvershootTokens float64 `json:"overshoot_tokens"`
	// DeniedWhileAvailable are the tokens that were denied although one central
	// bucket, charged with all that was admitted, had them; see check.Spare.
	DeniedWhileAvailable float64 `json:"denied_while_available"`
	// TimeToFairMS is how long after a step of demand the region has a lease of
	// 95 % of its fair share; 0 where there is no step.
	TimeToFairMS float64 `json:"time_to_fair_ms"`
	// LogEntriesPerS and MessagesPerS are what the coordination costs.
	LogEntriesPerS float64 `json:"log_entries_per_s"`
	MessagesPerS   float64 `json:"messages_per_s"`
}

// ErrBroken means that quorate broke a promise in a run.
var ErrBroken = errors.New("a promise was broken")

// Systems are the names of what is measured, quorate first.
var Systems = []string{"quorate", "ideal", "static", "independent", "gossip"}

// Run measures a workload on every system, with the requests of a seed.
func Run(w Workload, seed uint64) ([]Result, error) {
	limit, err := limitOf(w.Plan)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	n := int64(len(w.Plan.Regions))
	part := quota.Capacity{
		Rate:  quota.Rate{Tokens: limit.Rate.Tokens / quota.Tokens(n), Per: limit.Rate.Per},
		Burst: limit.Burst / quota.Tokens(n),
	}
	own, err := RunQuorate(w, seed)
	if err != nil {
		return nil, err
	}
	results := []Result{own}
	central := newBuckets(limit)
	for _, s := range []struct {
		name string
		system
	}{
		{"ideal", oneRegion{central}},
		{"static", newBuckets(part)},
		{"independent", newBuckets(limit)},
		{"gossip", newGossip(limit, int(n))},
	} {
		r := measure(w.Plan, seed, limit, s.system)
		r.Workload, r.System = w.Name, s.name
		if s.name == "gossip" {
			r.MessagesPerS = float64(n*(n-1)) * float64(quota.Second) / float64(gossipEvery)
		}
		results = append(results, r)
	}
	return results, nil
}

// oneRegion asks one central bucket from everywhere.
type oneRegion struct{ *buckets }

func (o oneRegion) offer(r request) bool {
	r.region = 0
	return o.buckets.offer(r)
}

// RunQuorate measures a workload on quorate alone.
func RunQuorate(w Workload, seed uint64) (Result, error) {
	report, err := sim.Run(w.Plan, seed)
	if err != nil {
		return Result{}, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	if report.Broken() {
		return Result{}, fmt.Errorf("workload %s: %w: %s: %s", w.Name, ErrBroken, report.Violations[0].Promise, report.Violations[0].What)
	}
	out := Result{
		Workload: w.Name, System: "quorate", Utilization: 1,
		LogEntriesPerS: float64(report.Entries) / report.SimSeconds,
		MessagesPerS:   float64(report.Messages) / report.SimSeconds,
	}
	var admitted, ideal quota.Tokens
	for _, k := range report.Keys {
		admitted, ideal = admitted+k.Admitted, ideal+k.Ideal
		out.OvershootTokens = max(out.OvershootTokens, inTokens(k.Overshoot))
		out.DeniedWhileAvailable += inTokens(k.DeniedWhileThere)
	}
	if ideal > 0 {
		out.Utilization = float64(admitted) / float64(ideal)
	}
	if w.Step > 0 {
		out.TimeToFairMS = timeToFair(w, report)
	}
	return out, nil
}

// timeToFair returns how long after the step every region of w.Steps had a lease
// of 95 % of its fair share, in milliseconds; -1 if that never came.
func timeToFair(w Workload, r sim.Report) float64 {
	at := start + quota.MicrosOf(w.Step)
	fair := sim.FairShares(w.Plan, w.Step)
	worst := 0.0
	for _, region := range w.Steps {
		took := -1.0
		lease := 0.0
		for _, l := range r.Leases {
			if l.Region != region {
				continue
			}
			if l.At > at && lease >= 0.95*fair[region] {
				break
			}
			lease = l.Lease.Rate.PerSecond()
			if l.Lease.Rate.PerSecond() >= 0.95*fair[region] {
				took = max(0, float64(l.At-at)) / float64(quota.Second) * 1000
				if l.At > at {
					break
				}
			}
		}
		if took < 0 {
			return -1
		}
		worst = max(worst, took)
	}
	return worst
}

// Fair is the goal for the time to the fair share: three times a round trip and
// a commit. Source: DESIGN.md section 7.
const Fair = time.Duration(3*(2*oneWay+commit)) * time.Microsecond
