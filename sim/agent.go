package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/demand"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/lease"
	"github.com/quorate/quorate/sim/vclock"
)

// agent is one agent process: its sync loop and its decisions. It stands for
// package uplink and for the wiring of package regional.
type agent struct {
	region *region
	number int
	lives  int
	name   string // unique per life

	// mono, boot and real are the clocks of its machine.
	mono, boot, real vclock.Clock
	skew             quota.Micros // of the wall clock that chooses windows

	keeper   *lease.Keeper
	demand   *demand.Tracker
	enforcer *enforce.Enforcer
	known    bucket.State // what the adoption in force was read from
	peers    int          // agents of the region, as the coordinator says
	applied  map[quota.Key]quota.Applied
	confirm  bool // something was applied or adopted that nobody has heard of
	urgent   bool
	polling  bool              // a look at the changed usage is due
	open     quota.SyncRequest // the sync that waits for its answer, Seq 0 for none
	asked    *leader           // who was asked
	beside   []quota.Usage     // reported beside a sync; the next answer says that it was heard
	fresh    bool              // something was applied since the last message
	died     string            // the incarnation that this agent saw die
	mourned  string            // the incarnation before which it has waited for what was drawn
	wakes    int               // the wake-up that counts
	waiters  map[quota.Key][]*waiter

	given quota.Tokens               // what the store has taken back of a refund
	owed  map[quota.Key]quota.Tokens // what was admitted without the store and is not charged yet
}

const (
	watchEvery = quota.Second              // as regional's
	watchSoon  = 200 * quota.Second / 1000 // as regional's
	poll       = 50 * quota.Second / 1000  // as uplink's
)

// start begins a life of the agent in a while.
func (a *agent) start(in quota.Micros) {
	w := a.region.w
	a.lives++
	a.wakes++
	a.name = fmt.Sprintf("%s-%d.%d", a.region.name, a.number, a.lives)
	c := w.newClock()
	a.mono, a.boot, a.real = c, c, c
	w.setWall(a)
	a.keeper = lease.New(lease.Config{Region: a.region.name, Agent: a.name, Timing: w.plan.Timing, Rand: w.rand.Float64})
	a.demand = demand.New(demand.Config{})
	a.enforcer = enforce.New(enforce.Config{
		Store: port{a}, Demand: a.demand, Refresh: a.refresh, Loan: w.plan.Timing.Loan, Wall: a.wall, Allowances: w.plan.Allowances,
		Wake: func() {
			a.urgent = true
			a.wake(0)
		},
	})
	a.known, a.peers, a.applied, a.owed = bucket.State{}, 0, map[quota.Key]quota.Applied{}, map[quota.Key]quota.Tokens{}
	a.confirm, a.urgent, a.polling, a.fresh = false, false, false, false
	a.open, a.beside = quota.SyncRequest{}, nil
	a.waiters = map[quota.Key][]*waiter{}
	life := a.lives
	w.loop.After(in, func() {
		if a.lives == life {
			a.watch(life)
			a.step()
		}
	})
}

// kill ends the process without warning; another one starts.
func (a *agent) kill() {
	w := a.region.w
	w.count("agents killed")
	w.note("agent %s is killed", a.name)
	a.start(w.between(quota.Second/10, 3*quota.Second))
}

// watch reads the region's state now and then and settles what is owed to it.
func (a *agent) watch(life int) {
	if a.lives != life {
		return
	}
	wait := watchEvery
	err := a.refresh(context.Background())
	if (port{a}).reach() != nil {
		a.enforcer.Lost(a.mono.Read(a.region.w.loop.Now()).Duration())
	}
	if err == nil && a.enforcer.Owing() > 0 {
		err = a.enforcer.Settle(context.Background())
	}
	if err != nil || a.enforcer.Adoption() == nil || a.enforcer.Owing() > 0 {
		wait = watchSoon
	}
	a.region.w.loop.After(wait, func() { a.watch(life) })
}

// decide makes one decision, now or when the request has waited for the first lease
// of its key, and tells it to done; ok is false when there was none.
func (a *agent) decide(req enforce.Request, done func(d enforce.Decision, ok bool)) {
	now := a.mono.Read(a.region.w.loop.Now()).Duration()
	d, wait, err := a.enforcer.Begin(context.Background(), now, req)
	if !a.polling && a.demand.Changed() > 0 {
		a.polling = true
		a.region.w.loop.After(a.region.w.between(0, poll), func() {
			if a.polling {
				a.step()
			}
		})
	}
	if wait == nil {
		done(d, err == nil)
		return
	}
	a.await(wait, done)
}

