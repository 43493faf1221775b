package live

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

const (
	// sentinels watch a pair.
	sentinels = 3
	// promotion bounds a fail-over, with a second attempt of the Sentinels.
	promotion = 30 * time.Second
	lookEvery = 50 * time.Millisecond
)

// pair is a primary and a replica on real servers, watched by real Sentinels. Agents
// ask the Sentinels who is the primary, as in production.
type pair struct {
	watched  *redistest.Watched
	cancel   context.CancelFunc
	watching sync.WaitGroup

	mu       sync.Mutex
	primary  *redistest.Server
	promoted int
}

// openPair starts a pair with its Sentinels and returns when they could fail over.
func (w *World) openPair(region string) (*pair, error) {
	watched, err := redistest.StartWatched(redistest.Options{Dir: filepath.Join(w.dir, "redis-"+region), Group: w.group()}, 1, sentinels)
	if err != nil {
		return nil, fmt.Errorf("start a pair: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &pair{watched: watched, cancel: cancel, primary: watched.Servers[0]}
	p.watching.Go(func() { p.watch(ctx) })
	return p, nil
}

func (p *pair) current() *redistest.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.primary
}

func (p *pair) changes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.promoted
}

// watch asks for the primary until ctx ends.
func (p *pair) watch(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if primary, err := p.watched.Primary(); err == nil { // or the next look sees it
			p.mu.Lock()
			if p.primary != primary {
				p.primary = primary
				p.promoted++
			}
			p.mu.Unlock()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// failOver is Region.FailOver.
func (p *pair) failOver(ctx context.Context) error {
	old := p.current()
	if err := old.Kill(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, promotion)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for p.current() == old {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait until the Sentinels promote a Redis: %w", ctx.Err()), old.Restart(true))
		}
	}
	if err := old.Restart(true); err != nil {
		return err
	}
	return p.follow(ctx, old)
}

// follow makes a server a replica of the primary, unless it is the primary.
func (p *pair) follow(ctx context.Context, server *redistest.Server) error {
	primary := p.current()
	if server == primary || ctx.Err() != nil {
		return ctx.Err()
	}
	return server.ReplicaOf(primary)
}

func (p *pair) close() error {
	p.cancel()
	p.watching.Wait()
	return p.watched.Stop()
}
