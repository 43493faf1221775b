package enforce

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/demand"
	"github.com/quorate/quorate/regional/lease"
)

// world is one region with one agent: the reference store behind the port,
// virtual time, and faults on demand.
type world struct {
	t   testing.TB
	e   *Enforcer
	mu  sync.Mutex
	now time.Duration // the agent's clock; the store's is start later

	store   *bucket.Store
	tracker *demand.Tracker
	version uint64
	shares  quota.Shares

	takes     int
	asked     [][]bucket.Ask
	charged   []bucket.Charge
	fail      error // returned by the store instead of an answer
	lost      error // returned by the store after it has executed the call
	refreshes int
	wakes     int
	waited    []quota.Key
	// onAwait plays the coordinator while a request waits.
	onAwait func(k quota.Key) error
	seen    []demand.Observation
}

const start = 1000 * quota.Second

// zero is the agent's wall clock when its monotonic one shows 0.
const zero = 1_764_547_200 * quota.Second // 2025-12-01T00:00:00Z, a Monday

func (w *world) wall() quota.Micros { return zero + quota.MicrosOf(w.now) }

// newWorld adopts doc in a region that is connected and alone, so that its
// standing share is all of what the document gives to standing shares.
func newWorld(t testing.TB, doc string, set ...func(*Config)) *world {
	w := &world{
		t: t, now: time.Hour, store: bucket.NewStore(), tracker: demand.New(demand.Config{}),
		shares: quota.Shares{{Region: "eu", Weight: 1}},
	}
	cfg := Config{Store: w, Demand: w, Leases: w, Refresh: w.refresh, Wake: func() { w.wakes++ }, Wall: w.wall}
	for _, f := range set {
		f(&cfg)
	}
	w.e = New(cfg)
	w.store.Incarnate(w.time(), "i1")
	if err := w.store.MarkFirst("i1"); err != nil {
		t.Fatal(err)
	}
	w.adopt(doc)
	w.connect(1)
	return w
}

func (w *world) time() quota.Micros { return start + quota.MicrosOf(w.now) }

func (w *world) adopt(doc string) {
	w.t.Helper()
	w.version++
	c := quota.Config{Version: w.version, Sources: []quota.Source{{Name: "rules.yaml", Text: doc}}, Shares: w.shares}
	blob, err := lease.Encode(c, "eu", w.e.Adoption())
	if err != nil {
		w.t.Fatal(err)
	}
	st := w.store.State(w.time())
	if err := w.store.Adopt(w.time(), st.Incarnation, c.Version, blob); err != nil {
		w.t.Fatal(err)
	}
	w.read()
}

// read brings the enforcer up to date with the store.
func (w *world) read() {
	w.t.Helper()
	st := w.store.State(w.time())
	cur, prev := w.store.Config()
	a, err := lease.Adopt("eu", 0, st, cur, prev)
	if err != nil {
		w.t.Fatal(err)
	}
	w.e.Adopt(a)
	w.e.SetView(View{Region: st.Region, Now: st.Now, Agents: 1})
}

func (w *world) connect(s quota.SessionID) {
	w.t.Helper()
	if err := w.store.Renew(w.time(), w.store.State(w.time()).Incarnation, s, w.time()+10*quota.Second); err != nil {
		w.t.Fatal(err)
	}
	w.e.SetView(View{Region: w.store.State(w.time()).Region, Now: w.time(), Agents: 1})
}