func (a *agent) reading() lease.Clock {
	now := a.region.w.loop.Now()
	return lease.Clock{Mono: a.mono.Read(now), Boot: a.boot.Read(now), Real: a.real.Read(now)}
}

// step is one turn of the sync loop.
func (a *agent) step() {
	w, r := a.region.w, a.region
	a.wakes++
	a.polling = false
	pending := lease.Pending{Usage: a.demand.Changed() > 0, Urgent: a.urgent, Applied: a.confirm}
	if wait := a.keeper.NextSync(a.reading(), pending); wait > 0 {
		a.wake(min(wait, a.report()))
		return
	}
	if (port{a}).reach() != nil {
		a.keeper.Failed(a.reading())
		a.wake(quota.Second / 10)
		return
	}
	state := r.store.State(r.time())
	if a.mourned != state.Incarnation && lease.Settles(state, a.died) > 0 {
		a.mourned = state.Incarnation
		a.wake(settled)
		return
	}
	report := lease.Report{Replaces: a.died, Config: a.config(), Usage: a.demand.Collect(a.mono.Read(w.loop.Now()))}
	report.Applied = a.unconfirmed()
	req := a.keeper.Request(a.reading(), state, report)
	if state.Config > a.config() {
		_ = a.refresh(context.Background())
	}
	a.open, a.confirm, a.urgent, a.fresh = req, false, false, false
	a.open.Usage = append(a.beside, req.Usage...) // all that is lost if nobody answers
	a.beside = nil
	life := a.lives
	if req.Drop {
		w.count("sessions dropped by their region")
		r.store.Drop(req.Session)
		w.loop.After(settled, func() {
			if a.lives == life && a.open.Seq == req.Seq {
				a.ask(req)
			}
		})
	} else {
		a.ask(req)
	}
	w.loop.After(quota.MicrosOf(w.plan.Timing.Answer), func() {
		if a.lives == life {
			a.broken(req.Seq)
		}
	})
}

// settled is how long after a change in its store an agent tells of it. It stands for
// uplink's.
const settled = bucket.DrawSpan + bucket.DrawSpan/10

func (a *agent) ask(req quota.SyncRequest) {
	l := a.region.w.anyLeader(a.region)
	a.asked = l
	a.region.w.send(a.region.name, nodeName, func() { l.receive(a, req) })
}

// report says what has changed beside the sync that waits, when it is time to, and
// returns when to look again. It stands for uplink's report.
func (a *agent) report() quota.Micros {
	w := a.region.w
	wait, ok := a.keeper.NextBeside(a.reading(), lease.Pending{Usage: a.demand.Changed() > 0, Urgent: a.urgent, Applied: a.fresh})
	switch {
	case !ok:
		return quota.MicrosOf(w.plan.Timing.Answer)
	case wait > 0:
		return wait
	}
	usage := a.demand.Collect(a.mono.Read(w.loop.Now()))
	req, ok := a.keeper.Beside(a.reading(), lease.Report{Usage: usage, Applied: a.unconfirmed()})
	if !ok {
		a.demand.Return(usage)
		return poll
	}
	a.beside = append(a.beside, usage...)
	a.urgent, a.fresh = false, false
	l := a.asked
	w.send(a.region.name, nodeName, func() { l.report(req) })
	return quota.MicrosOf(w.plan.Timing.Answer)
}

func (a *agent) unconfirmed() []quota.Applied {
	return slices.SortedFunc(maps.Values(a.applied), func(x, y quota.Applied) int {
		return strings.Compare(string(x.Key), string(y.Key))
	})
}

// broken says that a sync will get no answer.
func (a *agent) broken(seq uint64) {
	if seq == 0 || a.open.Seq != seq {
		return
	}
	a.region.w.count("syncs without an answer")
	a.demand.Return(a.open.Usage)
	a.demand.Return(a.beside)
	a.beside = nil
	a.confirm = a.confirm || len(a.open.Applied) > 0
	a.open = quota.SyncRequest{}
	a.keeper.Failed(a.reading())
	a.step()
}

