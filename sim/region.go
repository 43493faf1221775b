package sim

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/lease"
	"github.com/quorate/quorate/sim/vclock"
)

// region is a regional store with its clock, and the agents that share it.
type region struct {
	w      *World
	name   string
	clock  vclock.Clock
	store  *bucket.Store
	backup *bucket.Store // an older state, for a fail-over that rolls back
	agents []*agent
	lives  int
	down   bool    // nobody reaches the store
	loyal  *leader // a deposed leader that the region still asks, nil for none
}

func (w *World) newRegion(p Region) *region {
	r := &region{w: w, name: p.Name, clock: w.newClock(), store: bucket.NewStore()}
	r.incarnate()
	for i := range p.Agents {
		a := &agent{region: r, number: i + 1}
		r.agents = append(r.agents, a)
		a.start(w.between(0, quota.Second))
	}
	w.every(7*quota.Second, func() bool { return !w.healed }, func() {
		if w.plan.Faults.Resets > 0 { // else nobody asks for it
			r.backup = r.store.Clone()
		}
	})
	return r
}

// time is the store's clock, as Redis TIME.
func (r *region) time() quota.Micros { return r.clock.Read(r.w.loop.Now()) }

// incarnate gives the store another identity, as its check on connecting does.
func (r *region) incarnate() {
	r.lives++
	r.store.Incarnate(r.time(), fmt.Sprintf("%s/%d", r.name, r.lives))
}

// reset restarts the store, empty or with what it held a while ago: another
// process, so another incarnation. Agents that were connected saw the old one die.
func (r *region) reset(empty bool) {
	r.w.count("store resets")
	r.w.forgive(r)
	died := r.store.State(r.time()).Incarnation
	for _, a := range r.agents {
		a.died = ""
		if r.w.rand.IntN(3) > 0 {
			a.died = died
		}
	}
	if !empty && r.backup != nil {
		r.w.count("stores rolled back")
		r.store = r.backup.Clone()
	} else {
		r.store = bucket.NewStore()
	}
	r.incarnate()
	r.w.note("store of %s is incarnation %d", r.name, r.lives)
}

// outage makes the store unreachable for d.
func (r *region) outage(d quota.Micros, frozen bool) {
	if r.down {
		return
	}
	r.w.count("store outages")
	r.w.note("store of %s does not answer%s", r.name, only(frozen, ", and its clock stands"))
	r.down = true
	if frozen {
		r.w.count("store clocks frozen")
		r.clock.Freeze(r.w.loop.Now())
	}
	r.w.loop.After(d, r.back)
}

func (r *region) back() {
	if r.down {
		r.w.note("store of %s answers", r.name)
	}
	r.down = false
	r.clock.Thaw(r.w.loop.Now())
}

// port is the store as one agent reaches it. It stands for package redisbucket:
// one call is executed at most once, and an error leaves the outcome unknown.
type port struct{ a *agent }

// reach reports whether a call gets to the store.
func (p port) reach() error {
	if p.a.region.down {
		p.a.region.w.count("store calls failed")
		return enforce.ErrStoreDown
	}
	return nil
}

// reply reports whether the answer of a call gets back.
func (p port) reply() error {
	w := p.a.region.w
	if w.faults.LostReplies > 0 && w.rand.Float64() < w.faults.LostReplies {
		w.count("store replies lost")
		return enforce.ErrStoreDown
	}
	return nil
}

// Take implements enforce.Store.
func (p port) Take(_ context.Context, t enforce.Take) (enforce.TakeResult, error) {
	if err := p.reach(); err != nil {
		return enforce.TakeResult{}, err
	}
	r := p.a.region
	if !r.store.Current(t.Incarnation, t.Config) {
		r.w.count("stale takes")
		return enforce.TakeResult{}, enforce.ErrStale
	}
	now := r.time()
	if r.w.loop.Now() >= r.w.sweepAt {
		r.w.sweepAt = r.w.loop.Now() + quota.Second
		r.store.Sweep(now)
	}
	res := enforce.TakeResult{Now: r.store.State(now).Now}
	res.Admitted, res.Verdicts = p.a.take(now, t.Asks)
	for _, v := range res.Verdicts {
		if v.Grant.Tokens > 0 {
			r.w.count("draws ahead")
		}
	}
	if err := p.reply(); err != nil {
		return enforce.TakeResult{}, err
	}
	if res.Admitted {
		for i, v := range res.Verdicts {
			r.w.audit.held(r, t.Asks[i].Key, v)
			r.w.audit.owing(r, t.Asks[i], v)
		}
	}
	return res, nil
}

// Charge implements enforce.Store.
func (p port) Charge(_ context.Context, incarnation string, charges []bucket.Charge) error {
	if err := p.reach(); err != nil {
		return err
	}
	r := p.a.region
	r.w.count("local debts charged")
	if err := r.store.Charge(r.time(), incarnation, charges); err != nil {
		return fmt.Errorf("%w: %w", enforce.ErrStale, err)
	}
	if err := p.reply(); err != nil {
		return err
	}
	for _, c := range charges {
		delete(p.a.owed, c.Key)
	}
	return nil
}

// refresh reads the region's configuration, as regional.region does.
func (a *agent) refresh(context.Context) error {
	if err := (port{a}).reach(); err != nil {
		return err
	}
	r := a.region
	s := r.store.State(r.time())
	a.see(s)
	lent := enforce.Lent{At: a.mono.Read(r.w.loop.Now()).Duration(), Now: s.Now}
	lent.Until = r.store.Lent(r.time())
	if !s.LentKnown && !s.First {
		lent.All = s.Since + quota.MicrosOf(r.w.plan.Timing.Loan)
	}
	a.enforcer.SetLent(lent)
	if k := a.known; a.enforcer.Adoption() != nil && k.Incarnation == s.Incarnation && k.Config == s.Config && k.Prev == s.Prev &&
		k.First == s.First && k.LentKnown == s.LentKnown && k.Since == s.Since && k.ConfigSince == s.ConfigSince && k.PrevSince == s.PrevSince {
		return nil
	}
	current, prev := r.store.Config()
	adoption, err := lease.Adopt(r.name, quota.MicrosOf(r.w.plan.Timing.Loan), s, current, prev)
	if err != nil {
		return err
	}
	was := a.config()
	a.known = s
	a.enforcer.Adopt(adoption)
	a.see(s)
	switch now := a.config(); {
	case now == was:
	case was == 0:
		a.confirm = true // nothing was drawn before
		a.wake(0)
	default:
		a.settle(settled)
	}
	return nil
}

// config returns the version that decisions are made by, 0 without one.
func (a *agent) config() uint64 {
	if adoption := a.enforcer.Adoption(); adoption != nil {
		return adoption.Version
	}
	return 0
}

func (a *agent) see(s bucket.State) {
	a.enforcer.SetView(enforce.View{Region: s.Region, Now: s.Now, Agents: max(1, a.peers)})
}

// standing is what the region owns of a key, as regional.region's Standing.
func (a *agent) standing(incarnation string, k quota.Key, now quota.Micros) bucket.Standing {
	adoption := a.enforcer.Adoption()
	if adoption == nil {
		return lease.Uncounted(k, 0)
	}
	st := adoption.StandingAt(k, now, a.wall())
	if adoption.Incarnation != incarnation {
		st.Base, st.Since = 0, now
	}
	return st
}
