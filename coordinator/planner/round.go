package planner

import (
	"slices"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

const never = quota.Micros(1<<62 - 1)

// Next is one round: the operations to propose now, and when to call again at
// the latest. propose says whether to propose at all; the batch may then be
// empty: a tick moves the ledger clock. Nothing is proposed twice while its
// outcome is open, see Done.
func (t *Term) Next(now quota.Micros, l *ledger.Ledger) (ops []ledger.Op, wake quota.Micros, propose bool) {
	t.observe(now, l)
	ops = []ledger.Op{}
	wake = never
	for _, lr := range l.Regions() {
		var due quota.Micros
		ops, due = t.regions[lr.Name].next(ops, now, l, lr, t.cfg)
		wake = min(wake, due)
	}
	if !slices.ContainsFunc(ops, reshapes) {
		ops = t.plans(ops, now, l)
	}
	if len(t.book.queue) > 0 {
		wake = min(wake, t.book.queue[0].due)
	}
	tick := t.ticked + quota.MicrosOf(t.cfg.Timing.Tick)
	if propose = len(ops) > 0 || now >= tick; propose {
		t.ticked = now
		tick = now + quota.MicrosOf(t.cfg.Timing.Tick)
	}
	return ops, max(now, min(wake, tick)), propose
}

// reshapes reports whether an operation changes the shares that are counted. No
// key is planned in the same round: the plan would be made from an older state.
func reshapes(op ledger.Op) bool {
	switch op.(type) {
	case ledger.Offer, ledger.Adopted:
		return true
	}
	return false
}

// next appends what is due for one region's session and configuration, and
// returns when something will be.
func (r *region) next(ops []ledger.Op, now quota.Micros, l *ledger.Ledger, lr *ledger.Region, cfg Config) ([]ledger.Op, quota.Micros) {
	due := never
	if lr.Offered != lr.Confirmed && !r.adopting && r.adopted() == lr.Offered {
		if now >= r.complete {
			r.adopting = true
			ops = append(ops, ledger.Adopted{Region: r.name, Version: lr.Offered})
		} else {
			due = r.complete
		}
	}
	if lr.Session == nil {
		return ops, due
	}
	switch mark := r.heard + cfg.silence(); {
	case r.ended:
	case now >= r.until:
		r.ended, r.ending = true, r.session
		return append(ops, ledger.EndSession{Region: r.name, Session: r.session}), due
	default:
		due = min(due, r.until)
		if r.marking || lr.Session.Silent && !r.doubt {
			break
		}
		if len(r.agents) > 0 {
			// An idle agent renews in the middle of a TTL. One that is connected
			// would be marked all the time.
			mark = max(mark, r.heard+quota.MicrosOf(cfg.Timing.TTL)*2/3)
		}
		// After an unknown outcome only a later mark of known outcome tells whether
		// the first is in the log.
		if now >= mark || r.doubt {
			r.marking = true
			ops = append(ops, ledger.MarkSilent{Region: r.name, Session: r.session, Silent: true})
		} else {
			due = min(due, mark)
		}
	}
	if v := l.Current().Version; lr.Offered == lr.Confirmed && lr.Confirmed < v && !r.offering && r.reachable(now) {
		if now >= r.offerFrom {
			r.offering = true
			ops = append(ops, ledger.Offer{Region: r.name, Version: v})
		} else {
			due = min(due, r.offerFrom)
		}
	}
	return ops, due
}
