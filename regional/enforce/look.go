package enforce

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// Look returns what Decide would answer now without the wait for a first lease.
// It charges nothing and is no demand. Its errors are those of Decide.
func (e *Enforcer) Look(ctx context.Context, now time.Duration, req Request) (Decision, error) {
	s, err := e.rules(&req)
	if err != nil {
		return Decision{}, err
	}
	p := e.plan(s, now, &req, 0)
	err = e.look(ctx, s, p)
	if errors.Is(err, ErrStale) && e.refresh(ctx, now, s) == nil {
		s = e.snap.Load()
		p = e.plan(s, now, &req, p.came)
		err = e.look(ctx, s, p)
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return Decision{}, fmt.Errorf("look: %w", ctx.Err())
		}
		p.degraded = true
		e.local.look(now, p, int64(max(1, e.view.Load().Agents)))
	}
	for i := range p.counts {
		c := &p.counts[i]
		for j := c.first; j < c.first+c.n; j++ {
			c.over = c.over || p.items[j].over
		}
	}
	d := p.decision(req, nil, e.cfg.ShadowMode)
	d.UnknownDomain = !s.Set.HasDomain(req.Domain)
	return d, nil
}

// look asks the store for every bucket of the plan at a cost of zero, and judges
// the cost by the levels that it hears.
func (e *Enforcer) look(ctx context.Context, s *snapshot, p *plan) error {
	if len(p.items) == 0 {
		return nil
	}
	if e.local.owesAny(p) {
		return errOwing
	}
	asks := make([]bucket.Ask, len(p.items)) // the store may keep them after an error
	for i := range p.items {
		asks[i] = p.items[i].ask
		asks[i].Cost = 0
	}
	res, err := e.cfg.Store.Take(ctx, Take{Incarnation: s.Incarnation, Config: s.Version, Asks: asks})
	if err == nil && len(res.Verdicts) != len(asks) {
		err = fmt.Errorf("%w: %d verdicts on %d asks", ErrStoreDown, len(res.Verdicts), len(asks))
	}
	if err != nil {
		return err
	}
	connected := e.connected(res.Now)
	for i, v := range res.Verdicts {
		it := &p.items[i]
		it.looked(v, connected)
		it.over = !it.v.Admitted
	}
	return nil
}

// looked judges the cost by what a look at the bucket has said.
func (it *item) looked(v bucket.Verdict, connected bool) {
	b := bucket.Balance{Holding: v.Holding, Level: v.Level, Unspent: v.Unspent, Capacity: v.Capacity, Epoch: v.Epoch, Reset: v.Full, Fresh: v.Fresh}
	it.asked, it.connected = true, connected
	it.v = bucket.Judge(&it.ask, b, false)
}

// look judges all counts by their rules' policies and charges none. Shadow rules
// are not counted while the store is away.
func (l *local) look(now time.Duration, p *plan, agents int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range p.counts {
		c := &p.counts[i]
		if c.rule.Shadow {
			continue
		}
		for j := c.first; j < c.first+c.n; j++ {
			it := &p.items[j]
			it.local = true
			it.v = l.verdict(quota.MicrosOf(now), it, agents)
			it.over = !it.v.Admitted
		}
	}
}
