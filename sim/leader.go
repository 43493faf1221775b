package sim

import (
	"slices"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/planner"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/vclock"
)

// leader is one coordinator node in one term: its replica of the ledger, its
// memory and its clock. It stands for package coordinator's term and rounds. A
// deposed one goes on believing that it leads until its proposals fail.
type leader struct {
	w      *World
	term   uint64
	clock  vclock.Clock
	began  quota.Micros // on its clock
	ledger *ledger.Ledger
	memory *planner.Term
	wakes  int          // the wake-up that counts
	due    quota.Micros // when it is, in true time; 0 when none is to come
	busy   bool         // a round is being committed
	gone   bool         // it knows that its term is over
	apart  bool         // it cannot learn that for now
}

const (
	gather = 3 * quota.Second / 1000  // as coordinator's
	retry  = 50 * quota.Second / 1000 // as coordinator's
	votes  = 2 * quota.Second         // what an election takes at most
)

// elect starts a new term. Votes take a while, then the barrier.
func (w *World) elect() {
	w.count("elections")
	if n := len(w.leaders); n > 0 && w.faults.Loyal > 0 && w.rand.Float64() < w.faults.Loyal {
		w.leaders[n-1].keep(w.regions[w.rand.IntN(len(w.regions))])
	}
	l := &leader{w: w, term: w.log.Elect(), clock: w.newClock()}
	w.leaders = append(w.leaders, l)
	if n := len(w.leaders); n > 4 {
		w.leaders = w.leaders[n-4:] // nobody asks the older ones any more
	}
	w.loop.After(w.between(0, votes), func() {
		if !w.log.Begin(l.term) {
			return
		}
		// What a node has that was away: a snapshot, and the entries since.
		replica, err := ledger.Restore(w.truth.Snapshot())
		if err != nil {
			w.violate("I8", "restore a snapshot at index %d: %v", w.truth.Index(), err)
			return
		}
		l.ledger = replica
		l.began = l.clock.Read(w.loop.Now())
		cfg := w.plan.Planner
		cfg.Timing = w.plan.Timing
		l.memory = planner.NewTerm(0, l.term, l.ledger, cfg)
		w.note("leader of term %d begins", l.term)
		l.round()
	})
}

// keep makes a region go on asking a leader that is deposed now and does not notice.
func (l *leader) keep(r *region) {
	w := l.w
	w.count("regions loyal to a deposed leader")
	r.loyal, l.apart = l, true
	w.loop.After(w.between(0, 25*quota.Second), func() {
		l.apart = false
		if r.loyal == l {
			r.loyal = nil
		}
	})
}

// now is the leader's monotonic time since its term began.
func (l *leader) now() quota.Micros { return l.clock.Read(l.w.loop.Now()) - l.began }

// catchUp applies what was committed up to index and returns the errors of the
// last entry.
func (l *leader) catchUp(index uint64) (errs []error, refused error) {
	for i := l.ledger.Index(); i < index; i++ {
		res := l.ledger.Apply(i+1, l.w.log.Entry(i+1))
		errs, refused = res.Errs, res.Refused
	}
	return errs, refused
}

// propose commits ops; done gets nil when their outcome is unknown.
func (l *leader) propose(ops []ledger.Op, done func(errs []error)) {
	l.w.log.Propose(ledger.Batch{Term: l.term, At: l.now(), Ops: ops}, func(index uint64) {
		if index == 0 {
			done(nil)
			return
		}
		errs, refused := l.catchUp(index)
		if refused != nil {
			errs = nil
		}
		for i, err := range errs {
			if err != nil {
				l.w.refused(ops[i], err)
			}
		}
		done(errs)
	})
}

// round asks the term what to propose, as term.rounds does, and adds what no
// sane planner would.
func (l *leader) round() {
	w := l.w
	if l.busy || l.gone {
		return
	}
	if !w.log.Leads(l.term) && !l.apart && w.rand.IntN(3) == 0 {
		l.gone = true // it has noticed at last
		return
	}
	ops, next, propose := l.memory.Next(l.now(), l.ledger)
	own := len(ops)
	l.adopts(ops)
	if w.faults.Nonsense > 0 && w.rand.Float64() < w.faults.Nonsense {
		ops = append(l.nonsense(), ops...)
		propose = true
	}
	if !propose {
		l.push()
		l.wake(max(next-l.now(), gather))
		return
	}
	l.busy = true
	l.propose(ops, func(errs []error) {
		planned := ops[len(ops)-own:]
		pause := gather
		if errs == nil {
			l.memory.Done(l.now(), l.ledger, planned, nil)
			pause = retry
		} else {
			l.memory.Done(l.now(), l.ledger, planned, errs[len(ops)-own:])
		}
		l.push()
		w.loop.After(pause, func() {
			l.busy = false
			l.round()
		})
	})
}

// adopts holds what the term takes for adopted against the agents that it knows: one that
// decides by older rules admits what only the new ones count. In a store that was reset
// meanwhile they may have gone back to older ones; then the session is over too.
func (l *leader) adopts(ops []ledger.Op) {
	w := l.w
	for _, op := range ops {
		op, ok := op.(ledger.Adopted)
		if !ok {
			continue
		}
		w.count("edits adopted")
		r, s := w.region(op.Region), l.ledger.Region(op.Region).Session
		if s == nil || s.Incarnation != r.store.State(r.time()).Incarnation {
			continue
		}
		for _, c := range l.memory.Contacts(l.now()) {
			for _, a := range r.agents {
				if c.Region == op.Region && slices.Contains(c.Agents, a.name) && a.config() < op.Version {
					w.violate("Edit", "%s is taken to have adopted rules %d, and agent %s decides by %d", op.Region, op.Version, a.name, a.config())
				}
			}
		}
	}
}