// grant gives the key a lease of the fraction num/den of its limit, with credit.
func (w *world) grant(k quota.Key, epoch quota.Epoch, num, den int64, credit quota.Tokens) {
	w.t.Helper()
	a := w.e.Adoption()
	_, l := a.Set.LimitOf(k)
	if l == nil {
		w.t.Fatalf("no rule counts %q", k)
	}
	c := l.Capacity
	c.Burst = c.Burst * quota.Tokens(num) / quota.Tokens(den)
	c.Rate.Tokens = c.Rate.Tokens * quota.Tokens(num) / quota.Tokens(den)
	st := w.store.State(w.time())
	_, err := w.store.Apply(w.time(), st.Incarnation, bucket.ApplyAsk{
		Assignment: quota.Assignment{Key: k, Session: st.Session, Epoch: epoch, Lease: c, Credit: credit},
		Standing:   a.StandingAt(k, 0, w.wall()),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) Take(ctx context.Context, t Take) (TakeResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takes++
	w.asked = append(w.asked, append([]bucket.Ask(nil), t.Asks...))
	if w.fail != nil {
		return TakeResult{}, w.fail
	}
	if !w.store.Current(t.Incarnation, t.Config) {
		return TakeResult{}, ErrStale
	}
	admitted, verdicts := w.store.Take(w.time(), t.Asks)
	if w.lost != nil {
		return TakeResult{}, w.lost
	}
	return TakeResult{Now: max(w.time(), w.store.State(w.time()).Now), Admitted: admitted, Verdicts: verdicts}, nil
}

func (w *world) Charge(ctx context.Context, incarnation string, charges []bucket.Charge) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return w.fail
	}
	if w.store.Charge(w.time(), incarnation, charges) != nil {
		return ErrStale
	}
	w.charged = append(w.charged, charges...)
	return w.lost
}

func (w *world) Observe(o demand.Observation) bool {
	w.seen = append(w.seen, o)
	return w.tracker.Observe(o)
}

func (w *world) Await(ctx context.Context, k quota.Key, limit time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waited = append(w.waited, k)
	if w.onAwait == nil {
		w.now += limit
		return errors.New("no lease arrived")
	}
	return w.onAwait(k)
}

func (w *world) refresh(context.Context) error {
	w.refreshes++
	w.read()
	return nil
}

// Requests in short: d("user=alice"), d("plan=free|user=alice").
func d(entries string, hits ...uint64) Descriptor {
	var out Descriptor
	for part := range strings.SplitSeq(entries, "|") {
		k, v, _ := strings.Cut(part, "=")
		out.Entries = append(out.Entries, rules.Entry{Key: k, Value: v})
	}
	if len(hits) > 0 {
		out.Hits = &hits[0]
	}
	return out
}

func (w *world) decide(hits uint32, ds ...Descriptor) Decision {
	w.t.Helper()
	dec, err := w.e.Decide(context.Background(), w.now, Request{Domain: "api", Hits: hits, Descriptors: ds})
	if err != nil {
		w.t.Fatal(err)
	}
	check(w.t, dec, len(w.charged) > 0)
	return dec
}

// check holds for every decision (K83). A debt may take longer to pay back than
// the limit takes to fill.
func check(t testing.TB, dec Decision, debts bool) {
	t.Helper()
	if dec.Retry < 0 || !dec.Over && dec.Retry != 0 {
		t.Errorf("retry %v of a decision with over %v", dec.Retry, dec.Over)
	}
	for i, s := range dec.Statuses {
		if s.Reason == "" {
			t.Errorf("status %d has no reason", i)
		}
		if s.Reset < 0 || s.Retry < 0 {
			t.Errorf("status %d: reset %v, retry %v", i, s.Reset, s.Retry)
		}
		if s.Over && (s.Remaining != 0 || s.Limit == nil) {
			t.Errorf("status %d is over with %d remaining, limit %v", i, s.Remaining, s.Limit)
		}
		if !s.Over && s.Retry != 0 {
			t.Errorf("status %d is not over and says to wait %v", i, s.Retry)
		}
		if s.Limit != nil && !debts && s.Retry > max(window(s.Limit), time.Duration(s.WindowSeconds)*time.Second) {
			t.Errorf("status %d: retry %v is longer than the limit's %v", i, s.Retry, window(s.Limit))
		}
		if s.Reason == Unlimited && s.Remaining != math.MaxUint32 {
			t.Errorf("status %d is unlimited with %d remaining", i, s.Remaining)
		}
	}
}

// want checks the overall answer.
func (w *world) want(name string, over bool, dec Decision) Decision {
	w.t.Helper()
	if dec.Over != over {
		w.t.Errorf("%s: have over %v, want %v: %+v", name, dec.Over, over, dec.Statuses)
	}
	return dec
}

func key(w *world, d Descriptor) quota.Key {
	r := w.e.Adoption().Set.Match("api", d.Entries)
	if r == nil {
		w.t.Fatal("no rule matches")
	}
	return r.Key("api", d.Entries, 0)
}
