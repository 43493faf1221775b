package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/quorate/quorate/coordinator/fsm"
	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/sim/fault"
	"github.com/quorate/quorate/sim/netsim"
	"github.com/quorate/quorate/sim/replog"
	"github.com/quorate/quorate/sim/vclock"
)

// nodeName is the coordinator's place in the network: a region is cut off from
// all of its nodes at once.
const nodeName = "coordinator"

// World is one run.
type World struct {
	plan   Plan
	seed   uint64
	loop   vclock.Loop
	rand   *rand.Rand
	skews  *rand.Rand // of wall clocks
	afters *rand.Rand // of what is done about requests afterwards
	net    *netsim.Net
	log    *replog.Log
	faults fault.Plan // in force now

	truth   *ledger.Ledger // every committed entry, applied when it is committed
	leaders []*leader      // the last ones; the last is the real one
	regions []*region
	keys    []*key
	audit   *audit
	edits   int
	streams uint64 // of arrivals, ever begun
	healed  bool
	sweepAt quota.Micros

	entries, messages int
	counts            map[string]int
	refusals          map[refusal]string // what each is counted as
	debts             map[quota.Key]*key // those that may be in debt
	trace             func(at quota.Micros, line string)
}

// key is one audited identity.
type key struct {
	Key
	rule  *rules.Rule  // that counts it, whatever is edited
	first *rules.Limit // by which: its first limit, or that of the requests
	key   quota.Key    // without its window
	limit quota.Limit
}

// newKey finds what counts a key.
func newKey(set *rules.Set, k Key) (*key, error) {
	if !k.Override.IsZero() {
		rule, limit, name := set.Overridden(k.Domain, k.Entries, k.Override)
		if limit == nil {
			return nil, fmt.Errorf("the rules let nobody override the limit of %s %v", k.Domain, k.Entries)
		}
		return &key{Key: k, rule: rule, first: limit, key: name, limit: limit.Limit}, nil
	}
	rule := set.Match(k.Domain, k.Entries)
	if rule == nil || len(rule.Limits) == 0 {
		return nil, fmt.Errorf("no rule limits %s %v", k.Domain, k.Entries)
	}
	return &key{Key: k, rule: rule, first: &rule.Limits[0], key: rule.Key(k.Domain, k.Entries, 0), limit: rule.Limits[0].Limit}, nil
}

// newWorld assembles a run that has not begun.
func newWorld(p Plan, seed uint64) (*World, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	if p.Timing == (quota.Timing{}) {
		p.Timing = quota.DefaultTiming()
	}
	set, err := rules.Parse(p.Rules)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	w := &World{
		plan: p, seed: seed, rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), skews: newSkews(seed), afters: newAfters(seed), faults: p.Faults,
		truth: ledger.New(), counts: map[string]int{}, refusals: map[refusal]string{},
	}
	for _, k := range p.Keys {
		one, err := newKey(set, k)
		if err != nil {
			return nil, err
		}
		w.keys = append(w.keys, one)
	}
	w.findDebts()
	w.audit = newAudit(w)
	w.net = netsim.New(&w.loop, w.rand, p.Faults.Network)
	w.log = replog.New(&w.loop, w.rand, p.Faults.Log)
	w.log.Committed = w.committed
	w.log.Append(ledger.Batch{Ops: []ledger.Op{ledger.Found{Cluster: "sim", Shares: p.shares()}, ledger.SetRules{Sources: p.Rules}}})
	for _, r := range p.Regions {
		w.regions = append(w.regions, w.newRegion(r))
	}
	w.elect()
	w.schedule()
	return w, nil
}

