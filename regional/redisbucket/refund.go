package redisbucket

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// refund is what one bucket was charged for a request that was denied elsewhere.
type refund struct {
	incarnation string // of the region
	config      uint64
	ask         bucket.Ask
	epoch       quota.Epoch
	at          quota.Micros // when it was charged, on the clock of its partition
	before      quota.Tokens // its level before the charge
}

// giveBack puts what was charged into the lanes, ahead of whatever is asked from
// here on. Nobody waits for it. What was settled stays: it was spent before.
func (c *clustered) giveBack(t enforce.Take, charged []*portion) {
	for _, g := range charged {
		var list []refund
		for i, a := range g.asks {
			b := &g.answer.start[i]
			if a.Cost > 0 && !a.Settle && b.Holding != bucket.Allowed {
				list = append(list, refund{
					incarnation: t.Incarnation, config: t.Config, ask: a, epoch: b.Epoch, at: g.answer.now,
					before: b.Level - quota.Tokens(g.answer.place)*a.Cost,
				})
			}
		}
		if len(list) > 0 {
			c.s.lanes[g.partition].giveBack(c.s, list)
		}
	}
}

// giveBack lets the next flush carry refunds. A lane that is full, because its node
// is away, loses them.
func (l *lane) giveBack(s *Store, refunds []refund) {
	l.mu.Lock()
	if l.closed || len(l.refunds) >= maxWaiting {
		l.mu.Unlock()
		s.metrics.failed("refund", "queue_full")
		return
	}
	l.refunds = append(l.refunds, refunds...)
	idle := l.occupy(s)
	l.mu.Unlock()
	if idle {
		go l.run(s) // ends when nobody waits any more
	}
}

// refundCalls makes the calls for refunds of one partition: those of one incarnation
// and configuration together, and none that the partition would refuse.
func (c *clustered) refundCalls(ctx context.Context, p int, refunds []refund) (cmds []redis.Cmder) {
	for len(refunds) > 0 {
		first := &refunds[0]
		n := 1
		for n < len(refunds) && n < maxCallBuckets && refunds[n].incarnation == first.incarnation && refunds[n].config == first.config {
			n++
		}
		if v, err := c.current(first.incarnation); err == nil {
			keys := []string{c.parts[p].stateKey}
			argv := []any{v.parts[p].incarnation, first.config}
			for i := range refunds[:n] {
				r := &refunds[i]
				keys = append(keys, c.bucketKey(r.ask.Key))
				argv = append(argv, int64(r.ask.Cost), int64(r.ask.Mode))
				argv = append(argv, standingWords(v.there(p, r.ask.Standing))...)
				argv = append(argv, uint64(r.epoch), int64(r.at), int64(r.before))
			}
			cmds = append(cmds, newInts(ctx, evalsha(&c.s.scripts.refund, keys, append(argv, v.incarnation))))
		}
		refunds = refunds[n:]
	}
	return cmds
}
