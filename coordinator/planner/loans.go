package planner

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

const (
	// lendQuiet is how long a region must have asked for nothing of a key to lend its
	// standing share of it, and lendUnseen the same for one that was never seen to ask:
	// an agent reports what is used within that time.
	lendQuiet  = 10 * quota.Second
	lendUnseen = quota.Second
	// lendTokens is what a loan must be worth: less does not pay for its entries.
	lendTokens = 10 * quota.Token
	// lendsPerSecond bounds what loans may cost: each is up to four entries in the log,
	// and two calls of its lender's store. At most a second's worth is saved up.
	lendsPerSecond = 50
	// tellAge is how long a borrower is not told of one loan while another is on its
	// way.
	tellAge = 6 * quota.Second
)

// loan is a loan as a plan sees it.
type loan struct {
	ledger.Loan
	left    quota.Micros   // how long it runs at most
	known   bool           // it is of this term, so its end is known well enough to borrow
	counted quota.Capacity // what the ledger counts for it, now and under the newest configuration
}

// told is what a borrower was told of a loan.
type told struct {
	lender string
	at     quota.Micros // of the loan
}

// left returns how long a loan runs at most, on this leader's clock.
func (t *Term) left(now quota.Micros, n *ledger.Loan) quota.Micros {
	if n.Term == t.number {
		return n.For - (now - n.At)
	}
	return n.For - now
}

// lendable returns how many shares may be lent now, or lent for longer.
func (t *Term) lendable(now quota.Micros) int {
	return int((now - max(t.lendsFrom, now-quota.Second)) * lendsPerSecond / quota.Second)
}

// lending notes that n more are.
func (t *Term) lending(now quota.Micros, n int) {
	t.lendsFrom = max(t.lendsFrom, now-quota.Second) + quota.Micros(n)*quota.Second/lendsPerSecond
}

// usable returns how long after a time a borrower may use a loan: until a while
// before its lender may believe that it is over. 0 where nobody knows.
func (t *Term) usable(now quota.Micros, n *ledger.Loan) quota.Micros {
	if n.Term != t.number {
		return 0
	}
	sure := quota.MicrosOf(t.cfg.Timing.Sure(n.For.Duration()) - t.cfg.Timing.Delta)
	return max(0, n.At+sure-now)
}

// loanOf returns all that a region may use of other regions' shares, counted from a
// time, with the credit in flight. It may be nothing: a loan that the flight names may
// have ended since, and been lent anew to another region. The credit goes with all of
// them: tokens of a loan that is over are gone with it.
func (t *Term) loanOf(now quota.Micros, a *ledger.Account, region string, f *ledger.Flight) *quota.Loan {
	all := &quota.Loan{Capacity: quota.Capacity{Rate: quota.Rate{Per: a.Limit().Rate.Per}}}
	usable := 0
	for _, n := range a.Loans() {
		left := t.usable(now, &n).Duration()
		if left == 0 || n.Borrower != region || !slices.Contains(f.Lenders, n.Lender) {
			continue
		}
		if usable++; usable == 1 {
			all.Left = left
		}
		all.Capacity, all.Left = all.Capacity.Add(n.Capacity), min(all.Left, left)
	}
	if usable == len(f.Lenders) {
		all.Credit = f.Borrowed
	}
	return all
}

// lent answers a region whose store has forgotten what it has on loan.
func (t *Term) lent(now quota.Micros, l *ledger.Ledger, region string) *quota.Lent {
	var all quota.Lent
	l.Accounts(func(a *ledger.Account) bool {
		for _, n := range a.Loans() {
			if n.Lender == region {
				all.Keys = append(all.Keys, a.Key)
				all.For = max(all.For, t.left(now, &n).Duration())
			}
		}
		return true
	})
	slices.Sort(all.Keys)
	return &all
}