// schedule queues everything that happens to the world.
func (w *World) schedule() {
	w.sample()
	for _, e := range w.plan.Events {
		w.loop.At(e.At, func() { w.happen(e) })
	}
	anyRegion := func() *region { return w.regions[w.rand.IntN(len(w.regions))] }
	anyAgent := func() *agent {
		r := anyRegion()
		return r.agents[w.rand.IntN(len(r.agents))]
	}
	unhealed := func() bool { return !w.healed }
	f := w.plan.Faults
	w.every(f.Elections, unhealed, w.elect)
	w.every(f.Partitions, unhealed, func() { w.partition(anyRegion().name) })
	w.every(f.Resets, unhealed, func() { anyRegion().reset(f.Edits > 0 || w.rand.IntN(2) == 0) })
	w.every(f.Outages, unhealed, func() {
		if w.rand.Float64() < f.Frozen { // for about as long as a session may outlive it
			anyRegion().outage(w.between(8*quota.Second, 20*quota.Second), true)
			return
		}
		anyRegion().outage(w.between(0, 15*quota.Second), false)
	})
	w.every(f.Kills, unhealed, func() { anyAgent().kill() })
	w.every(f.Steps, unhealed, func() { anyAgent().upset() })
	w.every(f.Edits, unhealed, w.edit)
	for _, l := range w.plan.Load {
		w.load(l, w.plan.Start, func() bool { return !w.healed })
	}
	w.look()
	if w.plan.Heal > 0 {
		w.loop.At(w.plan.Heal, w.heal)
	}
	if w.plan.Heal > 0 && len(w.debts) > 0 {
		w.loop.At(w.measureFrom(), w.owe)
	}
}

// heal ends all faults and begins the final load.
func (w *World) heal() {
	w.note("healed")
	w.healed = true
	w.faults = w.plan.Faults.Calm()
	w.net.HealAll()
	w.net.SetFaults(w.faults.Network)
	w.log.SetFaults(w.faults.Log)
	for _, r := range w.regions {
		r.back()
	}
	w.restore()
	for _, l := range w.plan.Final {
		w.load(l, w.loop.Now(), func() bool { return true })
	}
}

// restore gives the cluster the rules and weights back that it began with, as soon
// as somebody leads.
func (w *World) restore() {
	l := w.leaders[len(w.leaders)-1]
	if l.memory == nil {
		w.loop.After(quota.Second, w.restore)
		return
	}
	ops := []ledger.Op{ledger.SetRules{Sources: w.plan.Rules}}
	for _, r := range w.plan.Regions {
		ops = append(ops, ledger.AddRegion{Region: r.Name, Weight: r.Weight})
	}
	l.propose(ops, func([]error) { l.hurry() })
	// An edit from before may be committed after this.
	w.loop.After(quota.Second, func() {
		if cur := w.truth.Current(); !slices.Equal(cur.Shares, sorted(w.plan.shares())) || !slices.Equal(cur.Sources, w.plan.Rules) {
			w.restore()
		}
	})
}

func sorted(s quota.Shares) quota.Shares {
	slices.SortFunc(s, func(a, b quota.Share) int { return cmp.Compare(a.Region, b.Region) })
	return s
}

// load begins to send requests: at times that depend on the seed and on nothing
// that happens in the run.
func (w *World) load(l Load, from quota.Micros, goOn func() bool) {
	w.streams++
	requests := NewRequests(l, w.seed, w.streams)
	r := w.region(l.Region)
	var next func()
	next = func() {
		at, k, cost, ok := requests.Next()
		if !ok {
			return
		}
		w.loop.At(from+at, func() {
			if goOn() {
				w.request(r, k, cost, l.Afterwards)
				next()
			}
		})
	}
	next()
}

// request asks one agent of a region and tells the auditor.
func (w *World) request(r *region, k int, hits uint32, then Afterwards) {
	id := &w.keys[k].Key
	req := enforce.Request{Domain: id.Domain, Hits: hits, Descriptors: []enforce.Descriptor{{Entries: id.Entries, Override: id.Override}}}
	a := r.some(w.rand)
	cost := quota.Whole(uint64(hits))
	win := w.keys[k].window(a.wall())
	w.audit.offered(r, k, win, cost)
	a.decide(req, func(d enforce.Decision, ok bool) {
		switch {
		case !ok:
			w.count("requests without a decision")
		case d.Over:
			w.audit.denied(r, k, win, cost, d)
		default:
			w.audit.admitted(a, k, win, cost, d)
			w.after(r, k, hits, then)
		}
	})
}

// encodedEvery is the distance of the entries that the truth gets in the form in
// which a disk has them. The leaders get none in that form, so that one which means
// something else shows when their ledgers are compared with the truth.
const encodedEvery = 8

// committed applies an entry to the truth.
func (w *World) committed(index uint64, b ledger.Batch) {
	w.entries++
	if index%encodedEvery == 0 {
		data, err := fsm.Encode(b)
		if err == nil {
			b, err = fsm.Decode(data)
		}
		if err != nil {
			w.violate("I8", "entry %d does not survive its encoding: %v", index, err)
			return
		}
	}
	w.audit.entry(b, w.truth.Apply(index, b))
}

