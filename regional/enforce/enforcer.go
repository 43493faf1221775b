package enforce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/lease"
)

// Config sets up an Enforcer. Store is required.
type Config struct {
	Store  Store
	Demand Demand // nil: nobody is told
	// Leases lets first requests wait; nil: nobody waits.
	Leases Leases
	// Refresh reads the region's state and adopted configuration again and gives
	// them to Adopt. Nil: a stale view is answered by the failure ladder.
	Refresh func(ctx context.Context) error
	// Wake asks the sync loop to report demand at once. It must not block.
	Wake func()
	// ShadowMode lets every request pass; the statuses tell the truth.
	ShadowMode bool
	// QuotaMode treats every rule as a quota rule.
	QuotaMode bool
	// MaxWaiting is how many requests may wait for a first lease at one time.
	// Default 1,024.
	MaxWaiting int
	// RememberDenials answers from memory where the store would surely deny. Then
	// Forget has to be called for what is applied.
	RememberDenials bool
	// Allowances lets the agent draw tokens ahead for keys that are asked for all the
	// time, and admit by them without the store.
	Allowances bool
	// Loan is how long a standing share may be lent, see quota.Timing.
	Loan time.Duration
	// MaxLocalKeys is how many keys the failure ladder admits for while the
	// store is away; further keys are denied. Default 65,536.
	MaxLocalKeys int
	// Wall is the clock that chooses the window of a request, in Unix time. It is read
	// for rules with windows only, and they need it.
	Wall func() quota.Micros
}

// View is what the sync loop knows of the region beside its configuration.
type View struct {
	Region bucket.Region
	// Now is the store's clock when Region was read, 0 when it was not.
	Now quota.Micros
	// Agents is the number of live agents in the region, counted as 1 when less.
	Agents int
}

// Enforcer makes the decisions of one agent. It is safe for concurrent use.
type Enforcer struct {
	cfg   Config
	snap  atomic.Pointer[snapshot]
	view  atomic.Pointer[View]
	local *local
	waits *waits
	plans sync.Pool
	// denials is nil when they are not remembered.
	denials *denials
	// allowances is nil when nothing is drawn ahead, and repeats with it.
	allowances *allowances
	repeats    *repeats

	refreshing chan struct{} // holds a token while somebody refreshes
	refreshed  atomic.Int64  // when a refresh last changed nothing, 0 for never
}

// snapshot is an adoption with the latest time of the store's clock that was
// seen under it.
type snapshot struct {
	*lease.Adoption
	seen atomic.Int64
}

func (s *snapshot) now() quota.Micros { return quota.Micros(s.seen.Load()) }

// saw notes the store's clock. A race between two calls may keep the earlier
// one, which is as true.
func (s *snapshot) saw(t quota.Micros) {
	if t > s.now() {
		s.seen.Store(int64(t))
	}
}

// refreshPause is how long a refresh that changed nothing is not repeated: a
// region that this agent cannot follow must not cost a refresh per request.
const refreshPause = 100 * time.Millisecond

// New returns an enforcer without rules: every Decide is ErrNoConfig until Adopt.
func New(cfg Config) *Enforcer {
	if cfg.MaxWaiting <= 0 {
		cfg.MaxWaiting = 1024
	}
	if cfg.MaxLocalKeys <= 0 {
		cfg.MaxLocalKeys = 65_536
	}
	e := &Enforcer{
		cfg:        cfg,
		local:      newLocal(cfg.MaxLocalKeys, cfg.Loan),
		waits:      newWaits(cfg.MaxWaiting),
		refreshing: make(chan struct{}, 1),
	}
	if cfg.RememberDenials {
		e.denials = new(denials)
	}
	if cfg.Allowances {
		e.allowances, e.repeats = new(allowances), newRepeats()
	}
	e.plans.New = func() any { return new(plan) }
	e.view.Store(&View{})
	return e
}

// Adopt puts an adoption in force for all decisions that start from now on. Nil
// is ignored.
func (e *Enforcer) Adopt(a *lease.Adoption) {
	if a != nil {
		s := &snapshot{Adoption: a}
		s.saw(a.Read)
		e.snap.Store(s)
		e.forgetAll()
		if e.allowances != nil {
			e.allowances.clear()
		}
		e.repeats.clear()
	}
}

// Forget says that an assignment for k may have been applied: what is remembered of
// its bucket is of no use any more.
func (e *Enforcer) Forget(k quota.Key) {
	if e.denials != nil {
		e.denials.forget(k)
	}
}

func (e *Enforcer) forgetAll() {
	if e.denials != nil {
		e.denials.clear()
	}
}

