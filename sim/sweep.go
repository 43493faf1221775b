package sim

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/quorate/quorate/coordinator/quota"
)

// Sweep is what many runs found together.
type Sweep struct {
	Seeds int `json:"seeds"`
	// LongWorlds are the seeds with a world of many hours, see Long.
	LongWorlds int     `json:"long_worlds"`
	SimHours   float64 `json:"sim_hours"`
	Violations int     `json:"violations"` // runs that broke a promise
	// WorstOvershoot is the largest of all runs; WorstOverBound is the same for
	// the runs that kept every assumption, where it must be 0.
	WorstOvershoot float64 `json:"worst_overshoot_tokens"`
	WorstOverBound float64 `json:"worst_overshoot_over_bound"`
	// Faults and Sometimes count what happened in all runs: what was done to them,
	// and the states they reached.
	Faults    Counts `json:"faults_fired"`
	Sometimes Counts `json:"sometimes"`
	// Unreached are the states of which it is known that they can be reached, and
	// which no run did.
	Unreached []string `json:"unreached"`
	// Failed are the reports of the first runs that broke a promise, by seed.
	Failed []Report `json:"failed,omitempty"`
}

// SweepOptions bound a sweep.
type SweepOptions struct {
	First uint64 // the first seed
	Seeds int
	// StopAtFirst ends the sweep with the first broken promise.
	StopAtFirst bool
	// Plan makes the plan of a seed. Default Draw.
	Plan func(seed uint64) Plan
	// Progress is called after each run with the runs and virtual hours that are
	// done. It may be nil.
	Progress func(runs int, hours float64)
}

// maxFailed bounds the reports that a sweep keeps.
const maxFailed = 10

// RunSweep runs a plan for each of many seeds, on all cores, until all are done or
// ctx ends.
func RunSweep(ctx context.Context, o SweepOptions) (Sweep, error) {
	if o.Plan == nil {
		o.Plan = Draw
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seeds := make(chan uint64)
	go func() {
		defer close(seeds)
		for i := range uint64(o.Seeds) {
			select {
			case seeds <- o.First + i:
			case <-ctx.Done():
				return
			}
		}
	}()
	var mu sync.Mutex
	var failure error
	total := Sweep{Faults: Counts{}, Sometimes: Counts{}}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := range seeds {
				r, err := Run(o.Plan(seed), seed)
				mu.Lock()
				if err != nil {
					failure = err
					stop()
				} else if total.add(r) && o.StopAtFirst {
					stop()
				}
				if o.Progress != nil {
					o.Progress(total.Seeds, total.SimHours)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	for what := range states {
		if total.Faults[what]+total.Sometimes[what] == 0 {
			total.Unreached = append(total.Unreached, what)
		}
	}
	total.sort()
	return total, failure
}

// Clone returns a copy that shares nothing with s that Add changes.
func (s Sweep) Clone() Sweep {
	s.Faults, s.Sometimes = maps.Clone(s.Faults), maps.Clone(s.Sometimes)
	s.Unreached, s.Failed = slices.Clone(s.Unreached), slices.Clone(s.Failed)
	return s
}

// Add adds what another sweep, of other seeds, has found.
func (s *Sweep) Add(o Sweep) {
	s.Seeds += o.Seeds
	s.LongWorlds += o.LongWorlds
	s.SimHours += o.SimHours
	s.Violations += o.Violations
	s.WorstOvershoot = max(s.WorstOvershoot, o.WorstOvershoot)
	s.WorstOverBound = max(s.WorstOverBound, o.WorstOverBound)
	for what, n := range o.Faults {
		s.Faults[what] += n
	}
	for what, n := range o.Sometimes {
		s.Sometimes[what] += n
	}
	s.Unreached = slices.DeleteFunc(s.Unreached, func(what string) bool { return !slices.Contains(o.Unreached, what) })
	s.Failed = append(s.Failed, o.Failed...)
	s.sort()
	s.Failed = s.Failed[:min(len(s.Failed), maxFailed)]
}

// add adds one run and reports whether it broke a promise.
func (s *Sweep) add(r Report) bool {
	s.Seeds++
	if r.Plan == longName {
		s.LongWorlds++
	}
	s.SimHours += r.SimSeconds / 3600
	for what, n := range r.Counts {
		if states[what] == fired {
			s.Faults[what] += n
		} else {
			s.Sometimes[what] += n
		}
	}
	frozen := r.Counts["store clocks frozen"] > 0
	for _, k := range r.Keys {
		over := float64(k.Overshoot) / float64(quota.Token)
		s.WorstOvershoot = max(s.WorstOvershoot, over)
		if !frozen {
			s.WorstOverBound = max(s.WorstOverBound, over)
		}
	}
	if !r.Broken() {
		return false
	}
	s.Violations++
	if len(s.Failed) < maxFailed {
		s.Failed = append(s.Failed, r)
	}
	return true
}
