package redisbucket

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// lendBatch bounds the time one lend script blocks the server.
const lendBatch = 100

// Lend records what the coordinator says an earlier incarnation has on loan, for as
// long from now. After an error some of it may be recorded; doing it again is safe.
func (s *Store) Lend(ctx context.Context, incarnation string, lends []bucket.LendAsk, span quota.Micros) error {
	if span < 0 || span > bucket.MaxPeriod {
		return fmt.Errorf("take over %d loans for %d us: %w", len(lends), span, bucket.ErrRange)
	}
	for _, l := range lends {
		if err := bucket.Valid(l.Share); err != nil {
			return fmt.Errorf("take over the loan of %q: %w", l.Key, err)
		}
	}
	if s.cluster != nil {
		return s.cluster.lend(ctx, incarnation, lends, span)
	}
	return s.lend(lends, s.bucketKey, func(keys []string, argv []any) ([]int64, error) {
		return s.run(ctx, &s.scripts.lend, append([]string{s.stateKey, s.lentKey}, keys...), append([]any{incarnation, int64(span)}, argv...)...)
	})
}

// lend runs the script on as many of the loans at a time as it may.
func (s *Store) lend(lends []bucket.LendAsk, bucketKey func(quota.Key) string, run func(keys []string, argv []any) ([]int64, error)) error {
	for {
		n := min(len(lends), lendBatch)
		var keys []string
		argv := []any{flag(len(lends) == n)} // whether all are known then
		for _, l := range lends[:n] {
			keys = append(keys, bucketKey(l.Key))
			argv = append(argv, string(l.Key), int64(l.Share.Rate.Tokens), int64(l.Share.Rate.Per), int64(l.Share.Burst))
		}
		reply, err := run(keys, argv)
		if err != nil {
			return err
		}
		if reply[0] != 1 {
			return fmt.Errorf("take over %d loans: %w: %w", len(lends), enforce.ErrStale, bucket.ErrIncarnation)
		}
		if lends = lends[n:]; len(lends) == 0 {
			return nil
		}
	}
}

// Lent returns until when which standing shares are on loan, on the server's clock.
func (s *Store) Lent(ctx context.Context) (map[quota.Key]quota.Micros, error) {
	if s.cluster != nil {
		return s.cluster.lent(ctx)
	}
	reply, err := s.runValues(ctx, &s.scripts.lent, []string{s.stateKey, s.lentKey})
	if err != nil {
		return nil, err
	}
	lent := make(map[quota.Key]quota.Micros, len(reply)/2)
	readLent(lent, reply, 0)
	return lent, nil
}

// readLent adds a reply of lent.lua, read on a clock that shows low more than the
// region's at least.
func readLent(lent map[quota.Key]quota.Micros, reply []any, low quota.Micros) {
	for i := 0; i+1 < len(reply); i += 2 {
		key, _ := reply[i].(string)
		until, _ := reply[i+1].(int64)
		lent[quota.Key(key)] = quota.Micros(until) - low
	}
}

// lend is Store.Lend for a cluster. Every partition has to know that it knows all.
func (c *clustered) lend(ctx context.Context, incarnation string, lends []bucket.LendAsk, span quota.Micros) error {
	v, err := c.current(incarnation)
	if err != nil {
		return fmt.Errorf("take over %d loans: %w", len(lends), err)
	}
	var byPart [partitions][]bucket.LendAsk
	for _, l := range lends {
		p := partitionOf(l.Key)
		byPart[p] = append(byPart[p], l)
	}
	for p := range byPart {
		if err := c.s.lend(byPart[p], c.bucketKey, func(keys []string, argv []any) ([]int64, error) {
			head := []string{c.parts[p].stateKey, c.parts[p].lentKey}
			return c.run(ctx, &c.s.scripts.lend, v, p, append(head, keys...), append([]any{v.parts[p].incarnation, int64(span)}, argv...)...)
		}); err != nil {
			return err
		}
	}
	return nil
}

// lent is Store.Lent for a cluster.
func (c *clustered) lent(ctx context.Context) (map[quota.Key]quota.Micros, error) {
	v := c.view.Load()
	if v == nil {
		return nil, fmt.Errorf("read what is on loan: %w", enforce.ErrStale)
	}
	replies, err := c.each(ctx, &c.s.scripts.lent, 0, func(int) []any { return []any{v.incarnation} })
	if err != nil {
		return nil, err
	}
	lent := make(map[quota.Key]quota.Micros)
	for p, reply := range replies {
		readLent(lent, reply.Val(), v.parts[p].low)
	}
	return lent, nil
}