// lend moves standing shares that nobody uses to where the limit is short: it ends
// the loans whose time is over, or whose lender asks for something again, gives others
// to who wants most, and plans as many more as there is demand for.
func (t *table) lend(ops []ledger.Op, now quota.Micros, cfg Config, e *entry) []ledger.Op {
	before := len(ops)
	for i := range t.loans {
		n := &t.loans[i]
		if n.left <= 0 || n.Borrower == "" && t.wanted(n) {
			if n.left > 0 && !slices.Contains(e.early, n.Lender) {
				e.early = append(e.early, n.Lender)
			}
			ops = append(ops, ledger.EndLoan{Key: t.key, Lender: n.Lender})
		}
	}
	if len(ops) > before || t.orphaned || cfg.Timing.Loan == 0 {
		return ops
	}
	ops = t.borrow(ops, now, e)
	lack := t.lack()
	if lack <= 0 && len(t.loans) == 0 {
		return ops
	}
	for _, s := range t.lenders(cfg) {
		if t.lends >= t.lendable {
			t.deferred = true
			break
		}
		worth := int64(s.share.Rate.Tokens)
		if n := t.loan(s.region); n != nil {
			worth = int64(n.Capacity.Rate.Tokens)
			if t.used(n) {
				lack += worth // without it
			}
		}
		if lack <= 0 {
			continue
		}
		lack -= worth
		ops = append(ops, ledger.Lend{
			Region: s.region, Session: s.session, Key: t.key, Prev: s.holding.Epoch, For: quota.MicrosOf(cfg.Timing.Loan),
		})
		t.lends++
		t.send(s, &ledger.Flight{Lease: t.none(), Release: true, Lends: quota.MicrosOf(cfg.Timing.Loan)})
	}
	return ops
}

// wanted reports whether the lender of a loan asks for something again, and needed
// whether it cannot have that otherwise.
func (t *table) wanted(n *loan) bool {
	s := t.seat(n.Lender)
	return s == nil || s.active
}

func (t *table) needed(n *loan) bool {
	s := t.seat(n.Lender)
	return s == nil || s.active && s.hungry()
}

// seat returns the seat of a region, nil for one that is gone.
func (t *table) seat(region string) *seat {
	for i := range t.seats {
		if t.seats[i].region == region {
			return &t.seats[i]
		}
	}
	return nil
}

// used reports whether the borrower of a loan asks for something.
func (t *table) used(n *loan) bool {
	s := t.seat(n.Borrower)
	return s != nil && s.active
}

// lack is how much more rate is wanted than there is without more loans.
func (t *table) lack() int64 {
	lack := -t.total()[rate]
	for i := range t.seats {
		s := &t.seats[i]
		floor := s.floor()[rate]
		if !s.reachable {
			floor = max(floor, partOf(s.reserved())[rate])
		}
		if s.reachable && s.active {
			floor = max(floor, s.part[rate])
		}
		lack += floor
	}
	return lack + partOf(t.unused())[rate]
}

// unused is what the ledger counts for loans and no seat has.
func (t *table) unused() quota.Capacity {
	c := t.none()
	for i := range t.loans {
		n := &t.loans[i]
		c = c.Add(n.counted)
		if n.Borrower != "" {
			c = c.Sub(n.Capacity)
		}
	}
	return c
}

// lenders returns the seats that could lend now, or lend for longer: the largest
// shares first.
func (t *table) lenders(cfg Config) (all []*seat) {
	for i := range t.seats {
		s := &t.seats[i]
		share := s.share
		if n := t.loan(s.region); n != nil {
			if n.known && n.left > quota.MicrosOf(cfg.Timing.Loan)/2 {
				continue
			}
			share = n.Capacity
		} else if s.quiet < lendQuiet && !s.unseen || s.quiet < lendUnseen || s.next != s.share {
			continue
		}
		worth, _ := quota.Capacity{Rate: share.Rate, Burst: quota.MaxTokens}.Refill(0, quota.MicrosOf(cfg.Timing.Loan))
		if s.free() && !s.held && !s.active && worth >= lendTokens {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b *seat) int { return cmp.Compare(b.share.Rate.Tokens, a.share.Rate.Tokens) })
	return all
}

