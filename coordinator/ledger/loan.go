package ledger

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
)

// Loan is one region's standing share of one key on loan to another region:
//
//	            Lend          Confirm          Borrow          EndLoan
//	share ───────────▶ in flight ─────▶ loan ──────────▶ lent ─────────▶ share
//	lender uses it     lender gives it up       borrower uses it     lender uses it
//
// It ends by itself on both sides, each counting from an event before: the lender
// from applying Lend, the borrower from sending the sync that it was answered
// with. From Confirm to EndLoan its capacity is counted here and nowhere else, so
// no step but the confirmation of Lend moves any, and that one moves it from the
// lender's share to the loan.
//
// It can also be called back: a borrower that has confirmed that it uses it no
// longer, or whose session has ended, is no borrower any more, and a loan without one
// can be ended at once, or given to another region. The lender does without its share
// until the time is over all the same, but may hold it as a lease.
type Loan struct {
	Lender string
	// Capacity is the share as it was counted when it was lent.
	Capacity quota.Capacity
	// Tokens are what the lender surrendered, until somebody borrows. They do not
	// grow.
	Tokens quota.Tokens
	// Term and At are when the Lend that was confirmed last was committed, at the
	// latest, on that leader's clock; it lends For.
	Term uint64
	At   quota.Micros
	For  quota.Micros
	// Borrower is the region that may be using it, "" for none.
	Borrower string
}

// Lend takes the standing share of a key from a region that has nothing else of
// it, for a time. Lending again what is lent makes the loan longer, never shorter.
type Lend struct {
	Region  string
	Session quota.SessionID
	Key     quota.Key
	Prev    quota.Epoch
	// For is how long, counted from when the region applies it.
	For quota.Micros
}

// Borrow gives loans to a region, with their tokens and beside its lease, which
// stays as it is. Repeated for the same region it tells of longer loans, and what is
// not among Lenders any more is called back.
type Borrow struct {
	Region  string
	Session quota.SessionID
	Key     quota.Key
	Prev    quota.Epoch
	Lenders []string
}

// EndLoan ends a loan whose time is over.
type EndLoan struct {
	Key    quota.Key
	Lender string
}

func (Lend) op()    {}
func (Borrow) op()  {}
func (EndLoan) op() {}

// maxLoan bounds how long a share may be lent: a region that loses its store does
// without its shares for as long.
const maxLoan = 3600 * quota.Second

// Loans returns the loans of the account, sorted by lender. Read only.
func (a *Account) Loans() []Loan { return a.loans }

// Lent reports whether region's standing share is on loan.
func (a *Account) Lent(region string) bool { return a.loan(region) != nil }

// Borrowed returns what region may be using of other regions' standing shares.
func (a *Account) Borrowed(region string) quota.Capacity {
	c := quota.Capacity{Rate: quota.Rate{Per: a.terms.limit.Rate.Per}}
	for _, n := range a.loans {
		if n.Borrower == region {
			c = c.Add(n.Capacity)
		}
	}
	return c
}

func (a *Account) loan(lender string) *Loan {
	if i, ok := a.findLoan(lender); ok {
		return &a.loans[i]
	}
	return nil
}

func (a *Account) findLoan(lender string) (int, bool) {
	return slices.BinarySearchFunc(a.loans, lender, func(n Loan, l string) int { return strings.Compare(n.Lender, l) })
}

// vacant returns region's holding if nothing is in flight to it; prev is the epoch
// that the proposer knows of.
func (a *Account) vacant(region string, prev quota.Epoch) (*Holding, error) {
	h := a.holding(region)
	var epoch quota.Epoch
	if h != nil {
		epoch = h.Epoch
	}
	switch {
	case h != nil && h.Flight != nil:
		return nil, ErrInFlight
	case epoch != prev:
		return nil, ErrEpoch
	}
	return h, nil
}

func (l *Ledger) lend(op Lend) error {
	r, err := l.live(op.Region, op.Session)
	if err != nil {
		return err
	}
	if op.For <= 0 || op.For > maxLoan {
		return ErrInvalid
	}
	a := l.accounts[op.Key]
	if a == nil || a.Orphaned() {
		return ErrNoRule
	}
	if a.sliding() > 0 {
		return ErrNoLoan // whoever borrowed would use what its lender has used
	}
	h, err := a.vacant(op.Region, op.Prev)
	switch {
	case err != nil:
		return err
	case h != nil:
		return ErrLeased
	}
	switch n := a.loan(op.Region); {
	case n == nil && a.Share(op.Region).IsZero(), a.Windowed():
		return ErrNoLoan // of windows a region has its share whatever its store knows of loans
	case n != nil && op.For < n.Left(l.term, l.at):
		return ErrInvalid // a borrower may have been told of more
	}
	l.change(a, func() {
		r.Session.Epochs++
		a.hold(Holding{Region: op.Region, Epoch: r.Session.Epochs, Flight: &Flight{
			Lease: a.none(), Release: true, Lends: op.For, Term: l.term, At: l.at,
		}})
	})
	return nil
}

