package planner

import (
	"fmt"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// Receive takes a sync when it arrives. It returns the operations that must be
// committed before Answer, in one batch; some of them may be refused, when
// another sync of the region was faster. What else the sync says is kept for Next.
func (t *Term) Receive(now quota.Micros, l *ledger.Ledger, req quota.SyncRequest) (before []ledger.Op) {
	t.observe(now, l)
	lr, r := l.Region(req.Region), t.regions[req.Region]
	if lr == nil || req.Incarnation.ID == "" || foreign(l, req) {
		return nil
	}
	before = r.opening(lr, req)
	if s := lr.Session; s != nil && s.Incarnation != req.Incarnation.ID && req.Incarnation.Replaces != s.Incarnation {
		return nil // a second store: nothing it says counts
	}
	var config uint64
	if s := lr.Session; s != nil && s.Incarnation == req.Incarnation.ID {
		config = req.Config
	}
	if req.Leaving {
		r.lose(req.Agent)
	} else {
		r.hear(now, req.Agent, config)
	}
	t.told(now, l, r, req)
	return before
}

// Report takes what an agent says while it waits for the answer to a sync: usage
// and assignments that it has applied. It renews nothing and is not answered.
func (t *Term) Report(now quota.Micros, l *ledger.Ledger, req quota.SyncRequest) {
	t.observe(now, l)
	lr, r := l.Region(req.Region), t.regions[req.Region]
	if lr == nil || foreign(l, req) || lr.Session == nil || lr.Session.Incarnation != req.Incarnation.ID {
		return
	}
	t.told(now, l, r, req)
}

// told takes the usage and the answers to assignments in a message of a region.
func (t *Term) told(now quota.Micros, l *ledger.Ledger, r *region, req quota.SyncRequest) {
	if now-r.heard > routeAge {
		r.since = now
	}
	r.heard, r.waiting = now, false
	if s := l.Region(req.Region).Session; s != nil && s.Incarnation == req.Incarnation.ID {
		for _, a := range req.Applied {
			if e := t.book.entries[a.Key]; e != nil && a.Session == s.ID {
				e.of(r.name).applied = a
				t.book.hurry(e, now)
			}
		}
	}
	for _, u := range req.Usage {
		t.report(now, l, r, req.Agent, u)
	}
}

// opening returns the operations that give the region the session that the sync
// asks for.
func (r *region) opening(lr *ledger.Region, req quota.SyncRequest) []ledger.Op {
	s, id := lr.Session, req.Incarnation.ID
	open := ledger.OpenSession{Region: r.name, Incarnation: id}
	switch {
	case s == nil && !req.Leaving:
		return []ledger.Op{open}
	case s == nil:
		return nil
	case s.Incarnation != id:
		if req.Incarnation.Replaces != s.Incarnation || req.Leaving {
			return nil
		}
		r.ending = s.ID
		open.Replaces = s.Incarnation
		return []ledger.Op{open}
	case req.Drop && req.Session == s.ID:
		// The store has dropped the session already, so nobody uses it.
		r.ending = s.ID
		end := ledger.EndSession{Region: r.name, Session: s.ID}
		if req.Leaving {
			return []ledger.Op{end}
		}
		return []ledger.Op{end, open}
	case (s.Silent || r.marking) && !req.Leaving:
		return []ledger.Op{ledger.MarkSilent{Region: r.name, Session: s.ID}}
	}
	return nil
}

// report adds one key's usage to the book. A key whose region gets along with
// its standing share costs nothing here.
func (t *Term) report(now quota.Micros, l *ledger.Ledger, r *region, agent string, u quota.Usage) {
	e := t.book.entries[u.Key]
	if e == nil {
		if !urgent(u) {
			return
		}
		limit, ok := limitOf(l, u.Key)
		if !ok || limit.Burst <= 0 {
			return
		}
		e = t.book.add(u.Key, now)
		e.scale, e.since = scaleOf(limit, t.cfg), now
	}
	e.heard = now
	d := e.of(r.name)
	d.observe(now, u, agent, e.scale)
	switch {
	case urgent(u) || forgotten(l, u.Key, d):
		t.book.hurry(e, now)
	case e.short:
		t.book.hurry(e, now+retryAge)
	}
}

// urgent reports whether a region may need more than it has.
func urgent(u quota.Usage) bool {
	return u.Denied > 0 || u.Admitted > 0 && (u.Level < u.Burst/2 || u.Largest > u.Burst)
}

// forgotten reports whether the region has lost its lease of a key.
func forgotten(l *ledger.Ledger, k quota.Key, d *demand) bool {
	a := l.Account(k)
	if a == nil {
		return false
	}
	h, held := a.Holding(d.region)
	if a.Limit().Window > 0 {
		return held && h.Leased && d.forgotPlaces(h.Epoch)
	}
	return held && h.Leased && d.forgot(h.Epoch, h.Lease)
}

func foreign(l *ledger.Ledger, req quota.SyncRequest) bool {
	return req.Cluster != "" && req.Cluster != l.Cluster()
}

// Answer answers a sync after the operations of Receive are committed and after
// a leadership check has succeeded that began at checked, after the sync had
// arrived. It renews the session, counted from checked.
func (t *Term) Answer(now, checked quota.Micros, l *ledger.Ledger, req quota.SyncRequest) quota.SyncResponse {
	t.observe(now, l)
	resp := quota.SyncResponse{Seq: req.Seq, Cluster: l.Cluster()}
	refuse := func(code quota.RefusalCode, format string, args ...any) quota.SyncResponse {
		resp.Refusal = &quota.Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
		return resp
	}
	lr, r := l.Region(req.Region), t.regions[req.Region]
	switch {
	case foreign(l, req):
		return refuse(quota.RefusedWrongCluster, "this is cluster %s and the agent belongs to cluster %s; check its coordinator addresses", l.Cluster(), req.Cluster)
	case lr == nil:
		return refuse(quota.RefusedUnknownRegion, "region %q is not registered at cluster %s; add it with `quoratectl regions add`", req.Region, l.Cluster())
	case req.Leaving:
		resp.Agents = max(1, len(r.agents))
		return resp
	}
	s := lr.Session
	switch {
	case s == nil:
		return refuse(quota.RefusedBusy, "region %s has no session yet; ask again", r.name)
	case s.Incarnation != req.Incarnation.ID:
		return refuse(quota.RefusedSecondStore,
			"region %s has a live session of store %s and this agent uses store %s: two stores would spend one lease twice; point all agents of the region at one Redis, or wait until the session ends",
			r.name, s.Incarnation, req.Incarnation.ID)
	case !r.renewable(s):
		return refuse(quota.RefusedBusy, "session %d of region %s is about to end or marked silent; ask again", s.ID, r.name)
	}
	r.until = max(r.until, checked+t.cfg.session())
	resp.Session, resp.TTL = s.ID, t.cfg.Timing.TTL
	// Until it is offered its first configuration, it may still become late.
	resp.First = lr.First == req.Incarnation.ID && lr.Offered > 0
	resp.Agents = max(1, len(r.agents))
	if lr.Offered > req.Config {
		resp.Config = offered(l, lr)
	}
	if req.Forgot {
		resp.Lent = t.lent(now, l, r.name)
	}
	resp.Assignments = t.answerable(now, checked, l, r, req.Agent)
	return resp
}
