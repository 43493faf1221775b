package redisbucket

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// portion is the asks of a request that one partition answers: those that charge or
// look, or those that give back.
type portion struct {
	partition int
	index     []int // in the asks of the request
	asks      []bucket.Ask
	answer    answer
}

// portions sorts asks by partition, in the order of their first. What gives back comes
// last: it denies nothing, and nobody could take it back if another portion did.
func portions(asks []bucket.Ask) []*portion {
	var list, back []*portion
	type place struct {
		partition int
		back      bool
	}
	at := make(map[place]*portion, 2)
	for i, a := range asks {
		p := place{partitionOf(a.Key), a.Cost < 0}
		g := at[p]
		if g == nil {
			g = &portion{partition: p.partition}
			at[p] = g
			if p.back {
				back = append(back, g)
			} else {
				list = append(list, g)
			}
		}
		g.index = append(g.index, i)
		g.asks = append(g.asks, a)
	}
	return append(list, back...)
}

// together reports whether one partition answers all asks, so that one script call
// serves them all or none.
func together(asks []bucket.Ask) (p int, yes bool) {
	for i := range asks {
		switch q := partitionOf(asks[i].Key); {
		case i == 0:
			p = q
		case q != p:
			return 0, false
		}
	}
	return p, true
}

// take is Store.Take for a cluster. Every portion waits in the lane of its
// partition, and shares a script call with whatever else waits there.
func (c *clustered) take(ctx context.Context, t enforce.Take, asks []bucket.Ask) (res enforce.TakeResult, err error) {
	v, err := c.current(t.Incarnation)
	if err != nil {
		return res, fmt.Errorf("take in regional store: %w", err)
	}
	p, one := together(asks)
	if !one {
		return c.takeApart(ctx, v, t, asks)
	}
	res, err = c.s.ask(ctx, &c.s.lanes[p], c.s.identity(asks), t, asks)
	res.Now -= v.parts[p].high // a time that has passed on the region's clock
	return res, err
}

// takeApart charges the partitions of a request one after the other. When one
// denies, those before it give back what they were charged and those after it are
// only looked at. What cannot be given back is lost, the safe side.
func (c *clustered) takeApart(ctx context.Context, v *view, t enforce.Take, asks []bucket.Ask) (res enforce.TakeResult, err error) {
	s, until := c.s, time.Now().Add(c.s.cfg.Budget)
	list := portions(asks)
	charged := 0 // portions
	for _, g := range list {
		l := &s.lanes[g.partition]
		w, err := s.enter(l, s.identity(g.asks), t, g.asks)
		if err == nil {
			g.answer = s.await(ctx, l, w, time.Until(until))
			err = g.answer.err
		}
		if err != nil {
			// Its own outcome may be unknown, and unknown counts as spent.
			c.giveBack(t, list[:charged])
			return res, err
		}
		if g.answer.place >= g.answer.n {
			break
		}
		charged++
	}
	res.Admitted = charged == len(list)
	if !res.Admitted {
		c.giveBack(t, list[:charged])
		if err := c.look(ctx, t, list[charged+1:], until); err != nil {
			return res, err
		}
	}
	res.Verdicts = make([]bucket.Verdict, len(asks))
	for i, g := range list {
		a := &g.answer
		n := a.n
		if i < charged && !res.Admitted {
			n = min(n, a.place) // those before it in its run, and not it
		}
		for j, verdict := range bucket.Verdicts(g.asks, a.start, a.place, n) {
			res.Verdicts[g.index[j]] = verdict
		}
		res.Now = max(res.Now, a.now-v.parts[g.partition].high)
	}
	return res, nil
}

// look asks the partitions of list, all at once, what they have.
func (c *clustered) look(ctx context.Context, t enforce.Take, list []*portion, until time.Time) error {
	s := c.s
	waiters := make([]*waiter, len(list))
	var failed error
	for i, g := range list {
		free := append([]bucket.Ask(nil), g.asks...)
		for j := range free {
			free[j].Cost = 0
		}
		if waiters[i], failed = s.enter(&s.lanes[g.partition], s.identity(free), t, free); failed != nil {
			break
		}
	}
	for i, g := range list {
		if waiters[i] == nil {
			break
		}
		a := s.await(ctx, &s.lanes[g.partition], waiters[i], time.Until(until))
		if a.err != nil && failed == nil {
			failed = a.err
		}
		// It is told as one who was denied: nobody was charged on its behalf.
		g.answer = answer{now: a.now, start: a.start}
	}
	return failed
}