// Adoption returns the adoption in force, nil without one.
func (e *Enforcer) Adoption() *lease.Adoption {
	if s := e.snap.Load(); s != nil {
		return s.Adoption
	}
	return nil
}

// SetView tells the enforcer what the sync loop has read of the region. It
// decides between lease_empty and coordinator_unreachable, whether waiting for a
// lease makes sense, and how many agents share what is left without the store.
func (e *Enforcer) SetView(v View) {
	was := e.view.Swap(&v)
	renewed := was.Region.Deadline <= v.Now && v.Region.Deadline > v.Now
	if renewed || was.Region.Session != v.Region.Session || was.Region.Incarnation != v.Region.Incarnation {
		e.forgetAll()
	}
	if s := e.snap.Load(); s != nil && s.Incarnation == v.Region.Incarnation {
		s.saw(v.Now)
	}
}

// Decide answers a request. now is a monotonic clock. An error means that there
// is no answer: the request makes no sense, no rules are loaded, or ctx was
// cancelled by the caller. A store that is away is not an error.
func (e *Enforcer) Decide(ctx context.Context, now time.Duration, req Request) (Decision, error) {
	var d Decision
	err := e.DecideInto(ctx, now, req, &d)
	return d, err
}

// DecideInto is Decide into a decision that the caller has had before and is done with:
// its memory is used again.
func (e *Enforcer) DecideInto(ctx context.Context, now time.Duration, req Request, into *Decision) error {
	w, err := e.begin(ctx, now, &req, into, e.cfg.Leases != nil)
	for w != nil {
		*into, w, err = e.await(ctx, w)
	}
	return err
}

// Begin is Decide up to where it would wait for the first lease of a key: then it
// returns a Wait, and the caller waits as it can. Decide is Begin with a wait on
// Config.Leases, which Begin does not need.
func (e *Enforcer) Begin(ctx context.Context, now time.Duration, req Request) (Decision, *Wait, error) {
	var d Decision
	w, err := e.begin(ctx, now, &req, &d, true)
	return d, w, err
}

func (e *Enforcer) begin(ctx context.Context, now time.Duration, req *Request, into *Decision, mayWait bool) (w *Wait, err error) {
	s, err := e.rules(req)
	if err != nil {
		*into = Decision{}
		return nil, err
	}
	if e.again(now, s, req, into) {
		return nil, nil
	}
	*into, w, err = e.run(ctx, turn{now: now, req: *req, statuses: into.Statuses[:0], s: s, p: e.plan(s, now, req, 0), mayWait: mayWait})
	return w, err
}

// turn is one request on its way to a decision.
type turn struct {
	now       time.Duration
	req       Request
	statuses  []Status // memory for those of the decision
	s         *snapshot
	p         *plan
	mayWait   bool
	refreshed bool // its view was stale once
}

// run takes a request from its first take to the decision, or to a wait.
func (e *Enforcer) run(ctx context.Context, t turn) (Decision, *Wait, error) {
	e.recall(t.now, t.p)
	wait, err := e.enforced(ctx, &t)
	if wait {
		return Decision{}, &Wait{enforcer: e, turn: t}, nil
	}
	return e.end(ctx, t, err)
}

// end makes the decision of a request whose enforced rules were asked with the
// outcome err, or begins it again when its view was stale. Nothing was charged when
// err is ErrStale; after another error the outcome of the last call is unknown.
func (e *Enforcer) end(ctx context.Context, t turn, err error) (Decision, *Wait, error) {
	if errors.Is(err, ErrStale) && !t.refreshed && e.refresh(ctx, t.now, t.s) == nil {
		t.s, t.refreshed = e.snap.Load(), true
		t.p = e.plan(t.s, t.now, &t.req, t.p.came)
		t.p.late = true
		return e.run(ctx, t)
	}
	p := t.p
	if err == nil {
		// Shadow rules are counted whatever the others said, and never change it. An
		// error is not one of the request; it may have been charged, so it is not
		// tried again.
		p.retained = e.take(ctx, t.now, t.s, p, true) != nil
		if !p.retained {
			e.observe(p, true, false)
		}
	} else {
		if errors.Is(ctx.Err(), context.Canceled) {
			return Decision{}, nil, fmt.Errorf("decide: %w", ctx.Err())
		}
		if p.unasked = errors.Is(err, errOwing); !p.unasked {
			e.local.fail(t.now)
		}
		e.degrade(t.now, p)
	}
	d := p.decision(t.req, t.statuses, e.cfg.ShadowMode)
	d.UnknownDomain = !t.s.Set.HasDomain(t.req.Domain)
	if d.FromAllowance {
		e.repeats.keep(&t)
	}
	if err == nil && !p.retained {
		e.plans.Put(p)
	}
	return d, nil, nil
}

