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

// LoadSpec is demand for one identity in one region. Requests go to the region's
// agents in turn, as Envoy's messages, and arrive by their own clock: a slow
// answer does not hold back the next request.
type LoadSpec struct {
	Region string
	Track  *Track
	// Demand is requests a second over the time since the load began.
	Demand workload.Curve
	// Cost is the hits_addend of each request. Default 1.
	Cost uint32
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
	request *rls.RateLimitRequest // shared: sending does not change it
	cost    quota.Tokens
}

// Load starts a load. It runs until Stop or until the World closes.
func (w *World) Load(spec LoadSpec) (*Load, error) {
	r := w.Region(spec.Region)
	switch {
	case r == nil:
		return nil, fmt.Errorf("%w: no region %q", ErrLoad, spec.Region)
	case spec.Track == nil:
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
	descriptor := &ratelimitv3.RateLimitDescriptor{}
	for _, e := range spec.Track.Identity.Entries {
		descriptor.Entries = append(descriptor.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{
		spec: spec, agents: agents, slots: semaphore.NewWeighted(spec.Waiting), cancel: cancel,
		cost: quota.Whole(uint64(spec.Cost)),
		request: &rls.RateLimitRequest{
			Domain: spec.Track.Identity.Domain, HitsAddend: spec.Cost,
			Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor},
		},
	}
	w.mu.Lock()
	w.loads = append(w.loads, l)
	stream := uint64(len(w.loads))
	w.mu.Unlock()
	arrivals := workload.NewArrivals(spec.Demand, w.opts.Seed, stream)
	l.running.Go(func() { l.dispatch(ctx, arrivals) })
	return l, nil
}

// Stop ends the load and waits for the answers that are still on the way.
func (l *Load) Stop() {
	l.cancel()
	l.running.Wait()
}

// dispatch starts each request when it is due.
func (l *Load) dispatch(ctx context.Context, arrivals *workload.Arrivals) {
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at, ok := arrivals.Next()
		if !ok {
			return
		}
		if wait := time.Until(start.Add(at)); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		} else if ctx.Err() != nil {
			return
		}
		sent := l.spec.Track.arrive(l.spec.Region, l.cost)
		if !l.slots.TryAcquire(1) {
			l.spec.Track.settle(l.spec.Region, l.cost, sent, dropped)
			continue
		}
		l.running.Go(func() {
			defer l.slots.Release(1)
			l.spec.Track.settle(l.spec.Region, l.cost, sent, l.ask())
		})
	}
}

// ask sends one request to the next agent. Its context is its own: an answer
// that is on the way when the load stops still counts.
func (l *Load) ask() outcome {
	ctx, cancel := context.WithTimeout(context.Background(), l.spec.Timeout)
	defer cancel()
	agent := l.agents[l.turn.Add(1)%uint64(len(l.agents))]
	answer, err := rls.NewRateLimitServiceClient(agent.conn).ShouldRateLimit(ctx, l.request)
	switch {
	case err != nil:
		return failed
	case answer.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT:
		return denied
	}
	return admitted // as Envoy does: whatever is not over the limit passes
}
