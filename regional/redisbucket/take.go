package redisbucket

import (
	"context"
	"fmt"
	"hash/maphash"

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
		if err := bucket.ValidAmount(asks[i].Cost); err != nil {
			return enforce.TakeResult{}, fmt.Errorf("take from %q: %w", asks[i].Key, err)
		}
		if err := asks[i].Standing.Valid(); err != nil {
			return enforce.TakeResult{}, fmt.Errorf("take from %q: %w", asks[i].Key, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return enforce.TakeResult{}, fmt.Errorf("take in regional store: %w: %w", enforce.ErrStoreDown, err)
	}
	w := s.waiters.Get().(*waiter)
	w.asks, w.gone = asks, false
	id := s.identity(asks)
	l := &s.lanes[id%uint64(len(s.lanes))]
	if err := l.join(s, id, t.Incarnation, t.Config, w); err != nil {
		return enforce.TakeResult{}, err
	}
	w.budget.Reset(s.cfg.Budget)
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
		return enforce.TakeResult{}, fmt.Errorf("take in regional store: %w: %w", enforce.ErrStoreDown, late)
	}
	res, err := w.result()
	w.asks, w.answer = nil, answer{}
	s.waiters.Put(w)
	if err != nil {
		return enforce.TakeResult{}, err
	}
	res.Verdicts = bucket.Spread(res.Verdicts, index)
	return res, nil
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
	for len(charges) > 0 {
		n := min(len(charges), chargeBatch)
		keys := []string{s.stateKey}
		argv := []any{incarnation}
		for _, c := range charges[:n] {
			if err := bucket.ValidAmount(c.Tokens); err != nil {
				return fmt.Errorf("charge %q: %w", c.Key, err)
			}
			if err := c.Standing.Valid(); err != nil {
				return fmt.Errorf("charge %q: %w", c.Key, err)
			}
			keys = append(keys, s.bucketKey(c.Key))
			argv = append(argv, int64(c.Tokens), int64(c.Standing.Rate.Tokens), int64(c.Standing.Rate.Per),
				int64(c.Standing.Burst), int64(c.Standing.Base), int64(c.Standing.Since), int64(c.Standing.Began()))
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
