package protocol

import (
	"fmt"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/lease"
)

// region is a store, its clock, and the agents that share it.
type region struct {
	w      *world
	name   string
	clock  clock
	store  *bucket.Store
	backup *bucket.Store // an older state, for a fail-over that rolls back
	agents []*agent
	cut    bool
	lives  int
	// died are the incarnations that this region's agents saw die.
	died string
	view *lease.Adoption
}

type agent struct {
	region  *region
	name    string
	clock   clock
	keeper  *lease.Keeper
	usage   map[quota.Key]quota.Usage
	applied []quota.Applied
	open    uint64 // the sync that waits for its answer
	wakes   int
}

func (w *world) newRegion(name string) *region {
	r := &region{w: w, name: name, clock: w.clock(), store: bucket.NewStore()}
	r.incarnate()
	for i := range w.params.perSite {
		a := &agent{region: r, name: fmt.Sprintf("%s%d", name, i), clock: w.clock(), usage: map[quota.Key]quota.Usage{}}
		a.keeper = lease.New(lease.Config{Region: name, Agent: a.name, Timing: quota.DefaultTiming(), Rand: w.rand.Float64})
		r.agents = append(r.agents, a)
		w.after(w.between(0, quota.Second), a.step)
	}
	w.every(quota.Second/4, r.request)
	w.every(7*quota.Second, func() { r.backup = r.store.Clone() })
	return r
}

func (r *region) time() quota.Micros { return r.clock.read(r.w.now) }

func (r *region) incarnate() {
	r.lives++
	r.store.Incarnate(r.time(), fmt.Sprintf("%s/%d", r.name, r.lives))
}

// reset loses the store's data, or brings an older state of it back. Agents see
// it on their next connection, before they use it.
func (r *region) reset() {
	r.w.resets++
	if r.lives > 0 && r.w.rand.IntN(3) > 0 {
		r.died = r.store.State(r.time()).Incarnation
	} else {
		r.died = ""
	}
	// Bringing back an older configuration is losing acknowledged writes: the
	// Bound does not cover it.
	if r.backup != nil && r.w.params.edits == 0 && r.w.rand.IntN(2) == 0 {
		r.store = r.backup.Clone()
	} else {
		r.store = bucket.NewStore()
	}
	r.incarnate()
	r.view = nil
	r.adopt()
}

// adopt reads the region's configuration as every agent does after a change.
func (r *region) adopt() {
	cur, prev := r.store.Config()
	if v, err := lease.Adopt(r.name, r.store.State(r.time()), cur, prev); err == nil {
		r.view = v
	}
}

// hammer asks every few milliseconds while the storm lasts. A reset in the
// middle of it is the worst moment.
func (r *region) hammer(storm int) {
	if !r.w.busy || r.w.storms != storm {
		return
	}
	r.request()
	if r.w.params.resets > 0 && r.w.rand.IntN(300) == 0 {
		r.reset()
	}
	r.w.after(r.w.between(0, quota.Second/50), func() { r.hammer(storm) })
}

// request asks for a random cost of a random key and tells the auditor.
func (r *region) request() {
	w := r.w
	if r.view == nil {
		return
	}
	key := w.keys[w.rand.IntN(len(w.keys))]
	cost := quota.Tokens(1+w.rand.IntN(3)) * quota.Token
	if w.rand.IntN(10) == 0 {
		cost *= 5
	}
	now := r.time()
	r.store.Sweep(now)
	ask := bucket.Ask{Key: key, Cost: cost, Standing: r.view.StandingOf(key, now)}
	admitted, verdicts := r.store.Take(now, []bucket.Ask{ask})
	a := r.agents[w.rand.IntN(len(r.agents))]
	u := a.usage[key]
	u.Key, u.Window, u.Largest = key, quota.Second.Duration(), max(u.Largest, cost)
	u.Level, u.Burst, u.Epoch = verdicts[0].Level, verdicts[0].Capacity.Burst, verdicts[0].Epoch
	if admitted {
		w.admitted++
		w.meters[key].Admit(w.now, cost)
		u.Admitted += cost
	} else {
		w.denied++
		u.Denied += cost
	}
	a.usage[key] = u
}

func (a *agent) reading() lease.Clock {
	t := a.clock.read(a.region.w.now)
	return lease.Clock{Mono: t, Boot: t, Real: t}
}

// step is one turn of the sync loop.
func (a *agent) step() {
	w, r := a.region.w, a.region
	a.wakes++
	pending := lease.Pending{Usage: len(a.usage) > 0, Applied: len(a.applied) > 0}
	if wait := a.keeper.NextSync(a.reading(), pending); wait > 0 {
		a.wake(wait)
		return
	}
	state := r.store.State(r.time())
	report := lease.Report{Replaces: r.died, Applied: a.applied}
	for _, k := range w.keys {
		if u, ok := a.usage[k]; ok {
			report.Usage = append(report.Usage, u)
		}
	}
	clear(a.usage)
	a.applied = nil
	req := a.keeper.Request(a.reading(), state, report)
	a.open = req.Seq
	if req.Drop {
		r.store.Drop(req.Session)
	}
	// To the leader, or to one that was.
	l := w.leaders[len(w.leaders)-1]
	if n := len(w.leaders); n > 1 && w.rand.IntN(4) == 0 {
		l = w.leaders[n-2]
	}
	w.send(r, func() { l.receive(r, a, req) })
	seq := req.Seq
	w.after(quota.MicrosOf(quota.DefaultTiming().Answer), func() { a.giveUp(seq) })
}

func (a *agent) giveUp(seq uint64) {
	if a.open == seq {
		a.open = 0
		a.keeper.Failed(a.reading())
		a.step()
	}
}

func (a *agent) wake(in quota.Micros) {
	wake := a.wakes
	a.region.w.after(in, func() {
		if a.wakes == wake {
			a.step()
		}
	})
}

// receive does what an answer or a push allows, in the order of lease.Effects.
func (a *agent) receive(resp quota.SyncResponse) {
	w, r := a.region.w, a.region
	if resp.Seq == a.open {
		a.open = 0
	}
	effects, err := a.keeper.Response(a.reading(), resp)
	if err == nil {
		a.obey(effects)
	}
	w.trace("%v %s <- seq %d session %d assignments %d refusal %v err %v", w.now, a.name, resp.Seq, resp.Session, len(resp.Assignments), resp.Refusal, err)
	if r.died != "" && err == nil && resp.Session != 0 {
		r.died = ""
	}
	a.step()
}

func (a *agent) obey(e lease.Effects) {
	r := a.region
	now := r.time()
	incarnation := r.store.State(now).Incarnation
	if e.Renew != nil {
		if r.store.Renew(now, e.Renew.Incarnation, e.Renew.Session, e.Renew.Deadline) != nil {
			return
		}
		if e.Renew.First {
			_ = r.store.MarkFirst(e.Renew.Incarnation)
		}
		incarnation = e.Renew.Incarnation
	}
	if e.Adopt != nil {
		if blob, err := lease.Encode(*e.Adopt, r.name, r.view); err == nil {
			_ = r.store.Adopt(now, incarnation, e.Adopt.Version, blob)
		}
	}
	r.adopt()
	for _, assignment := range e.Apply {
		var standing bucket.Standing
		if r.view != nil {
			standing = r.view.StandingOf(assignment.Key, now)
		}
		applied, err := r.store.Apply(now, incarnation, assignment, standing)
		if err == nil {
			r.w.applied++
			a.applied = append(a.applied, applied)
		}
	}
}
