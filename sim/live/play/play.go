package play

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/live"
)

// Run plays a scenario on a World that it builds and closes, and returns what was
// measured: all of it, or what there was when ctx ended. What the scenario has wrong
// is a rules.Problems. Another error means that a part failed: a node ended by itself, or
// a fault could not be made.
func Run(ctx context.Context, o Options) (Report, error) {
	s, err := prepare(o)
	if err != nil {
		return Report{}, err
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	return s.run(ctx, o)
}

func (s *stage) run(ctx context.Context, o Options) (Report, error) {
	fmt.Fprintf(o.Out, "starting %d coordinators and %d regions …\n", s.coordinators, len(s.plan.Regions))
	world, err := live.Start(ctx, s.world(o))
	if err != nil {
		return Report{}, err
	}
	r := &run{stage: s, world: world, conductor: newConductor(ctx, s, world, o.Out)}
	report, err := r.play(ctx)
	if err = errors.Join(err, world.Died(), world.Close()); err != nil {
		return report, fmt.Errorf("play the scenario: %w", err)
	}
	return report, nil
}

// run is one run of a stage.
type run struct {
	*stage
	world     *live.World
	conductor *conductor
	tracks    []*live.Track // by key
	streams   uint64
	series    *series
	windows   int          // in which fair shares were measured
	from, to  []live.Tally // of the last of them, by key
}

func (r *run) play(ctx context.Context) (Report, error) {
	for i, k := range r.plan.Keys {
		r.tracks = append(r.tracks, r.world.Track(live.Identity{Domain: k.Domain, Entries: k.Entries}, r.limits[i].Capacity))
	}
	var leases *live.Track // of several keys nobody could see them
	if len(r.tracks) == 1 {
		leases = r.tracks[0]
	}
	watch := r.world.Watch(leases)
	defer watch.Stop()
	r.series = newSeries(r.tracks, watch)
	sampling, stop := context.WithCancel(ctx)
	defer stop()
	var sampler sync.WaitGroup
	sampler.Go(func() { r.sample(sampling) })

	r.conductor.begin()
	loads, err := r.load(r.plan.Load)
	if err == nil {
		r.until(ctx, r.faults.Duration())
	}
	var ending sync.WaitGroup
	for _, l := range loads {
		ending.Go(l.Stop) // answers are still on the way
	}
	if err == nil && ctx.Err() == nil {
		loads, err = r.load(r.plan.Final)
	}
	err = errors.Join(err, r.conductor.settle(ctx))
	healed := r.conductor.now()
	if err == nil && ctx.Err() == nil {
		r.measure(ctx, healed)
		for _, l := range loads {
			ending.Go(l.Stop)
		}
	}
	ending.Wait()
	stop()
	sampler.Wait()
	return r.report(ctx.Err() != nil, watch.Sight()), err
}

// load starts loads. Their requests are those that a run in virtual time with the
// same seed has.
func (r *run) load(plan []sim.Load) (loads []*live.Load, err error) {
	for _, l := range plan {
		r.streams++
		requests := sim.NewRequests(l, r.seed, r.streams)
		one, err := r.world.Load(live.LoadSpec{Region: l.Region, Requests: func() (live.Request, bool) {
			at, key, cost, ok := requests.Next()
			if !ok {
				return live.Request{}, false
			}
			return live.Request{At: at.Duration(), Track: r.tracks[key], Cost: cost}, true
		}})
		if err != nil {
			return loads, err
		}
		loads = append(loads, one)
	}
	return loads, nil
}

// windows is how often fair shares are measured at most. In virtual time once is
// enough; here a session may be lost to a machine that is too busy for a moment, which
// is no fault of the region. What is really wrong is so in every window.
const windows = 3

// measure tallies what is admitted when every region must have its fair share.
func (r *run) measure(ctx context.Context, healed time.Duration) {
	for begin := healed + 3*r.timing.TTL; r.windows < windows; begin += r.window() {
		if !r.until(ctx, begin) {
			return
		}
		from := r.tally()
		if !r.until(ctx, begin+r.window()) {
			return
		}
		r.windows++
		r.from, r.to = from, r.tally()
		if r.windows == windows || !r.unfair() {
			return
		}
		r.from, r.to = nil, nil
		r.conductor.say("not every region has its fair share; measured once more")
	}
}

// window is how long fair shares are measured.
func (r *run) window() time.Duration {
	return max((r.span - r.measureFrom()).Duration(), time.Second)
}

// unfair reports whether a region has missed its fair share of a key.
func (r *run) unfair() bool {
	for k := range r.tracks {
		for _, s := range r.fair(k) {
			if s.judged() && s.missed() {
				return true
			}
		}
	}
	return false
}

func (r *run) tally() (all []live.Tally) {
	for _, t := range r.tracks {
		all = append(all, t.Tally())
	}
	return all
}

// until waits for a time of the load; ok is false when ctx ends before.
func (r *run) until(ctx context.Context, at time.Duration) (ok bool) {
	timer := time.NewTimer(at - r.conductor.now())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