// rules returns what decides a request that makes sense.
func (e *Enforcer) rules(req *Request) (*snapshot, error) {
	switch s := e.snap.Load(); {
	case req.Domain == "":
		return nil, ErrEmptyDomain
	case len(req.Descriptors) == 0:
		return nil, ErrNoDescriptors
	case s == nil:
		return nil, ErrNoConfig
	default:
		return s, nil
	}
}

// enforced asks for the rules that can deny. wait says that the request is denied
// only for lack of first leases that it may wait for.
func (e *Enforcer) enforced(ctx context.Context, t *turn) (wait bool, err error) {
	p := t.p
	if p.over() {
		e.observe(p, false, false)
		return false, nil // denied whatever the store would say
	}
	if e.local.owesAny(p) {
		// Tokens that were admitted for this key while the store was away are not
		// charged yet: the record still shows them.
		return false, errOwing
	}
	if err := e.take(ctx, t.now, t.s, p, false); err != nil {
		return false, err
	}
	e.observe(p, false, false)
	return t.mayWait && p.over() && p.waitable() && e.waits.enter(t.now, p), nil
}

// errOwing sends a request to the failure ladder although the store may be back.
var errOwing = errors.New("local debt is not settled yet")

// take asks the store for one class of counts, the shadow rules or the others.
// It asks again without those that deny, as long as the request can do without
// them; each answer leaves fewer, and only the last one charges anything.
func (e *Enforcer) take(ctx context.Context, now time.Duration, s *snapshot, p *plan, shadow bool) error {
	if !shadow {
		if err := e.denyLate(ctx, s, p); err != nil || p.over() {
			return err
		}
	}
	for p.gather(shadow) {
		if !p.late && e.spend(now, p) {
			return nil
		}
		p.late = true
		changes := e.changes()
		res, err := e.cfg.Store.Take(ctx, Take{Incarnation: s.Incarnation, Config: s.Version, Asks: p.asks})
		if err == nil && len(res.Verdicts) != len(p.asks) {
			err = fmt.Errorf("%w: %d verdicts on %d asks", ErrStoreDown, len(res.Verdicts), len(p.asks))
		}
		e.drew(now, p, res.Verdicts, err == nil && e.connected(res.Now))
		if p.refunds {
			e.forgetRefunds(p) // also of a take with an unknown outcome
		}
		if err != nil {
			return err
		}
		e.local.up()
		s.saw(res.Now)
		p.record(res, e.connected(res.Now))
		e.remember(now, changes, p)
		if res.Admitted || !shadow && p.over() {
			return nil
		}
	}
	return nil
}

// connected reports whether the region's session was alive at t on the store's clock.
func (e *Enforcer) connected(t quota.Micros) bool {
	r := &e.view.Load().Region
	return r.Session != 0 && t < r.Deadline
}

// observe reports what the store said. again says that the request was observed
// before, as denied, while it waited for its lease.
func (e *Enforcer) observe(p *plan, shadow, again bool) {
	if e.cfg.Demand == nil {
		return
	}
	urgent := false
	for i := range p.counts {
		c := &p.counts[i]
		if c.rule.Shadow != shadow || c.early != "" {
			continue
		}
		for j := range p.items[c.first : c.first+c.n] {
			it := &p.items[c.first+j]
			// A bucket that had enough while another one denied was neither spent
			// from nor short of tokens.
			if !it.asked || it.silent(c.charged) || again && !c.charged || !c.charged && it.v.Admitted {
				continue
			}
			if e.cfg.Demand.Observe(it.observation(c.charged)) {
				urgent = true
			}
		}
	}
	if urgent && e.cfg.Wake != nil {
		e.cfg.Wake()
	}
}

// refresh brings the snapshot up to date, once for all who find it stale.
func (e *Enforcer) refresh(ctx context.Context, now time.Duration, stale *snapshot) error {
	select {
	case e.refreshing <- struct{}{}:
		defer func() { <-e.refreshing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.snap.Load() != stale {
		return nil
	}
	last := time.Duration(e.refreshed.Load())
	if e.cfg.Refresh == nil || last != 0 && now-last < refreshPause {
		return ErrStale
	}
	if err := e.cfg.Refresh(ctx); err != nil {
		e.refreshed.Store(int64(now))
		return fmt.Errorf("refresh region state: %w", err)
	}
	if e.snap.Load() == stale {
		e.refreshed.Store(int64(now))
		return ErrStale
	}
	return nil
}