// happen makes an event of the plan happen.
func (w *World) happen(e Event) {
	r := w.region(e.Region)
	w.note("%s %s", e.Kind, e.Region)
	switch e.Kind {
	case Elect:
		w.elect()
	case Cut:
		w.net.Cut(nodeName, r.name)
		w.net.Cut(r.name, nodeName)
	case Mend:
		w.net.Heal(nodeName, r.name)
		w.net.Heal(r.name, nodeName)
	case Reset:
		r.reset(true)
	case Outage:
		w.count("store outages")
		r.down = true
	case Back:
		r.back()
	case Kill:
		r.agents[0].kill()
	case Edit:
		w.edit()
	}
}

// partition cuts a region off for a while, both ways or one.
func (w *World) partition(name string) {
	w.count("partitions")
	ways := w.rand.IntN(4) // 0: what is sent to the region, 1: what it sends, else both
	if ways != 1 {
		w.net.Cut(nodeName, name)
	}
	if ways != 0 {
		w.net.Cut(name, nodeName)
	}
	w.note("%s", cutOff(name, ways != 1, ways != 0))
	w.loop.After(w.between(0, 25*quota.Second), func() {
		w.note("%s is reached again", name)
		w.net.Heal(nodeName, name)
		w.net.Heal(name, nodeName)
	})
}

// edit changes the rules or a weight; the limits stay.
func (w *World) edit() {
	l := w.leaders[len(w.leaders)-1]
	if l.memory == nil {
		return
	}
	w.count("edits")
	var op ledger.Op
	if n := len(w.plan.Edited); n > 0 && w.rand.IntN(2) == 0 {
		op = ledger.SetRules{Sources: w.plan.Edited[w.edits%n]}
		w.edits++
	} else {
		op = ledger.AddRegion{Region: w.regions[w.rand.IntN(len(w.regions))].name, Weight: int64(w.rand.IntN(4))}
	}
	l.propose([]ledger.Op{op}, func([]error) { l.hurry() })
}

// upset sets an agent's wall clock, or suspends its machine: then the monotonic
// clock stands while the others go on.
func (a *agent) upset() {
	w := a.region.w
	d := w.between(-30*quota.Second, 30*quota.Second)
	w.count("agent clocks upset")
	w.setWall(a)
	if w.rand.IntN(2) == 0 {
		a.real.Step(w.loop.Now(), d)
		return
	}
	a.boot.Step(w.loop.Now(), max(d, -d))
	a.real.Step(w.loop.Now(), max(d, -d))
}

// anyLeader returns the leader, or one that was. One that knows that its term is
// over is asked only where leaders change at random, as one more fault: agents go
// where they were sent.
func (w *World) anyLeader(r *region) *leader {
	if r.loyal != nil && !w.healed {
		return r.loyal
	}
	if n := len(w.leaders); n > 1 && !w.healed && w.rand.IntN(4) == 0 {
		if was := w.leaders[n-2]; !was.gone || w.plan.Faults.Elections > 0 {
			return was
		}
	}
	return w.leaders[len(w.leaders)-1]
}

func (w *World) send(from, to string, arrive func()) {
	w.messages++
	w.net.Send(from, to, arrive)
}

func (w *World) region(name string) *region {
	for _, r := range w.regions {
		if r.name == name {
			return r
		}
	}
	return nil
}

func (w *World) between(lo, hi quota.Micros) quota.Micros {
	return lo + quota.Micros(w.rand.Int64N(int64(hi-lo)+1))
}

// every does something at random times with a mean distance, as long as goOn.
func (w *World) every(mean quota.Micros, goOn func() bool, do func()) {
	if mean == 0 {
		return
	}
	w.loop.After(quota.Micros(w.rand.ExpFloat64()*float64(mean)), func() {
		if goOn() {
			do()
			w.every(mean, goOn, do)
		}
	})
}

// newClock draws a machine's clock: any origin, any rate within the drift.
func (w *World) newClock() vclock.Clock {
	ppm := int64(0)
	if d := w.plan.Faults.DriftPPM; d > 0 {
		ppm = w.rand.Int64N(2*d+1) - d
	}
	return vclock.NewClock(w.between(0, 1000*quota.Second), ppm)
}

func (w *World) count(what string) { w.counts[what]++ }

func (w *World) note(format string, args ...any) {
	if w.trace != nil {
		w.trace(w.loop.Now(), fmt.Sprintf(format, args...))
	}
}
