package agentbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// pinger measures the round trip to a Redis from this process, a thousand times a
// second at most.
type pinger struct {
	cancel context.CancelFunc
	done   chan struct{}
	took   []time.Duration
	err    error
}

func (p *pinger) start(addr string) {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.done = cancel, make(chan struct{})
	go func() { // ends with stop
		defer close(p.done)
		client := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
		defer func() { p.err = errors.Join(p.err, client.Close()) }()
		for ctx.Err() == nil {
			began := time.Now()
			if err := client.Ping(ctx).Err(); err != nil {
				if ctx.Err() == nil {
					p.err = fmt.Errorf("ping redis: %w", err)
				}
				return
			}
			p.took = append(p.took, time.Since(began))
			time.Sleep(time.Millisecond)
		}
	}()
}

// stop returns the p99; 0 when nothing was started.
func (p *pinger) stop() (time.Duration, error) {
	if p.cancel == nil {
		return 0, nil
	}
	p.cancel()
	<-p.done
	if len(p.took) == 0 {
		return 0, p.err
	}
	return answers{took: slices.Sorted(slices.Values(p.took))}.at(0.99), p.err
}
