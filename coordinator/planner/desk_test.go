package planner

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// desk drives a term by hand: no network, every round is committed at once
// unless a test takes it apart.
type desk struct {
	t     *testing.T
	l     *ledger.Ledger
	term  *Term
	no    uint64 // of the term
	now   quota.Micros
	began quota.Micros
	seq   uint64
	ops   []ledger.Op // proposed in rounds
	ticks int         // rounds without operations
}

func newDesk(t *testing.T, sources []quota.Source, regions ...string) *desk {
	d := &desk{t: t, l: ledger.New(), no: 1}
	var shares quota.Shares
	for _, r := range regions {
		shares = append(shares, quota.Share{Region: r, Weight: 1})
	}
	d.commit(ledger.Found{Cluster: "test", Shares: shares}, ledger.SetRules{Sources: sources})
	d.elect()
	for range 3 {
		for _, r := range regions {
			d.sync(r)
		}
		d.round()
	}
	for _, r := range regions {
		d.sync(r) // adopted
	}
	d.round()
	d.ops, d.ticks = nil, 0
	return d
}

func (d *desk) elect() {
	d.no++
	d.began = d.now
	d.term = NewTerm(0, d.no, d.l, Config{Timing: quota.DefaultTiming()})
	d.commit(ledger.Lead{Node: "n"})
}

func (d *desk) at() quota.Micros { return d.now - d.began }

func (d *desk) commit(ops ...ledger.Op) []error {
	res := d.l.Apply(d.l.Index()+1, ledger.Batch{Term: d.no, At: d.at(), Ops: ops})
	errs := make([]error, len(ops))
	for i := range ops {
		errs[i] = res.Err(i)
	}
	return errs
}

// wait lets time pass, with rounds as they are due.
func (d *desk) wait(dur time.Duration) {
	for end := d.now + quota.MicrosOf(dur); d.now < end; {
		d.now = min(end, d.now+50_000)
		d.round()
	}
}

func (d *desk) round() {
	for range 100 {
		ops, _, propose := d.term.Next(d.at(), d.l)
		if !propose {
			return
		}
		errs := d.commit(ops...)
		for i, err := range errs {
			// Only the ledger knows whether there is room for a configuration.
			if _, offer := ops[i].(ledger.Offer); err != nil && !(offer && errors.Is(err, ledger.ErrNoRoom)) {
				d.t.Errorf("at %v: %T %+v refused: %v", d.now.Duration(), ops[i], ops[i], err)
			}
		}
		d.term.Done(d.at(), d.l, ops, errs)
		d.ops = append(d.ops, ops...)
		if len(ops) == 0 {
			d.ticks++
		}
	}
	d.t.Fatal("the planner never comes to rest")
}

func (d *desk) request(region string, change ...func(*quota.SyncRequest)) quota.SyncRequest {
	d.seq++
	req := quota.SyncRequest{
		Seq: d.seq, Region: region, Agent: region + "-1",
		Incarnation: quota.Incarnation{ID: region + "-store"}, Config: d.l.Current().Version,
	}
	for _, f := range change {
		f(&req)
	}
	if r := d.l.Region(region); r != nil && r.Session != nil && req.Session == 0 {
		req.Session = r.Session.ID
	}
	return req
}

// sync sends a sync that is answered at once.
func (d *desk) sync(region string, change ...func(*quota.SyncRequest)) quota.SyncResponse {
	req := d.request(region, change...)
	if before := d.term.Receive(d.at(), d.l, req); len(before) > 0 {
		d.commit(before...)
	}
	return d.term.Answer(d.at(), d.at(), d.l, req)
}

func uses(u ...quota.Usage) func(*quota.SyncRequest) {
	return func(r *quota.SyncRequest) { r.Usage = u }
}

func by(agent string) func(*quota.SyncRequest) {
	return func(r *quota.SyncRequest) { r.Agent = agent }
}

func replacing(id, old string) func(*quota.SyncRequest) {
	return func(r *quota.SyncRequest) { r.Incarnation = quota.Incarnation{ID: id, Replaces: old} }
}

func applies(all []quota.Assignment) func(*quota.SyncRequest) {
	return func(r *quota.SyncRequest) {
		for _, a := range all {
			r.Applied = append(r.Applied, quota.Applied{Key: a.Key, Session: a.Session, Epoch: a.Epoch})
		}
	}
}

// greedy is usage of a region that is denied most of what it asks for.
func greedy(k quota.Key) quota.Usage {
	return quota.Usage{Key: k, Window: 200 * time.Millisecond, Admitted: 60 * quota.Token, Denied: 500 * quota.Token, Largest: quota.Token, Burst: 33 * quota.Token}
}

func (d *desk) session(region string) quota.SessionID {
	if s := d.l.Region(region).Session; s != nil {
		return s.ID
	}
	return 0
}

// lease makes a region hold a confirmed lease of a key.
func (d *desk) lease(region string, k quota.Key) ledger.Holding {
	d.t.Helper()
	d.sync(region, uses(greedy(k)))
	d.round()
	var all []quota.Assignment
	for _, p := range d.term.Push(d.at(), d.l) {
		all = append(all, p.Assignments...)
	}
	d.sync(region, applies(all))
	d.round()
	h, ok := d.l.Account(k).Holding(region)
	if !ok || !h.Leased {
		d.t.Fatalf("region %s got no lease: %+v", region, h)
	}
	return h
}

func count[T ledger.Op](ops []ledger.Op) (n int) {
	for _, op := range ops {
		if _, ok := op.(T); ok {
			n++
		}
	}
	return n
}

func has[T ledger.Op](ops []ledger.Op, match func(T) bool) bool {
	return slices.ContainsFunc(ops, func(op ledger.Op) bool {
		o, ok := op.(T)
		return ok && match(o)
	})
}
