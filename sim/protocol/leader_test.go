package protocol

import (
	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/planner"
	"github.com/quorate/quorate/coordinator/quota"
)

// leader is one node in one term: its replica of the ledger, its memory, its
// clock. A deposed one goes on believing that it leads.
type leader struct {
	w       *world
	term    uint64
	clock   clock
	began   quota.Micros // on its clock
	ledger  *ledger.Ledger
	memory  *planner.Term
	deposed bool
	wakes   int // the wake-up that counts
}

// elect begins a new term. Entries that the old leader has in flight are
// committed before the new term begins, or never.
func (w *world) elect() {
	w.elections++
	term := uint64(len(w.leaders) + 1)
	if n := len(w.leaders); n > 0 {
		w.leaders[n-1].deposed = true
	}
	l := &leader{w: w, term: term, clock: w.clock()}
	w.leaders = append(w.leaders, l)
	// Votes take a while, then the Barrier: by then every committed entry is applied.
	w.after(w.between(0, 2*quota.Second), func() {
		if l.deposed {
			return
		}
		l.ledger = ledger.New()
		l.catchUp()
		l.began = l.clock.read(w.now)
		l.memory = planner.NewTerm(0, l.ledger, planner.Config{Timing: quota.DefaultTiming()})
		l.round()
	})
}

func (l *leader) now() quota.Micros { return l.clock.read(l.w.now) - l.began }

func (l *leader) catchUp() {
	for i := l.ledger.Index(); i < uint64(len(l.w.log)); i++ {
		l.ledger.Apply(i+1, l.w.log[i])
	}
}

// propose commits ops in a while, or loses them. done gets nil when the outcome
// is unknown to this leader, whatever it was.
func (l *leader) propose(ops []ledger.Op, done func(errs []error)) {
	w := l.w
	if l.memory == nil {
		return
	}
	entry := ledger.Batch{Term: l.term, At: l.now(), Ops: ops}
	lost := w.rand.Float64() < w.params.lost
	w.after(w.between(0, w.params.commit), func() {
		if l.deposed || lost {
			// Raft may still commit an entry whose proposer has lost leadership,
			// as long as the next leader has not begun its term.
			next := w.leaders[len(w.leaders)-1]
			if l.deposed && !lost && next.memory == nil && w.leaders[len(w.leaders)-2] == l {
				w.log = append(w.log, entry)
			}
			done(nil)
			return
		}
		w.log = append(w.log, entry)
		index := uint64(len(w.log))
		var errs []error
		for i := l.ledger.Index(); i < index; i++ {
			if res := l.ledger.Apply(i+1, w.log[i]); i+1 == index && res.Refused == nil {
				errs = res.Errs
			}
		}
		if w.rand.Float64() < w.params.lost {
			errs = nil // the answer came too late
		}
		done(errs)
	})
}

// round asks the term what to propose, and adds what no sane planner would.
func (l *leader) round() {
	w := l.w
	l.wakes++
	if l.deposed && w.rand.IntN(3) == 0 {
		return // it has noticed at last
	}
	wake := l.wakes
	ops, next, propose := l.memory.Next(l.now(), l.ledger)
	if w.rand.Float64() < w.params.nonsense {
		ops = append(l.nonsense(), ops...)
		propose = true
	}
	own := len(ops)
	if propose {
		l.propose(ops, func(errs []error) {
			l.memory.Done(l.now(), l.ledger, ops[:own], errs)
			l.push()
			l.wake(0)
		})
	}
	pause := max(next-l.now(), quota.Second/200)
	w.after(pause, func() {
		if l.wakes == wake {
			l.round()
		}
	})
}

func (l *leader) wake(in quota.Micros) {
	wake := l.wakes
	l.w.after(in, func() {
		if l.wakes == wake {
			l.round()
		}
	})
}

// nonsense returns assignments and drops that nothing but the ledger judges.
func (l *leader) nonsense() (ops []ledger.Op) {
	w := l.w
	for range w.rand.IntN(4) {
		key := w.keys[w.rand.IntN(len(w.keys))]
		r := w.regions[w.rand.IntN(len(w.regions))].name
		if w.rand.IntN(8) == 0 {
			ops = append(ops, ledger.Drop{Key: key})
			continue
		}
		a := ledger.Assign{
			Region: r, Key: key, Release: w.rand.IntN(6) == 0,
			Lease: quota.Capacity{
				Rate:  quota.Rate{Tokens: quota.Tokens(w.rand.Int64N(int64(w.limit.Rate.Tokens) * 5 / 4)), Per: w.limit.Rate.Per},
				Burst: quota.Tokens(w.rand.Int64N(int64(w.limit.Burst) * 5 / 4)),
			},
			Credit: quota.Tokens(w.rand.Int64N(int64(w.limit.Burst))) * quota.Tokens(w.rand.IntN(2)),
		}
		if reg := l.ledger.Region(r); reg != nil && reg.Session != nil {
			a.Session = reg.Session.ID
		}
		if acct := l.ledger.Account(key); acct != nil {
			h, _ := acct.Holding(r)
			a.Prev = h.Epoch
			if w.rand.IntN(2) == 0 {
				// As much as there is: the edge of what the ledger must allow.
				grow := acct.Pool()
				a.Lease = acct.Reserved(r).Add(quota.Capacity{
					Rate:  quota.Rate{Tokens: max(grow.Rate.Tokens, 0), Per: w.limit.Rate.Per},
					Burst: max(grow.Burst, 0),
				})
				a.Credit = min(max(grow.Burst, 0), acct.Level(l.ledger.Clock()))
			}
		}
		ops = append(ops, a)
	}
	return ops
}

// receive handles one sync as the leader loop does: commit what must be, check
// leadership, answer.
func (l *leader) receive(r *region, a *agent, req quota.SyncRequest) {
	w := l.w
	if l.memory == nil {
		return
	}
	before := l.memory.Receive(l.now(), l.ledger, req)
	answer := func() {
		checked := l.now()
		leads := !l.deposed
		w.after(w.between(0, w.params.commit), func() {
			if !leads {
				return // the check fails: no quorum answers a deposed leader
			}
			resp := l.memory.Answer(l.now(), checked, l.ledger, req)
			w.send(r, func() { a.receive(resp) })
			l.wake(0)
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

func (l *leader) push() {
	for _, p := range l.memory.Push(l.now(), l.ledger) {
		for _, r := range l.w.regions {
			if r.name != p.Region {
				continue
			}
			for _, a := range r.agents {
				if a.name == p.Agent {
					l.w.send(r, func() { a.receive(p.SyncResponse) })
				}
			}
		}
	}
}