// wake takes the next turn of the loop in a while.
func (a *agent) wake(in quota.Micros) {
	a.wakes++
	wake := a.wakes
	a.region.w.loop.After(in, func() {
		if a.wakes == wake {
			a.step()
		}
	})
}

// hear takes an answer or a push to one life of the agent: it comes on a stream,
// which ends with the process.
func (a *agent) hear(name string, resp quota.SyncResponse) {
	if a.name == name {
		a.receive(resp)
	}
}

// receive does what an answer or a push allows.
func (a *agent) receive(resp quota.SyncResponse) {
	w := a.region.w
	var asked quota.SyncRequest
	if resp.Seq != 0 && resp.Seq == a.open.Seq {
		asked, a.open = a.open, quota.SyncRequest{}
	}
	effects, err := a.keeper.Response(a.reading(), resp)
	switch {
	case err == nil:
		for _, applied := range asked.Applied {
			if a.applied[applied.Key] == applied {
				delete(a.applied, applied.Key)
			}
		}
		a.obey(effects)
	case resp.Refusal != nil:
		a.demand.Return(asked.Usage)
		a.demand.Return(a.beside)
		a.beside = nil
	case asked.Seq == 0:
		w.count("answers that were late, repeated or not asked for")
	}
	a.confirm = a.confirm || asked.Seq != 0 && len(a.applied) > 0
	a.step()
}

// obey does what the keeper allows, in the order of lease.Effects.
func (a *agent) obey(e lease.Effects) {
	r, w := a.region, a.region.w
	if (port{a}).reach() != nil {
		a.confirm = true
		return
	}
	now, incarnation := r.time(), e.Incarnation
	if e.Agents > 0 {
		a.peers = e.Agents
	}
	if e.Lend != nil {
		asks := make([]bucket.LendAsk, len(e.Lend.Keys))
		for i, k := range e.Lend.Keys {
			asks[i] = bucket.LendAsk{Key: k, Share: a.standing(incarnation, k, now).Capacity}
		}
		if r.store.Lend(now, incarnation, asks, e.Lend.Span) != nil {
			a.confirm = true
			return
		}
		for range asks {
			w.count("loans taken over by a new incarnation")
		}
	}
	if e.Renew != nil {
		if e.Renew.First {
			_ = r.store.MarkFirst(incarnation)
		}
		if err := r.store.Renew(now, incarnation, e.Renew.Session, e.Renew.Deadline); err != nil {
			w.count("renewals that the store refused")
			a.confirm = true
			return
		}
		a.died = ""
		for k, applied := range a.applied {
			if applied.Session < e.Renew.Session {
				delete(a.applied, k) // nobody needs to hear of it any more
			}
		}
		a.see(r.store.State(now))
	}
	if e.Adopt != nil {
		_ = a.refresh(context.Background()) // what it has adopted before decides what its shares are worth
		if blob, err := lease.Encode(*e.Adopt, r.name, a.enforcer.Adoption()); err == nil {
			if r.store.Adopt(now, incarnation, e.Adopt.Version, blob) == nil {
				w.count("configurations adopted")
			}
		}
		_ = a.refresh(context.Background())
	}
	for _, apply := range e.Apply {
		assignment := apply.Assignment
		before, _ := r.store.Read(assignment.Key)
		applied, err := r.store.Apply(now, incarnation, bucket.ApplyAsk{
			Assignment: assignment, Standing: a.standing(incarnation, assignment.Key, now), LoanUntil: apply.LoanUntil,
		})
		switch {
		case errors.Is(err, bucket.ErrSettling):
			if assignment.Lend == 0 {
				w.count("assignments that waited for drawn tokens")
				a.settle(settled)
				continue
			}
			w.count("shares lent")
			a.settle(bucket.Notice + quota.Second/10)
			continue
		case err != nil:
			w.count("assignments that the store refused")
			continue
		}
		if before.Session != assignment.Session || before.Epoch < assignment.Epoch {
			w.obeyed(r, assignment)
		}
		w.assigned(r.name, assignment, applied, a.applied[assignment.Key] == applied)
		a.notify(assignment.Key)
		a.applied[assignment.Key] = applied
		a.confirm, a.fresh = true, true
	}
}

// settle says or asks again what it is too early for now. It stands for uplink's.
func (a *agent) settle(in quota.Micros) {
	life := a.lives
	a.region.w.loop.After(in, func() {
		if a.lives == life {
			a.confirm = true
			a.step()
		}
	})
}
