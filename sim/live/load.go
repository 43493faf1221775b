package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/sync/semaphore"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/workload"
)

// Request is one request of a load.
type Request struct {
	At    time.Duration // since the load began
	Track *Track
	Cost  uint32 // its hits_addend
}

// LoadSpec is demand in one region, as a rule for one identity. Requests go to the
// region's agents in turn, as Envoy's messages, and arrive by their own clock: a slow
// answer does not hold back the next request.
type LoadSpec struct {
	Region string
	Track  *Track
	// Demand is requests a second over the time since the load began.
	Demand workload.Curve
	// Cost is the hits_addend of each request. Default 1.
	Cost uint32
	// Requests, when set, returns one request after the other, in the place of Track,
	// Demand and Cost; ok is false when there will be none.
	Requests func() (r Request, ok bool)
	// Agent, when set, is the only agent that is asked: its number from 1.
	Agent int
	// Waiting bounds the requests that wait for their answers; what arrives
	// beyond is dropped. Default 512.
	Waiting int64
	// Timeout of a request. Default 1 s.
	Timeout time.Duration
}

// ErrLoad means that a load cannot run as described.
var ErrLoad = errors.New("invalid load")

// Load is a running load.
type Load struct {
	spec    LoadSpec
	agents  []*Agent
	slots   *semaphore.Weighted
	cancel  context.CancelFunc
	running sync.WaitGroup
	turn    atomic.Uint64
}

// Load starts a load. It runs until Stop or until the World closes.
func (w *World) Load(spec LoadSpec) (*Load, error) {
	r := w.Region(spec.Region)
	switch {
	case r == nil:
		return nil, fmt.Errorf("%w: no region %q", ErrLoad, spec.Region)
	case spec.Track == nil && spec.Requests == nil:
		return nil, fmt.Errorf("%w: no track", ErrLoad)
	case spec.Agent < 0 || spec.Agent > len(r.Agents):
		return nil, fmt.Errorf("%w: region %s has no agent %d", ErrLoad, spec.Region, spec.Agent)
	}
	if err := spec.Demand.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLoad, err)
	}
	if spec.Cost == 0 {
		spec.Cost = 1
	}
	if spec.Waiting == 0 {
		spec.Waiting = 512
	}
	if spec.Timeout == 0 {
		spec.Timeout = time.Second
	}
	agents := r.Agents
	if spec.Agent > 0 {
		agents = agents[spec.Agent-1 : spec.Agent]
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{spec: spec, agents: agents, slots: semaphore.NewWeighted(spec.Waiting), cancel: cancel}
	w.mu.Lock()
	w.loads = append(w.loads, l)
	stream := uint64(len(w.loads))
	w.mu.Unlock()
	if spec.Requests == nil {
		arrivals := workload.NewArrivals(spec.Demand, w.opts.Seed, stream)
		l.spec.Requests = func() (Request, bool) {
			at, ok := arrivals.Next()
			return Request{at, spec.Track, spec.Cost}, ok
		}
	}
	l.running.Go(func() { l.dispatch(ctx) })
	return l, nil
}

// Stop ends the load and waits for the answers that are still on the way.
func (l *Load) Stop() {
	l.cancel()
	l.running.Wait()
}

// dispatch starts each request when it is due.
func (l *Load) dispatch(ctx context.Context) {
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		r, ok := l.spec.Requests()
		if !ok {
			return
		}
		if wait := time.Until(start.Add(r.At)); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		} else if ctx.Err() != nil {
			return
		}
		cost := quota.Whole(uint64(r.Cost))
		sent := r.Track.arrive(l.spec.Region, cost)
		if !l.slots.TryAcquire(1) {
			r.Track.settle(l.spec.Region, cost, sent, dropped)
			continue
		}
		l.running.Go(func() {
			defer l.slots.Release(1)
			r.Track.settle(l.spec.Region, cost, sent, l.ask(r))
		})
	}
}

// ask sends one request to the next agent. Its context is its own: an answer
// that is on the way when the load stops still counts.
func (l *Load) ask(r Request) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), l.spec.Timeout)
	defer cancel()
	agent := l.agents[l.turn.Add(1)%uint64(len(l.agents))]
	answer, err := rls.NewRateLimitServiceClient(agent.conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{
		Domain: r.Track.Identity.Domain, HitsAddend: r.Cost,
		Descriptors: []*ratelimitv3.RateLimitDescriptor{r.Track.descriptor},
	})
	switch {
	case err != nil:
		return failed
	case answer.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT:
		return denied
	}
	return admitted // as Envoy does: whatever is not over the limit passes
}
