// Package memory is a region's store inside the process, without a Redis: the
// reference arithmetic of package bucket behind a mutex.
//
// It suits a region that is one process, which gives it to its agent as
// regional.Config.Store, and tests of applications. Its buckets end with the process,
// so that each start is a new incarnation of the region, and no second process can
// share it: the coordinator refuses one that takes the same region's name.
//
// Its clock is the wall clock, as that of Redis is: a machine that was suspended finds
// its leases expired, and a step forward refills a bucket once at most. In virtual time
// (testing/synctest) it is virtual, too.
package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/lease"
)

// Store is a region's store. It is safe for concurrent use.
type Store struct {
	mu     sync.Mutex
	bucket *bucket.Store
	swept  quota.Micros
}

func clock() quota.Micros { return quota.Micros(time.Now().UnixMicro()) }

// sweepEvery is how often records of full buckets are dropped, by whatever call comes
// then (a denial, too).
const sweepEvery = 10 * quota.Second

// New returns an empty store. A coordinator has to say whether it is the region's
// first; buckets of a region that had another before start empty.
func New() *Store {
	s := &Store{bucket: bucket.NewStore(), swept: clock()}
	s.bucket.Incarnate(s.swept, "memory-"+rand.Text())
	return s
}

// WithRules returns a store whose region has adopted a rule document already and owns
// all that is given to standing shares: what an agent that is alone serves. Buckets
// are full. Write `quota: {standing_share: 1}` where it should serve all of a limit.
// The error names every mistake in the document.
func WithRules(region, document string) (*Store, error) {
	blob, err := lease.Encode(quota.Config{
		Version: 1, Sources: []quota.Source{{Name: "rules", Text: document}},
		Shares: quota.Shares{{Region: region, Weight: 1}},
	}, region, nil)
	if err != nil {
		return nil, err
	}
	s := New()
	id := s.bucket.State(s.swept).Incarnation
	if err := errors.Join(s.bucket.MarkFirst(id), s.bucket.Adopt(s.swept, id, 1, blob)); err != nil {
		return nil, fmt.Errorf("adopt rules: %w", err)
	}
	return s, nil
}

// do runs one step of the store, as Redis runs one script.
func (s *Store) do(ctx context.Context, step func(b *bucket.Store, now quota.Micros) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("store in memory: %w: %w", enforce.ErrStoreDown, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := step(s.bucket, s.now())
	if errors.Is(err, bucket.ErrIncarnation) {
		err = fmt.Errorf("%w: %w", enforce.ErrStale, err)
	}
	return err
}

// now reads the clock and does what is due. The caller holds the mutex.
func (s *Store) now() quota.Micros {
	now := clock()
	if now-s.swept >= sweepEvery {
		s.swept = now
		s.bucket.Sweep(now)
	}
	return now
}

// Take implements enforce.Store.
func (s *Store) Take(ctx context.Context, t enforce.Take) (enforce.TakeResult, error) {
	for i := range t.Asks {
		if err := t.Asks[i].Valid(); err != nil {
			return enforce.TakeResult{}, fmt.Errorf("take from %q: %w", t.Asks[i].Key, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return enforce.TakeResult{}, fmt.Errorf("take in memory: %w: %w", enforce.ErrStoreDown, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.bucket.Current(t.Incarnation, t.Config) {
		return enforce.TakeResult{}, enforce.ErrStale
	}
	now := s.now()
	admitted, verdicts := s.bucket.Take(now, t.Asks)
	return enforce.TakeResult{Now: now, Admitted: admitted, Verdicts: verdicts}, nil
}

// Charge implements enforce.Store.
func (s *Store) Charge(ctx context.Context, incarnation string, charges []bucket.Charge) error {
	return s.do(ctx, func(b *bucket.Store, now quota.Micros) error { return b.Charge(now, incarnation, charges) })
}

// State implements uplink.Store.
func (s *Store) State(ctx context.Context) (st bucket.State, err error) {
	err = s.do(ctx, func(b *bucket.Store, now quota.Micros) error { st = b.State(now); return nil })
	return st, err
}

// Replaced implements uplink.Store: this store sees nobody's end but its own.
func (s *Store) Replaced() string { return "" }

// Renew implements uplink.Store.
func (s *Store) Renew(ctx context.Context, incarnation string, session quota.SessionID, deadline quota.Micros) error {
	return s.do(ctx, func(b *bucket.Store, now quota.Micros) error { return b.Renew(now, incarnation, session, deadline) })
}

// MarkFirst implements uplink.Store.
func (s *Store) MarkFirst(ctx context.Context, incarnation string) error {
	return s.do(ctx, func(b *bucket.Store, _ quota.Micros) error { return b.MarkFirst(incarnation) })
}

// Lend implements uplink.Store.
func (s *Store) Lend(ctx context.Context, incarnation string, lends []bucket.LendAsk, span quota.Micros) error {
	return s.do(ctx, func(b *bucket.Store, now quota.Micros) error { return b.Lend(now, incarnation, lends, span) })
}

// Lent implements regional.Store.
func (s *Store) Lent(ctx context.Context) (lent map[quota.Key]quota.Micros, err error) {
	err = s.do(ctx, func(b *bucket.Store, now quota.Micros) error {
		lent = b.Lent(now)
		return nil
	})
	return lent, err
}

// Drop implements uplink.Store.
func (s *Store) Drop(ctx context.Context, session quota.SessionID) error {
	return s.do(ctx, func(b *bucket.Store, _ quota.Micros) error { b.Drop(session); return nil })
}

// Apply implements uplink.Store.
func (s *Store) Apply(ctx context.Context, incarnation string, asks []bucket.ApplyAsk) (done []quota.Applied, err error) {
	err = s.do(ctx, func(b *bucket.Store, now quota.Micros) error {
		var refused error
		for _, a := range asks {
			applied, err := b.Apply(now, incarnation, a)
			if err != nil {
				refused = errors.Join(refused, err)
				continue
			}
			done = append(done, applied)
		}
		return refused
	})
	return done, err
}

// Adopt implements regional.Store.
func (s *Store) Adopt(ctx context.Context, incarnation string, version uint64, blob []byte) error {
	return s.do(ctx, func(b *bucket.Store, now quota.Micros) error { return b.Adopt(now, incarnation, version, blob) })
}

// Config implements regional.Store.
func (s *Store) Config(ctx context.Context) (current, prev bucket.Adopted, err error) {
	err = s.do(ctx, func(b *bucket.Store, _ quota.Micros) error { current, prev = b.Config(); return nil })
	return current, prev, err
}

// Read implements regional.Store.
func (s *Store) Read(ctx context.Context, key quota.Key) (rec bucket.Record, ok bool, err error) {
	err = s.do(ctx, func(b *bucket.Store, _ quota.Micros) error { rec, ok = b.Read(key); return nil })
	return rec, ok, err
}

// Close implements regional.Store. There is nothing to release.
func (s *Store) Close() error { return nil }
