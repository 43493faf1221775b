package redisbucket

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/regional/enforce"
)

// maxCallBuckets bounds the buckets of one script call, unless one group has more:
// for so long, about half a millisecond, the server does nothing else.
const maxCallBuckets = 100

// flusher makes the script calls of a flush and hands out their replies. It uses
// its memory again for the next flush.
type flusher struct {
	calls []*call
	sent  []*call // those of calls that were worth sending
	cmds  []redis.Cmder
}

// flush serves groups in one round trip and answers all who wait.
func (f *flusher) flush(s *Store, groups []*group) {
	calls := f.divide(groups)
	if len(calls) == 0 {
		return
	}
	ctx := context.Background() // those who wait have deadlines of their own
	f.cmds = f.cmds[:0]
	requests := 0
	for _, c := range calls {
		c.to = target{state: s.stateKey, head: s.bucketHead, tail: "}", incarnation: c.incarnation}
		c.compose(s)
		f.cmds = append(f.cmds, newInts(ctx, c.args))
		requests += c.requests
	}
	s.metrics.flushed(requests, len(calls))
	down := s.guard(ctx, "take", func(c *redis.Client) error { return s.flush(ctx, c, &s.scripts.take, f.cmds) })
	settle(calls, f.cmds, down)
	clear(f.cmds)
}

// settle gives the replies of calls to those who wait for them; down is why none
// was sent.
func settle(calls []*call, cmds []redis.Cmder, down error) {
	for i, c := range calls {
		reply, err := cmds[i].(ints).Result()
		switch {
		case elsewhere(err):
			c.fail(fmt.Errorf("take in regional store: %w: %w", enforce.ErrStale, errElsewhere))
		case err != nil:
			c.fail(fmt.Errorf("take in regional store: %w: %w", enforce.ErrStoreDown, err))
		case len(reply) == 0 && down != nil:
			c.fail(down) // never sent
		case len(reply) == 1 && reply[0] == 0:
			c.fail(fmt.Errorf("take in regional store: %w", enforce.ErrStale))
		default:
			if !c.answer(reply) {
				c.fail(fmt.Errorf("take in regional store: reply of %d numbers does not fit: %w", len(reply), enforce.ErrStoreDown))
			}
		}
	}
}

// divide makes the calls that serve groups in their order.
func (f *flusher) divide(groups []*group) []*call {
	n := 0
	var c *call
	for _, g := range groups {
		if len(g.waiters) == 0 {
			continue // all have gone
		}
		if c == nil || !c.add(g) {
			if n == len(f.calls) {
				f.calls = append(f.calls, new(call))
			}
			c = f.calls[n]
			n++
			c.begin(g)
		}
	}
	return f.calls[:n]
}
