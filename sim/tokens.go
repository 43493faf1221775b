package sim

import (
	"slices"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/lease"
)

const (
	// lookEvery is how often the tokens of the keys are added up; lookRarely is the
	// same for a run of more than lookLong, of which it would be most of the work.
	lookEvery  = quota.Second / 5
	lookRarely = 5 * quota.Second
	lookLong   = 3600 * quota.Second
	// lookAt bounds the keys; the first ones are those that are asked for most.
	lookAt = 16
)

// look adds up, now and then, what could be spent of each key at once: the levels
// of its regions and of its pool, and the credit in flight, less what its regions owe.
// That is never more than one central bucket would have, given what was admitted:
// otherwise the Bound breaks as soon as somebody asks, and only the load of the run
// decides whether somebody does.
func (w *World) look() {
	for i, k := range w.keys[:min(len(w.keys), lookAt)] {
		for _, win := range w.windows(k) {
			sum, ok := w.spendable(k, win)
			sum -= w.owed(k)
			headroom := w.audit.keys[i].headroom(win, w.loop.Now())
			if k.first.MaxDebt == 0 {
				headroom = max(0, headroom)
			}
			if ok && sum > headroom {
				w.violate("Tokens", "%v tokens of %s could be spent at once, and a central bucket would have %v", sum, k.in(win), headroom)
			}
		}
	}
	for _, r := range w.regions {
		w.rely(r)
	}
	every := lookEvery
	if w.plan.Duration > lookLong {
		every = lookRarely
	}
	w.loop.After(every, w.look)
}

// rely checks that a region relies on no session but its live one.
func (w *World) rely(r *region) {
	if w.counts["store clocks frozen"] > 0 {
		return
	}
	st := r.store.State(r.time())
	if s := w.truth.Region(r.name).Session; st.Session != 0 && st.Now < st.Deadline && (s == nil || s.ID != st.Session) {
		w.violate("Lease", "%s relies on session %d, which has ended", r.name, st.Session)
	}
}

// spendable is what could be spent of a key, or of one window of it, at once; ok is
// false where nobody can say, because a clock stood still or admissions are not charged
// yet.
func (w *World) spendable(of *key, win rules.Window) (sum quota.Tokens, ok bool) {
	k := of.in(win)
	acct := w.truth.Account(k)
	if acct == nil {
		acct = w.truth.Opening(k)
	}
	if acct == nil || w.counts["store clocks frozen"] > 0 {
		return 0, false
	}
	sum = acct.Level(w.truth.Clock())
	for _, n := range acct.Loans() {
		if w.lends(k, &n) {
			sum += n.Tokens
		}
	}
	for _, r := range w.regions {
		adoption, settled := r.adoption()
		if !settled {
			return 0, false
		}
		if adoption != nil {
			sum += r.spendable(adoption, of, win)
		}
		if h, _ := acct.Holding(r.name); h.Flight != nil && w.mayApply(r, k, h.Epoch) {
			sum += h.Flight.Credit
			if w.mayBorrow(k, acct, r.name, h.Flight) {
				sum += h.Flight.Borrowed
			}
		}
	}
	return sum, true
}

// lends reports whether the lender of a loan still does without its share.
func (w *World) lends(k quota.Key, n *ledger.Loan) bool {
	lender := w.region(n.Lender)
	rec, _ := lender.store.Read(k)
	return lender.time() < rec.Away
}

// mayBorrow reports whether a region may still be told of all loans in flight to it:
// their tokens come with all of them or not at all.
func (w *World) mayBorrow(k quota.Key, acct *ledger.Account, region string, f *ledger.Flight) bool {
	told := 0
	for _, n := range acct.Loans() {
		if n.Borrower == region && slices.Contains(f.Lenders, n.Lender) && w.lends(k, &n) {
			told++
		}
	}
	return told == len(f.Lenders)
}

// spendable is what some agent of the region could spend at once.
func (r *region) spendable(adoption *lease.Adoption, of *key, win rules.Window) (most quota.Tokens) {
	now, k := r.time(), of.in(win)
	for _, a := range r.agents {
		if of.window(a.wall()) != win {
			continue
		}
		_, v := r.store.Take(now, []bucket.Ask{{Key: k, Standing: adoption.StandingAt(k, now, a.wall())}})
		most = max(most, v[0].Level)
	}
	return most
}

// mayApply reports whether a region has yet to apply an assignment in flight, and
// whether it still could.
func (w *World) mayApply(r *region, k quota.Key, epoch quota.Epoch) bool {
	s, st := w.truth.Region(r.name).Session, r.store.State(r.time())
	if s == nil || s.Incarnation != st.Incarnation || s.ID < st.Session || s.ID < st.MinSession {
		return false
	}
	rec, _ := r.store.Read(k)
	return rec.Session != s.ID || rec.Epoch < epoch
}

// adoption returns what some agent of the region decides by, nil when that is not
// what the store has; settled is false while an agent owes tokens to the store.
func (r *region) adoption() (adoption *lease.Adoption, settled bool) {
	for _, a := range r.agents {
		if a.enforcer == nil {
			continue
		}
		if a.enforcer.Owing() > 0 {
			return nil, false
		}
		if own := a.enforcer.Adoption(); own != nil && r.store.Current(own.Incarnation, own.Version) {
			adoption = own
		}
	}
	return adoption, true
}

// obeyed checks that a region changes its lease in its live session only: what was
// on its way when a session ended counts as spent.
func (w *World) obeyed(r *region, a quota.Assignment) {
	if s := w.truth.Region(r.name).Session; (s == nil || s.ID != a.Session) && w.counts["store clocks frozen"] == 0 {
		w.violate("I5", "%s applies an assignment of session %d, which has ended", r.name, a.Session)
	}
}