// lent opens the loan that a region has confirmed, or makes it longer. The tokens that
// the lender surrendered for it are good for as long as it does without its share: when
// that is over it begins to use its share again, from empty, and may have been at it for
// long when the answer arrives. So of a loan of which nobody knows that the lender did
// without its share until now, they are gone.
func (l *Ledger) lent(a *Account, region string, f *Flight, surrendered quota.Tokens) {
	i, ok := a.findLoan(region)
	if !ok {
		share := a.Share(region)
		a.loans = slices.Insert(a.loans, i, Loan{
			Lender: region, Capacity: share, Tokens: min(surrendered, share.Burst), Term: f.Term, At: f.At, For: f.Lends,
		})
	}
	n := &a.loans[i]
	if !n.Away(l.term, l.at) {
		n.Tokens = 0
		a.void(n)
	}
	n.Term, n.At, n.For = f.Term, f.At, f.Lends
}

// void takes the tokens out of what is on its way to the borrower of a loan. Those of
// its other loans go with them: what it has applied by now it has all the same.
func (a *Account) void(n *Loan) {
	h := a.holding(n.Borrower)
	if h == nil || h.Flight == nil || h.Flight.Borrowed == 0 || !slices.Contains(h.Flight.Lenders, n.Lender) {
		return
	}
	f := *h.Flight
	f.Borrowed = 0
	h.Flight = &f
}

func (l *Ledger) borrow(op Borrow) error {
	r, err := l.live(op.Region, op.Session)
	if err != nil {
		return err
	}
	a := l.accounts[op.Key]
	if a == nil {
		return ErrNoLoan
	}
	for _, lender := range op.Lenders {
		n := a.loan(lender)
		if n == nil || lender == op.Region || n.Borrower != "" && n.Borrower != op.Region {
			return ErrNoLoan
		}
	}
	h, err := a.vacant(op.Region, op.Prev)
	if err != nil {
		return err
	}
	l.change(a, func() {
		lease := a.floor(op.Region)
		if h == nil {
			h = a.hold(Holding{Region: op.Region})
		} else {
			lease = h.Lease
		}
		r.Session.Epochs++
		h.Epoch = r.Session.Epochs
		f := &Flight{Lease: lease, Borrows: true, Lenders: op.Lenders}
		for _, lender := range op.Lenders {
			n := a.loan(lender)
			f.Borrowed += n.Tokens
			n.Borrower, n.Tokens = op.Region, 0
		}
		h.Flight = f
	})
	return nil
}

// giveBack takes from a region what it borrows, but for the shares of lenders.
func (a *Account) giveBack(region string, but []string) {
	for i := range a.loans {
		if n := &a.loans[i]; n.Borrower == region && !slices.Contains(but, n.Lender) {
			n.Borrower = ""
		}
	}
}

// endLoan needs that nobody may be using it: there is no borrower, or its time has
// passed on one leader's clock: the one that lent, or the present one since its
// start, which came later.
func (l *Ledger) endLoan(op EndLoan) error {
	a := l.accounts[op.Key]
	if a == nil {
		return ErrNoLoan
	}
	i, ok := a.findLoan(op.Lender)
	if !ok {
		return ErrNoLoan
	}
	if n := &a.loans[i]; n.Borrower != "" && n.Left(l.term, l.at) > 0 {
		return ErrLent
	}
	l.change(a, func() { a.loans = slices.Delete(a.loans, i, i+1) })
	return nil
}

// Away reports whether the lender certainly does without its share at a time of a
// leader's term: it began to after the Lend was committed, and its clock may be faster,
// L*(1-2*rho).
func (n *Loan) Away(term uint64, at quota.Micros) bool {
	return term == n.Term && at-n.At < n.For-n.For/50
}

// Left returns how long the loan still runs at a time of a leader's term: not
// known better than its whole length in a term after the one that lent.
func (n *Loan) Left(term uint64, at quota.Micros) quota.Micros {
	if term == n.Term {
		return n.For - (at - n.At)
	}
	return n.For - at
}
