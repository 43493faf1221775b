package sim

import (
	"context"
	"runtime"
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
	// Progress is called now and then with the number of runs done. It may be nil.
	Progress func(done int)
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
				done := total.Seeds
				if o.Progress != nil {
					o.Progress(done)
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
