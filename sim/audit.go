package sim

import (
	"fmt"
	"math"
	"reflect"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// Violation is a promise that was broken. Promise is an invariant of package
// ledger (I1 … I8), or Bound, Worst, Lease, Tokens, Debt, Edit or Liveness, see Run.
type Violation struct {
	Promise string       `json:"promise"`
	At      quota.Micros `json:"at_us"`
	What    string       `json:"what"`
}

// audit sees every admission with the true time, and every entry of the log.
type audit struct {
	w          *World
	keys       []*tally
	cells      map[string][]Cell // by region, one a second
	violations []Violation
	leases     []LeaseChange

	clock quota.Micros // of the truth after the last entry
	term  uint64       // of the last entry
}

// tally is the audit of one key.
type tally struct {
	meters
	limit           quota.Capacity
	windows         map[rules.Window]*meters // where the limit counts in fixed windows
	offered, denied quota.Tokens
	admitted        map[string]quota.Tokens // by region
	final           map[string]quota.Tokens // of it, in the time that liveness is measured
	paid            map[string]quota.Tokens // what each owed when that began
	// givenBack and uncharged are of refunds and settlements; blind is what was admitted
	// without the store of a limit with debts.
	givenBack, uncharged, blind quota.Tokens
}

// LeaseChange is a lease that a region has applied.
type LeaseChange struct {
	At     quota.Micros
	Region string
	Key    quota.Key
	Lease  quota.Capacity
}

// Cell is one second of one region.
type Cell struct {
	Offered, Admitted quota.Tokens
	// Lease is the rate that the ledger counted for the region when the second
	// began, of the first key: its lease, or its standing share.
	Lease quota.Rate
}

func newAudit(w *World) *audit {
	a := &audit{w: w, cells: map[string][]Cell{}}
	for _, k := range w.keys {
		a.keys = append(a.keys, &tally{
			meters: metersOf(k, w.plan.Faults.DriftPPM), limit: k.limit.Capacity, windows: map[rules.Window]*meters{},
			admitted: map[string]quota.Tokens{}, final: map[string]quota.Tokens{}, paid: map[string]quota.Tokens{},
		})
	}
	return a
}

// audited is what an auditor with the true time holds against clocks that are up to
// driftPPM too fast. A region's may be faster, and so may a leader's: that much more
// rate. And clocks are read in whole microseconds: between two readings one may show a
// microsecond more than its rate makes of the time that has passed, however short that
// was. It is one for every bucket at its own rate, so one of the whole rate, and does not
// add up: a bucket earns from reading to reading.
func audited(limit quota.Capacity, driftPPM int64) quota.Capacity {
	if driftPPM == 0 || limit.Rate.Per <= 0 {
		return limit
	}
	limit.Burst += (limit.Rate.Tokens + quota.Tokens(limit.Rate.Per) - 1) / quota.Tokens(limit.Rate.Per)
	limit.Rate.Tokens += quota.Tokens(math.Ceil(float64(limit.Rate.Tokens) * float64(2*driftPPM) / quota.PPM))
	return limit
}

// violate notes a broken promise, the first few of each.
func (w *World) violate(promise, format string, args ...any) {
	w.count("violations of " + promise)
	if w.counts["violations of "+promise] > 3 {
		return
	}
	v := Violation{promise, w.loop.Now(), fmt.Sprintf(format, args...)}
	w.audit.violations = append(w.audit.violations, v)
	w.note("%s is broken: %s", v.Promise, v.What)
}

func (a *audit) cell(r *region) *Cell {
	second := int(a.w.loop.Now() / quota.Second)
	cells := a.cells[r.name]
	for len(cells) <= second {
		cells = append(cells, Cell{Lease: a.w.heldRate(r)})
	}
	a.cells[r.name] = cells
	return &cells[second]
}

// sample begins the next second of every region, whether or not anybody asks.
func (w *World) sample() {
	for _, r := range w.regions {
		w.audit.cell(r)
	}
	w.loop.After(quota.Second, w.sample)
}

// heldRate is what the ledger counts for a region of the first key.
func (w *World) heldRate(r *region) quota.Rate {
	k := w.keys[0]
	if acct := w.truth.Account(w.current(k)); acct != nil {
		held := acct.Reserved(r.name).Add(acct.Borrowed(r.name))
		for _, n := range acct.Loans() {
			if n.Lender == r.name {
				held = held.Sub(n.Capacity.Max(acct.Share(r.name)))
			}
		}
		return k.limit.Steady(held)
	}
	return k.limit.Steady(k.limit.StandingShare(r.name, w.truth.Current().Shares))
}

func (a *audit) offered(r *region, k int, win rules.Window, cost quota.Tokens) {
	t := a.keys[k]
	t.offered += cost
	t.in(win).ideal.Offer(a.w.loop.Now(), cost)
	a.cell(r).Offered += cost
}

func (a *audit) admitted(by *agent, k int, win rules.Window, cost quota.Tokens, d enforce.Decision) {
	r, t, now := by.region, a.keys[k], a.w.loop.Now()
	m := t.in(win)
	m.meter.Admit(now, cost)
	m.spare.Admit(now, cost)
	t.admitted[r.name] += cost
	if a.w.keys[k].first.Override {
		a.w.count("admitted of an override")
	}
	a.cell(r).Admitted += cost
	if a.w.healed && now >= a.w.measureFrom() {
		t.final[r.name] += cost
	}
	if d.FromAllowance {
		a.w.count("admitted by tokens drawn ahead")
	}
	if d.Degraded {
		a.w.count("admitted without the store")
		if a.w.keys[k].first.OnStoreFailure == rules.OnStoreFailureLocal {
			by.owed[a.w.keys[k].in(win)] += cost
		}
		t.blind += cost
	}
}

func (a *audit) denied(r *region, k int, win rules.Window, cost quota.Tokens, d enforce.Decision) {
	t := a.keys[k]
	t.denied += cost
	t.in(win).spare.Deny(a.w.loop.Now(), cost)
	a.w.count("denied: " + string(d.Statuses[0].Reason))
}

// held checks an admission against what the region may have then, by everything
// that was ever committed.
func (a *audit) held(r *region, k quota.Key, v bucket.Verdict) {
	w := a.w
	switch v.Holding {
	case bucket.OnLease:
		s := w.truth.Region(r.name).Session
		if st := r.store.State(r.time()); s == nil || s.ID != st.Session {
			if w.counts["store clocks frozen"] > 0 {
				w.count("leases and loans used after their end") // within the Worst case
				return
			}
			w.violate("Lease", "%s admits on a lease of session %d, which has ended", r.name, st.Session)
			return
		}
	case bucket.OnStanding:
	default:
		return
	}
	acct := w.truth.Account(k)
	if acct == nil {
		return
	}
	if reserved := acct.Reserved(r.name).Add(acct.Borrowed(r.name)); !reserved.Covers(v.Capacity) {
		if w.counts["store clocks frozen"] > 0 {
			w.count("leases and loans used after their end")
			return
		}
		w.violate("Lease", "%s admits with %v of %s and the ledger counts %v", r.name, v.Capacity, k, reserved)
	}
}

// entry checks the ledger after an entry was committed.
func (a *audit) entry(b ledger.Batch, res ledger.Result) {
	if res.Refused != nil {
		a.w.count("entries of an older term")
		return
	}
	w := a.w
	clock := w.truth.Clock()
	if clock < a.clock || b.Term != a.term && clock != a.clock {
		w.violate("I6", "the ledger clock went from %d to %d in term %d, after one of term %d", a.clock, clock, b.Term, a.term)
	}
	a.clock, a.term = clock, max(b.Term, a.term)
	all := false
	for i, op := range b.Ops {
		switch op := op.(type) {
		case ledger.Assign:
			a.account(w.truth.Account(op.Key))
		case ledger.Confirm:
			a.account(w.truth.Account(op.Key))
		case ledger.Lend:
			a.account(w.truth.Account(op.Key))
		case ledger.Borrow:
			a.account(w.truth.Account(op.Key))
		case ledger.EndLoan:
			a.account(w.truth.Account(op.Key))
		case ledger.OpenSession, ledger.EndSession, ledger.Offer, ledger.Adopted, ledger.SetRules, ledger.AddRegion:
			all = true
		}
		if res.Err(i) == nil {
			a.done(op)
			w.tell(op)
		}
	}
	if all && w.truth.Len() <= 16 {
		w.truth.Accounts(func(acct *ledger.Account) bool {
			a.account(acct)
			return true
		})
	}
}

// done counts what an operation did.
func (a *audit) done(op ledger.Op) {
	switch op := op.(type) {
	case ledger.OpenSession:
		if op.Replaces != "" {
			a.w.count("sessions replaced by a new incarnation")
		}
	case ledger.EndSession:
		a.w.count("sessions ended")
		a.w.rely(a.w.region(op.Region))
	case ledger.MarkSilent:
		if op.Silent {
			a.w.count("sessions marked silent")
		} else {
			a.w.count("sessions cleared of a mark")
		}
	case ledger.Drop:
		a.w.count("accounts dropped")
	case ledger.Borrow:
		a.w.count("loans borrowed")
	case ledger.EndLoan:
		a.w.count("loans ended")
	}
}

// account adds up an account again, from its parts.
func (a *audit) account(acct *ledger.Account) {
	if acct == nil || acct.Orphaned() {
		return
	}
	w := a.w
	pool := acct.Limit().Capacity
	lent := map[string]bool{}
	for _, n := range acct.Loans() {
		lent[n.Lender] = true
		pool = pool.Sub(n.Capacity.Max(acct.Share(n.Lender)))
		if n.Tokens < 0 || n.Tokens > n.Capacity.Burst {
			w.violate("I2", "the loan of %s of %s has %v tokens", acct.Key, n.Lender, n.Tokens)
		}
	}
	for _, r := range w.truth.Regions() {
		held := acct.Share(r.Name)
		if lent[r.Name] {
			held = quota.Capacity{Rate: quota.Rate{Per: pool.Rate.Per}}
		}
		if h, ok := acct.Holding(r.Name); ok {
			if h.Leased {
				held = held.Max(h.Lease)
			}
			if h.Flight != nil {
				held = held.Max(h.Flight.Lease)
				if r.Session == nil {
					w.violate("I5", "%s has an assignment of %s in flight and no session", r.Name, acct.Key)
				}
			}
		}
		pool = pool.Sub(held)
	}
	if pool.Burst < 0 || pool.Rate.Tokens < 0 {
		w.violate("I1", "the regions hold more of %s than there is: the pool is %v", acct.Key, pool)
	}
	if level := acct.Level(w.truth.Clock()); level < 0 || level > max(0, pool.Burst) {
		w.violate("I3", "the pool of %s holds %v tokens, its burst is %v", acct.Key, level, pool.Burst)
	}
}

// refusal is a kind of operation and why the ledger refused it.
type refusal struct {
	op  reflect.Type
	err error
}

// refused counts what the ledger refused. Worlds with nonsense in them come here
// thousands of times for the same few reasons.
func (w *World) refused(op ledger.Op, err error) {
	r := refusal{reflect.TypeOf(op), err}
	what, ok := w.refusals[r]
	if !ok {
		what = fmt.Sprintf("refused: %T %v", op, err)
		w.refusals[r] = what
	}
	w.count(what)
}

// assigned counts what an agent applied.
func (w *World) assigned(region string, a quota.Assignment, applied quota.Applied, again bool) {
	if w.plan.KeepLeases && !again {
		w.audit.leases = append(w.audit.leases, LeaseChange{w.loop.Now(), region, a.Key, a.Lease})
	}
	w.applies(region, a, again)
	w.count("assignments applied")
	if again {
		w.count("assignments applied again")
		return
	}
	if a.Credit > 0 {
		w.count("credits that travelled")
	}
	if applied.Surrendered > 0 {
		w.count("surrenders")
	}
	if a.Release {
		w.count("releases")
	}
}

func refusalName(c quota.RefusalCode) string {
	switch c {
	case quota.RefusedUnknownRegion:
		return "unknown region"
	case quota.RefusedSecondStore:
		return "second store"
	case quota.RefusedWrongCluster:
		return "wrong cluster"
	}
	return "busy"
}
