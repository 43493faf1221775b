package agentbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// connections is how many the load comes over, as an Envoy has one a worker.
const connections = 2

// load asks one server.
type load struct {
	conns   []*grpc.ClientConn
	clients []rls.RateLimitServiceClient
}

func dial(addr string) (*load, error) {
	l := new(load)
	for range connections {
		c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect to %s: %w", addr, err), l.close())
		}
		l.conns = append(l.conns, c)
		l.clients = append(l.clients, rls.NewRateLimitServiceClient(c))
	}
	return l, nil
}

func (l *load) close() error {
	var errs []error
	for _, c := range l.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// answers is what a load was told.
type answers struct {
	denied int
	took   []time.Duration // of each request, sorted
}

// run asks requests from as many callers for d. With a rate it starts so many a
// second and measures each from when it should have started; without one, each
// caller asks as soon as it has its answer.
func (l *load) run(ctx context.Context, requests []*rls.RateLimitRequest, callers int, rate float64, d time.Duration) (answers, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all answers
	var next atomic.Uint64
	began := time.Now()
	for i := range callers {
		wg.Go(func() {
			var own answers
			client := l.clients[i%len(l.clients)]
			pace := time.Duration(float64(callers) / rate * float64(time.Second))
			due := began.Add(pace * time.Duration(i) / time.Duration(callers))
			for time.Since(began) < d && ctx.Err() == nil {
				start := time.Now()
				if rate > 0 {
					if wait := due.Sub(start); wait > 0 {
						time.Sleep(wait)
						start = time.Now() // the sleep's own lateness is not the server's
					} else {
						start = due
					}
					due = due.Add(pace)
				}
				resp, err := client.ShouldRateLimit(ctx, requests[next.Add(1)%uint64(len(requests))])
				if err != nil {
					if ctx.Err() == nil {
						cancel(fmt.Errorf("ask: %w", err))
					}
					return
				}
				own.took = append(own.took, time.Since(start))
				if resp.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT {
					own.denied++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.denied += own.denied
			all.took = append(all.took, own.took...)
		})
	}
	wg.Wait()
	slices.Sort(all.took)
	if err := context.Cause(ctx); err != nil {
		return all, err
	}
	if len(all.took) == 0 {
		return all, errors.New("ask: no answer at all")
	}
	return all, nil
}

// at returns the latency that the fraction q of the requests did not exceed.
func (a answers) at(q float64) time.Duration {
	return a.took[min(len(a.took)-1, int(q*float64(len(a.took))))]
}
