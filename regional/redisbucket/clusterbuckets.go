package redisbucket

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

func (c *clustered) bucketKey(k quota.Key) string { return c.parts[partitionOf(k)].bucket + string(k) }

// there returns a standing share on the clock of a partition. It began at a time on
// the region's, which is that much later there, at most: a later beginning is worth
// less.
func (v *view) there(p int, st bucket.Standing) bucket.Standing {
	st.Since, st.From = st.Since+v.parts[p].high, st.From+v.parts[p].high
	return st
}

// standingWords are what scripts have to know of a standing share.
func standingWords(st bucket.Standing) []any {
	return []any{int64(st.Rate.Tokens), int64(st.Rate.Per), int64(st.Burst), int64(st.Base), int64(st.Since), int64(st.Began()), int64(st.Lasts), int64(st.Window)}
}

// charge is Store.Charge for a cluster.
func (c *clustered) charge(ctx context.Context, incarnation string, charges []bucket.Charge) error {
	v, err := c.current(incarnation)
	if err != nil {
		return fmt.Errorf("charge in regional store: %w", err)
	}
	byPart := make(map[int][]bucket.Charge)
	for _, ch := range charges {
		p := partitionOf(ch.Key)
		byPart[p] = append(byPart[p], ch)
	}
	for p, list := range byPart {
		for len(list) > 0 {
			n := min(len(list), chargeBatch)
			keys := []string{c.parts[p].stateKey}
			argv := []any{v.parts[p].incarnation}
			for i := range list[:n] {
				keys = append(keys, c.bucketKey(list[i].Key))
				argv = append(argv, int64(list[i].Tokens))
				argv = append(argv, standingWords(v.there(p, list[i].Standing))...)
			}
			reply, err := c.run(ctx, &c.s.scripts.charge, v, p, keys, argv...)
			if err != nil {
				return err
			}
			if reply[0] != 1 {
				return fmt.Errorf("charge in regional store: %w: %w", enforce.ErrStale, bucket.ErrIncarnation)
			}
			list = list[n:]
		}
	}
	return nil
}

// apply sends the assignments' calls in one flush to each node and returns how they
// ended.
func (c *clustered) apply(ctx context.Context, incarnation string, asks []bucket.ApplyAsk) ([]redis.Cmder, error) {
	v, err := c.current(incarnation)
	if err != nil {
		return nil, fmt.Errorf("apply in regional store: %w", err)
	}
	cmds := make([]redis.Cmder, len(asks))
	for i := range asks {
		a := &asks[i]
		p := partitionOf(a.Assignment.Key)
		words := c.s.applyArgs(v.parts[p].incarnation, &bucket.ApplyAsk{
			Assignment: a.Assignment, Standing: v.there(p, a.Standing),
			LoanUntil: max(0, a.LoanUntil+v.parts[p].low), // as early as it may be
		})
		cmds[i] = newInts(ctx, evalsha(&c.s.scripts.apply, []string{c.parts[p].stateKey, c.bucketKey(a.Assignment.Key), c.parts[p].lentKey}, append(words, v.incarnation)))
	}
	_ = c.send(ctx, &c.s.scripts.apply, cmds) // each command has its own error
	for i, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			if elsewhere(err) {
				cmds[i].SetErr(fmt.Errorf("%w: %w", enforce.ErrStale, bucket.ErrIncarnation))
				continue
			}
			c.s.metrics.failed("apply", reason(err))
			cmds[i].SetErr(fmt.Errorf("%w: %w", enforce.ErrStoreDown, err))
		}
	}
	return cmds, nil
}

// readBucket is Store.Read for a cluster, on the region's clock and in its incarnation.
func (c *clustered) readBucket(ctx context.Context, key quota.Key) (fields []any, err error) {
	p := partitionOf(key)
	err = c.guard(ctx, "read", p, func() error {
		fields, err = c.client.HMGet(ctx, c.bucketKey(key), "level", "at", "inc", "lease", "away", "drawn").Result()
		return err
	})
	v := c.view.Load()
	if err != nil || v == nil || len(fields) != 6 || fields[1] == nil {
		return fields, err
	}
	text, _ := fields[1].(string)
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, errors.Join(enforce.ErrStoreDown, err)
	}
	fields[1] = strconv.FormatInt(at-int64(v.parts[p].high), 10)
	if fields[2] == v.parts[p].incarnation {
		fields[2] = v.incarnation
	}
	return fields, nil
}