// borrow gives what was lent to the seat that wants most beyond what it has, and
// tells borrowers of longer loans.
func (t *table) borrow(ops []ledger.Op, now quota.Micros, e *entry) []ledger.Op {
	for i := range t.loans {
		n := &t.loans[i]
		if n.Borrower != "" || !n.known || t.wanted(n) {
			continue
		}
		if s := t.hungriest(n.Lender); s != nil {
			n.Borrower = s.region
			e.forget(n.Lender) // who knows of it has given it back
			s.borrowed = s.borrowed.Add(n.Capacity)
			for dim, more := range partOf(n.Capacity) {
				s.fair[dim], s.goal[dim] = s.fair[dim]+more, s.goal[dim]+more
			}
		}
	}
	for i := range t.seats {
		s := &t.seats[i]
		if !s.free() || !s.active {
			continue
		}
		lenders, news := t.lendersOf(s, e.told)
		news = news || s.misses && now-e.toldAt >= tellAge
		if !news || t.coming() && now-e.toldAt < tellAge {
			continue
		}
		e.tell(now, t.loans, s.region)
		ops = append(ops, ledger.Borrow{Region: s.region, Session: s.session, Key: t.key, Prev: s.holding.Epoch, Lenders: lenders})
		lease := s.share
		if s.leased() {
			lease = s.holding.Lease
		}
		t.send(s, &ledger.Flight{Lease: lease, Borrows: true})
	}
	return ops
}

// lendersOf returns whose shares a seat borrows, of the loans of this term that are
// not called back, and whether that is news to it. Loans of an older term stay as they
// are until they are made longer, if the seat has them: of what was in flight when the
// term ended it has nothing, and a loan whose lender asks for something is not made
// longer. It would be counted with what serves nobody until that is over.
func (t *table) lendersOf(s *seat, have []told) (lenders []string, news bool) {
	for i := range t.loans {
		n := &t.loans[i]
		if n.Borrower != s.region || n.left <= 0 {
			continue
		}
		switch {
		case t.needed(n), !n.known && s.misses:
			news = true
		case n.known:
			lenders = append(lenders, n.Lender)
			news = news || !slices.Contains(have, told{n.Lender, n.At})
		}
	}
	return lenders, news
}

// tell notes that a region is being told of its loans.
func (e *entry) tell(now quota.Micros, loans []loan, region string) {
	e.toldAt = now
	for i := range loans {
		if n := &loans[i]; n.Borrower == region && n.known {
			e.forget(n.Lender)
			e.told = append(e.told, told{n.Lender, n.At})
		}
	}
}

// forget drops that anybody was told of the loan of a lender.
func (e *entry) forget(lender string) {
	e.told = slices.DeleteFunc(e.told, func(o told) bool { return o.lender == lender })
}

// coming reports whether a share is about to be lent.
func (t *table) coming() bool {
	return slices.ContainsFunc(t.seats, func(s seat) bool { return s.reachable && s.inFlight() && s.holding.Flight.Lends > 0 })
}

// hungriest returns the seat that has least of what it wants, nil where all have
// enough.
func (t *table) hungriest(but string) (best *seat) {
	for i := range t.seats {
		s := &t.seats[i]
		if s.region != but && s.hungry() && (best == nil || s.served() < best.served()) {
			best = s
		}
	}
	return best
}

// served is which part of the rate that it wants a seat has.
func (s *seat) served() float64 { return float64(s.fair[rate]) / float64(max(s.part[rate], 1)) }

func (t *table) loan(lender string) *loan {
	for i := range t.loans {
		if t.loans[i].Lender == lender {
			return &t.loans[i]
		}
	}
	return nil
}

// none is no capacity in the limit's period.
func (t *table) none() quota.Capacity { return quota.Capacity{Rate: quota.Rate{Per: t.limit.Rate.Per}} }

// loansDue returns when a loan has to be looked at again.
func (t *table) loansDue(now quota.Micros, cfg Config) quota.Micros {
	due := never
	if t.deferred {
		due = now + shortAge
	}
	for i := range t.loans {
		n := &t.loans[i]
		if half := n.left - quota.MicrosOf(cfg.Timing.Loan)/2; half > 0 {
			due = min(due, now+half)
		} else {
			due = min(due, now+max(n.left, retryAge))
		}
	}
	return due
}
