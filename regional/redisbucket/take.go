package redisbucket

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

func (s *Store) bucketKey(k quota.Key) string { return s.bucketHead + string(k) + "}" }

// Take asks all buckets of t in one atomic step, together with whatever else
// waits for the store at that moment: see lane.
func (s *Store) Take(ctx context.Context, t enforce.Take) (enforce.TakeResult, error) {
	asks, index := bucket.Merge(t.Asks)
	for i := range asks {
		if err := asks[i].Valid(); err != nil {
			return enforce.TakeResult{}, fmt.Errorf("take from %q: %w", asks[i].Key, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return enforce.TakeResult{}, fmt.Errorf("take in regional store: %w: %w", enforce.ErrStoreDown, err)
	}
	var res enforce.TakeResult
	var err error
	if s.cluster != nil {
		res, err = s.cluster.take(ctx, t, asks)
	} else {
		id := s.identity(asks)
		res, err = s.ask(ctx, &s.lanes[id%uint64(len(s.lanes))], id, t, asks)
	}
	if err != nil {
		return enforce.TakeResult{}, err
	}
	res.Verdicts = bucket.Spread(res.Verdicts, index)
	return res, nil
}

// ask asks the buckets of one lane.
func (s *Store) ask(ctx context.Context, l *lane, id uint64, t enforce.Take, asks []bucket.Ask) (enforce.TakeResult, error) {
	w, err := s.enter(l, id, t, asks)
	if err != nil {
		return enforce.TakeResult{}, err
	}
	a := s.await(ctx, l, w, s.cfg.Budget)
	return a.result(asks)
}

// enter puts a request into a lane.
func (s *Store) enter(l *lane, id uint64, t enforce.Take, asks []bucket.Ask) (*waiter, error) {
	w := s.waiters.Get().(*waiter)
	w.asks, w.gone = asks, false
	if err := l.join(s, id, t.Incarnation, t.Config, w); err != nil {
		return nil, err
	}
	return w, nil
}

// await returns the answer to a request that has entered a lane, for which it
// waits no longer than budget.
func (s *Store) await(ctx context.Context, l *lane, w *waiter, budget time.Duration) answer {
	w.budget.Reset(budget)
	var late error
	select {
	case <-w.done:
	case <-ctx.Done():
		late = ctx.Err()
	case <-w.budget.C:
		late = s.late
	}
	w.budget.Stop()
	if late != nil {
		// The waiter is the lane's from here on, and so are the asks.
		l.leave(w)
		s.metrics.failed("take", reason(late))
		return answer{err: fmt.Errorf("take in regional store: %w: %w", enforce.ErrStoreDown, late)}
	}
	a := w.answer
	w.asks, w.answer = nil, answer{}
	s.waiters.Put(w)
	return a
}

// identity is a number that the same set of buckets always has; others may have
// it too.
func (s *Store) identity(asks []bucket.Ask) uint64 {
	id := uint64(len(asks))
	for i := range asks {
		// An odd factor, so that the order of the buckets counts.
		id = id*0x9e3779b97f4a7c15 ^ maphash.String(s.seed, string(asks[i].Key))
	}
	return id
}

// chargeBatch bounds the time one charge script blocks the server.
const chargeBatch = 100

// Charge takes what was admitted while the store was away. After an error the
// charges of the failed script may or may not be in it; charging them again is
// the safe side.
func (s *Store) Charge(ctx context.Context, incarnation string, charges []bucket.Charge) error {
	for _, c := range charges {
		if err := errors.Join(bucket.ValidAmount(c.Tokens), c.Standing.Valid()); err != nil {
			return fmt.Errorf("charge %q: %w", c.Key, err)
		}
	}
	if s.cluster != nil {
		return s.cluster.charge(ctx, incarnation, charges)
	}
	for len(charges) > 0 {
		n := min(len(charges), chargeBatch)
		keys := []string{s.stateKey}
		argv := []any{incarnation}
		for _, c := range charges[:n] {
			keys = append(keys, s.bucketKey(c.Key))
			argv = append(argv, int64(c.Tokens), int64(c.Standing.Rate.Tokens), int64(c.Standing.Rate.Per),
				int64(c.Standing.Burst), int64(c.Standing.Base), int64(c.Standing.Since), int64(c.Standing.Began()), int64(c.Standing.Lasts), int64(c.Standing.Window))
		}
		reply, err := s.run(ctx, &s.scripts.charge, keys, argv...)
		if err != nil {
			return err
		}
		if reply[0] != 1 {
			return fmt.Errorf("charge in regional store: %w: %w", enforce.ErrStale, bucket.ErrIncarnation)
		}
		charges = charges[n:]
	}
	return nil
}
