package planner

import (
	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// plans appends the operations of the keys that are due.
func (t *Term) plans(ops []ledger.Op, now quota.Micros, l *ledger.Ledger) []ledger.Op {
	for range t.cfg.MaxPlans {
		if len(ops) >= t.cfg.MaxOps {
			return ops
		}
		e := t.book.next(now)
		if e == nil {
			return ops
		}
		ops = t.plan(ops, now, l, e)
	}
	return ops
}

// plan appends the operations of one key: what was confirmed, what to change,
// or that the account may be forgotten. A key with operations is planned again
// when their outcome is known.
func (t *Term) plan(ops []ledger.Op, now quota.Micros, l *ledger.Ledger, e *entry) []ledger.Op {
	e.due = never
	tb := t.table(now, l, e)
	if tb == nil {
		t.book.drop(e)
		return ops
	}
	before, lent := len(ops), false
	for i := range tb.seats {
		s := &tb.seats[i]
		if d := e.demand(s.region); d != nil && s.inFlight() && d.applied.Session == s.session && d.applied.Epoch == s.holding.Epoch {
			ops = append(ops, ledger.Confirm{Region: s.region, Session: s.session, Key: e.key, Epoch: s.holding.Epoch, Surrendered: d.applied.Surrendered})
			lent = lent || s.holding.Flight.Lends > 0
			d.aimed, d.aimedAt = s.holding.Flight.Lease.Burst, s.holding.Epoch
			tb.confirm(s, d.applied.Surrendered)
		}
	}
	if lent {
		return ops // the table does not know the loan yet
	}
	t.wishes(now, tb, e)
	var short shortage
	tb.lendable = t.lendable(now)
	ops, short = tb.decide(ops, now, t.cfg, e)
	t.lending(now, tb.lends)
	e.short = short.any()
	if len(ops) > before {
		return ops
	}
	if a := l.Account(e.key); a != nil && a.Idle(l.Clock()) && !tb.busy() && (!tb.windowed || now-e.heard >= forgetAge || tb.full()) {
		return append(ops, ledger.Drop{Key: e.key})
	}
	if !tb.opened && !tb.busy() {
		t.book.drop(e)
		return ops
	}
	due := tb.due
	if tb.windowed {
		due = tb.windowDue
		if !tb.busy() && !tb.held() {
			e.demands = nil // all that is left to do is to drop it, much later
		}
	}
	t.book.park(e, max(now+retryAge, min(due(now, l, e), tb.loansDue(now, t.cfg))))
	return ops
}

// busy reports whether somebody asks for more than its share.
func (t *table) busy() bool {
	for i := range t.seats {
		if t.seats[i].active {
			return true
		}
	}
	return false
}

// due returns when the key must be planned though nobody reports anything: while
// somebody is short, when a lease becomes idle, or when the pool is full and
// the account can be forgotten.
func (t *table) due(now quota.Micros, l *ledger.Ledger, e *entry) quota.Micros {
	if e.short || !t.opened {
		return now + shortAge
	}
	due, held := never, false
	for i := range t.seats {
		s := &t.seats[i]
		if !s.held {
			continue
		}
		held = true
		idle := now + t.scale.idle
		if d := e.demand(s.region); d != nil && s.active {
			idle = d.last + t.scale.idle
		}
		due = min(due, idle)
	}
	if held {
		return due
	}
	pool := t.pool()
	wait, ok := pool.TimeTo(t.level, max(pool.Burst, 0))
	if !ok {
		return now + t.scale.idle
	}
	return now + max(wait, quota.Second)
}