// hurry makes a round begin soon: what changes at the same time shares it. What
// changes while it is due does not put it off, as nothing puts off term.wait.
func (l *leader) hurry() {
	if l.busy || l.gone || l.due > 0 && l.due <= l.w.loop.Now()+gather {
		return
	}
	l.wake(gather)
}

// wake begins the next round in a while, and at no other time.
func (l *leader) wake(in quota.Micros) {
	l.wakes++
	wake := l.wakes
	l.due = l.w.loop.Now() + in
	l.w.loop.After(in, func() {
		if l.wakes == wake {
			l.due = 0
			l.round()
		}
	})
}

// receive handles one sync as term.sync does: commit what must be, check the
// leadership, answer.
func (l *leader) receive(a *agent, req quota.SyncRequest) {
	w := l.w
	if l.memory == nil || l.gone {
		w.send(nodeName, a.region.name, func() { a.broken(req.Seq) }) // not the leader
		return
	}
	before := l.memory.Receive(l.now(), l.ledger, req)
	l.hurry()
	answer := func() {
		checked := l.now()
		// A quorum answers the check unless it follows another leader by now.
		leads := w.log.Leads(l.term)
		w.loop.After(w.faults.Log.Commit, func() {
			if !leads {
				w.count("leadership checks that failed")
				l.gone = true
				return
			}
			resp := l.memory.Answer(l.now(), checked, l.ledger, req)
			if resp.Refusal != nil {
				w.count("syncs refused: " + refusalName(resp.Refusal.Code))
			}
			w.send(nodeName, a.region.name, func() { a.hear(req.Agent, resp) })
			l.hurry()
		})
	}
	if len(before) == 0 {
		answer()
		return
	}
	l.propose(before, func(errs []error) {
		l.memory.Done(l.now(), l.ledger, before, errs)
		answer()
	})
}

// report takes what an agent says beside a sync.
func (l *leader) report(req quota.SyncRequest) {
	if l.memory == nil || l.gone {
		return
	}
	l.memory.Report(l.now(), l.ledger, req)
	l.hurry()
}

// push sends new assignments and configurations to the agents they are for.
func (l *leader) push() {
	for _, p := range l.memory.Push(l.now(), l.ledger) {
		for _, a := range l.w.region(p.Region).agents {
			if a.name == p.Agent {
				l.w.send(nodeName, p.Region, func() { a.hear(p.Agent, p.SyncResponse) })
			}
		}
	}
}

// nonsense returns assignments and drops that nothing but the ledger judges.
func (l *leader) nonsense() (ops []ledger.Op) {
	w := l.w
	for range w.rand.IntN(4) {
		k := w.keys[w.rand.IntN(len(w.keys))]
		name := w.regions[w.rand.IntN(len(w.regions))].name
		at := w.current(k)
		if w.rand.IntN(8) == 0 {
			ops = append(ops, ledger.Drop{Key: at})
			continue
		}
		if w.rand.IntN(3) == 0 {
			ops = append(ops, l.strangeLoan(at, name))
			continue
		}
		limit := k.limit
		a := ledger.Assign{
			Region: name, Key: at, Release: w.rand.IntN(6) == 0,
			Lease: quota.Capacity{
				Rate:  quota.Rate{Tokens: quota.Tokens(w.rand.Int64N(int64(limit.Rate.Tokens)*5/4 + 1)), Per: limit.Rate.Per},
				Burst: quota.Tokens(w.rand.Int64N(int64(limit.Burst)*5/4 + 1)),
			},
			Credit: quota.Tokens(w.rand.Int64N(int64(limit.Burst)+1)) * quota.Tokens(w.rand.IntN(2)),
		}
		if r := l.ledger.Region(name); r != nil && r.Session != nil {
			a.Session = r.Session.ID
		}
		if acct := l.ledger.Account(at); acct != nil {
			h, _ := acct.Holding(name)
			a.Prev = h.Epoch
			if w.rand.IntN(2) == 0 {
				// As much as there is: the edge of what the ledger must allow.
				grow := acct.Pool()
				a.Lease = acct.Reserved(name).Add(quota.Capacity{
					Rate:  quota.Rate{Tokens: max(grow.Rate.Tokens, 0), Per: limit.Rate.Per},
					Burst: max(grow.Burst, 0),
				})
				a.Credit = min(max(grow.Burst, 0), acct.Level(l.ledger.Clock()))
			}
		}
		ops = append(ops, a)
	}
	return ops
}

// strangeLoan returns an operation on loans that no planner would propose now.
func (l *leader) strangeLoan(k quota.Key, region string) ledger.Op {
	w := l.w
	var session quota.SessionID
	if r := l.ledger.Region(region); r != nil && r.Session != nil {
		session = r.Session.ID
	}
	var epoch quota.Epoch
	var lenders []string
	if acct := l.ledger.Account(k); acct != nil {
		h, _ := acct.Holding(region)
		epoch = h.Epoch
		for _, n := range acct.Loans() {
			if n.Lender != region && (n.Borrower == "" || n.Borrower == region) {
				lenders = append(lenders, n.Lender)
			}
		}
	}
	switch {
	case w.rand.IntN(4) == 0:
		return ledger.EndLoan{Key: k, Lender: region}
	case len(lenders) > 0 && w.rand.IntN(2) == 0:
		return ledger.Borrow{Region: region, Session: session, Key: k, Prev: epoch, Lenders: lenders}
	}
	return ledger.Lend{Region: region, Session: session, Key: k, Prev: epoch, For: w.between(0, quota.MicrosOf(w.plan.Timing.Loan)) + 1}
}
