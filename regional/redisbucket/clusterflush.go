package redisbucket

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// flush is flusher.flush for a partition of a cluster. What is given back goes
// before what is asked.
func (c *clustered) flush(f *flusher, p int, groups []*group, refunds []refund) {
	ctx := context.Background() // those who wait have deadlines of their own
	back := c.refundCalls(ctx, p, refunds)
	f.cmds, f.sent = f.cmds[:0], f.sent[:0]
	requests := 0
	for _, call := range f.divide(groups) {
		v, err := c.current(call.incarnation)
		if err != nil {
			call.fail(fmt.Errorf("take in regional store: %w", err))
			continue
		}
		call.to = target{
			state: c.parts[p].stateKey, head: c.parts[p].bucket,
			incarnation: v.parts[p].incarnation, later: v.parts[p].high, region: v.incarnation,
		}
		call.compose(c.s)
		f.cmds = append(f.cmds, newInts(ctx, call.args))
		f.sent = append(f.sent, call)
		requests += call.requests
	}
	if len(back)+len(f.cmds) == 0 {
		return
	}
	down := c.guard(ctx, "take", p, func() error {
		// One after the other: in one pipeline a node that has lost one of the scripts
		// would change their order.
		if err := c.send(ctx, &c.s.scripts.refund, back); err != nil {
			return err
		}
		return c.send(ctx, &c.s.scripts.take, f.cmds)
	})
	for _, cmd := range back {
		if err := cmd.Err(); err != nil {
			c.s.metrics.failed("refund", reason(err))
		}
	}
	if len(f.sent) > 0 {
		c.s.metrics.flushed(requests, len(f.sent))
	}
	settle(f.sent, f.cmds, down)
	clear(f.sent)
	clear(f.cmds)
}

// send sends calls of one script in one flush to each node, and those again that met
// a node without the script. It returns the first failure.
func (c *clustered) send(ctx context.Context, sc *script, cmds []redis.Cmder) error {
	flush := func(cmds []redis.Cmder) {
		if len(cmds) > 0 {
			_, _ = c.client.Pipelined(ctx, func(p redis.Pipeliner) error { return p.BatchProcess(ctx, cmds...) })
		}
	}
	flush(cmds)
	var again []redis.Cmder
	for i, cmd := range cmds {
		if noScript(cmd.Err()) {
			cmds[i] = newInts(ctx, append([]any{"eval", sc.source}, cmd.Args()[2:]...))
			again = append(again, cmds[i])
		}
	}
	flush(again)
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return err
		}
	}
	return nil
}
