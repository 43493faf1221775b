package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/quorate/quorate/regional"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
	"github.com/quorate/quorate/sim/netproxy"
)

// store is a region's Redis: embedded in the region's only agent, one server, or
// a pair of servers that Sentinels watch.
type store struct {
	server *redistest.Server // nil when embedded or a pair
	pair   *pair             // nil when there is no fail-over
	paused *redistest.Server // the one that Pause stopped
}

// ErrStore means that a store cannot do what is asked of it.
var ErrStore = errors.New("not possible with this store")

// openStores starts the stores of all regions, in their order. They begin at the same
// time, as Sentinels need seconds to find each other.
func (w *World) openStores() ([]*store, error) {
	all, problems := make([]*store, len(w.opts.Regions)), make([]error, len(w.opts.Regions))
	var opening sync.WaitGroup
	for i, spec := range w.opts.Regions {
		opening.Go(func() {
			var err error
			if all[i], err = w.openStore(spec.Store, spec.Name); err != nil {
				problems[i] = fmt.Errorf("store of region %s: %w", spec.Name, err)
			}
		})
	}
	opening.Wait()
	for _, s := range all {
		if s != nil {
			w.closers = append(w.closers, s.close)
		}
	}
	return all, errors.Join(problems...)
}

// openStore starts the redis-server of a region, or leaves it to the region's
// only agent to embed one.
func (w *World) openStore(kind Store, region string) (*store, error) {
	if kind == StoreAny {
		kind = StoreEmbedded
		if _, ok := redistest.Find(); ok {
			kind = StoreRedis
		}
	}
	switch kind {
	case StoreEmbedded:
		return &store{}, nil
	case StoreSentinel:
		p, err := w.openPair(region)
		if err != nil {
			return nil, err
		}
		return &store{pair: p}, nil
	}
	server, err := w.openRedis("redis-" + region)
	if err != nil {
		return nil, err
	}
	return &store{server: server}, nil
}

// openRedis starts a redis-server with a directory of its own.
func (w *World) openRedis(name string) (*redistest.Server, error) {
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make its directory: %w", err)
	}
	return redistest.Start(redistest.Options{Dir: dir, Group: w.group()})
}

// current is the server that agents should use, nil when embedded.
func (s *store) current() *redistest.Server {
	if s.pair != nil {
		return s.pair.current()
	}
	return s.server
}

// address is what an agent is told, with the link that leads it to the store, nil
// for none.
func (s *store) address(link *netproxy.Link) string {
	switch {
	case s.pair != nil:
		return s.pair.watched.URL()
	case s.server == nil:
		return regional.Embedded
	case link == nil:
		return s.server.URL()
	}
	return "redis://" + link.Addr()
}

func (s *store) close() error {
	switch {
	case s.pair != nil:
		return s.pair.close()
	case s.server != nil:
		return s.server.Stop()
	}
	return nil
}

// ResetStore restarts the region's Redis: with the data of the last SaveStore when
// keep is set, else empty. Of a pair it restarts the primary, sooner than the
// Sentinels notice.
func (r *Region) ResetStore(keep bool) error {
	return r.withRedis(func() error { return r.store.current().Restart(keep) })
}

// SaveStore writes the data of the region's Redis to its disk.
func (r *Region) SaveStore() error {
	return r.withRedis(func() error { return r.store.current().Save() })
}

// PauseStore stops the region's Redis in its tracks until ResumeStore; the
// Sentinels of a pair then promote the other one.
func (r *Region) PauseStore() error {
	return r.withRedis(func() error {
		if r.store.paused != nil {
			return nil
		}
		server := r.store.current()
		if err := server.Pause(); err != nil {
			return err
		}
		r.store.paused = server
		return nil
	})
}

// ResumeStore ends PauseStore. A primary that has been replaced meanwhile becomes a
// replica. It is no error when nothing is paused.
func (r *Region) ResumeStore(ctx context.Context) error {
	return r.withRedis(func() error {
		server := r.store.paused
		if server == nil {
			return nil
		}
		r.store.paused = nil
		if err := server.Resume(); err != nil {
			return err
		}
		if r.store.pair == nil {
			return nil
		}
		return r.store.pair.follow(ctx, server)
	})
}

// FailOver kills the primary of the region's pair, waits until the Sentinels have
// promoted the other server, and starts the killed one as its replica.
func (r *Region) FailOver(ctx context.Context) error {
	return r.withRedis(func() error {
		if r.store.pair == nil {
			return fmt.Errorf("%w: region %s has no second Redis to fail over to", ErrStore, r.Name)
		}
		if r.store.paused != nil {
			return fmt.Errorf("%w: a Redis of region %s is paused", ErrStore, r.Name)
		}
		return r.store.pair.failOver(ctx)
	})
}

// FailOvers is how often the Sentinels of the region have changed its primary.
func (r *Region) FailOvers() int {
	if r.store.pair == nil {
		return 0
	}
	return r.store.pair.changes()
}

// withRedis does one thing at a time to a region's Redis.
func (r *Region) withRedis(do func() error) error {
	if r.store.current() == nil {
		return fmt.Errorf("%w: region %s has its store inside its agent", ErrStore, r.Name)
	}
	r.storeMu.Lock()
	defer r.storeMu.Unlock()
	return do()
}
