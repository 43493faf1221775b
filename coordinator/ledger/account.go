package ledger

import (
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
)

// Account is the entry of one key that outgrew the standing shares. All methods
// are reads; the ledger alone changes it.
type Account struct {
	Key   quota.Key
	terms *terms // shared by the accounts of one rule
	// The pool's bucket: level at the ledger time at. Capacity is derived.
	level quota.Tokens
	at    quota.Micros
	held  []Holding // sorted by region; only regions that hold or are about to
	loans []Loan    // sorted by lender
	// returns are of a sliding window only, by time. They are never changed in place,
	// so that snapshots may share them.
	returns []Return
	// window is the length of the fixed window that the key names, 0 for none. Of such
	// an account at is the last change.
	window quota.Micros
}

// Holding is what one region has of an account beyond its standing share.
type Holding struct {
	Region string
	// Epoch of the last assignment, confirmed or in flight.
	Epoch quota.Epoch
	// Lease is the confirmed lease, a total; Leased is false before the first
	// confirmation.
	Lease  quota.Capacity
	Leased bool
	// Flight is the assignment on its way, nil when there is none.
	Flight *Flight
}

// Flight is an assignment that the region has not confirmed yet.
type Flight struct {
	Lease   quota.Capacity
	Credit  quota.Tokens
	Release bool
	// Lends, when not 0, takes the standing share away too, for that long. Term
	// and At are when it was committed, see Loan.
	Lends quota.Micros
	Term  uint64
	At    quota.Micros
	// Borrows says that the loans of Lenders come beside the lease, with Borrowed
	// tokens, and no others any more.
	Borrows  bool
	Lenders  []string
	Borrowed quota.Tokens
}

// Limit returns the limit that the account divides.
func (a *Account) Limit() quota.Limit { return a.terms.limit }

// Orphaned reports whether no rule in force counts the key any more: the
// account then keeps its last limit until it is full and dropped.
func (a *Account) Orphaned() bool { return a.terms.orphaned }

// Rule returns the id of the rule that counts the key, "" when orphaned.
func (a *Account) Rule() string { return a.terms.rule }

// Share returns the standing share that the ledger counts for a region: the
// largest that it may be using.
func (a *Account) Share(region string) quota.Capacity {
	for _, s := range a.terms.shares {
		if s.region == region {
			return s.Capacity
		}
	}
	return a.none()
}

// floor is what a lease of region must cover: its standing share, unless that is
// on loan.
func (a *Account) floor(region string) quota.Capacity {
	if a.Lent(region) {
		return a.none()
	}
	return a.Share(region)
}

func (a *Account) none() quota.Capacity {
	return quota.Capacity{Rate: quota.Rate{Per: a.terms.limit.Rate.Per}}
}

// Holdings returns the regions that hold a lease or are about to. Read only.
func (a *Account) Holdings() []Holding { return a.held }

// Holding returns what region holds, ok false when it has its share only.
func (a *Account) Holding(region string) (h Holding, ok bool) {
	if p := a.holding(region); p != nil {
		return *p, true
	}
	return Holding{}, false
}

// Reserved returns what the ledger counts for region (I1). A standing share that
// is on loan is counted beside the lease, not in it.
func (a *Account) Reserved(region string) quota.Capacity {
	c := a.reserved(region)
	if n := a.loan(region); n != nil {
		c = c.Add(n.Capacity.Max(a.Share(region)))
	}
	return c
}

// reserved is Reserved without what the region has on loan.
func (a *Account) reserved(region string) quota.Capacity {
	c := a.floor(region)
	if h := a.holding(region); h != nil {
		c = h.reserve(c)
	}
	return c
}

func (h *Holding) reserve(share quota.Capacity) quota.Capacity {
	c := share
	if h.Leased {
		c = c.Max(h.Lease)
	}
	if h.Flight != nil {
		c = c.Max(h.Flight.Lease)
		// A share that grows meanwhile may be full when the credit arrives.
		c.Burst = max(c.Burst, share.Burst+h.Flight.Credit)
	}
	return c
}

// Pool returns the capacity that no region holds: the limit less what is
// reserved. It is negative while a lowered limit is being recalled.
func (a *Account) Pool() quota.Capacity {
	p := a.terms.limit.Capacity.Sub(a.terms.sum)
	for i := range a.held {
		floor := a.floor(a.held[i].Region)
		p = p.Add(floor).Sub(a.held[i].reserve(floor))
	}
	for i := range a.loans {
		share := a.Share(a.loans[i].Lender)
		p = p.Add(share).Sub(a.loans[i].Capacity.Max(share))
	}
	return p
}

// Level returns the tokens in the pool at the ledger time clock.
func (a *Account) Level(clock quota.Micros) quota.Tokens {
	level, _ := a.filled(clock)
	return level
}

func (a *Account) filled(clock quota.Micros) (quota.Tokens, quota.Micros) {
	if a.sliding() > 0 {
		return a.matured(clock), 0
	}
	p := a.Pool()
	p.Burst = max(p.Burst, 0)
	return p.Refill(a.level, clock-a.at)
}

// settle brings the pool to the ledger time before its capacity changes.
func (a *Account) settle(clock quota.Micros) {
	level, unspent := a.filled(clock)
	a.level, a.at = level, clock-unspent
	_, n := a.mature(clock)
	a.returns = a.returns[n:]
}

// clamp cuts the pool's level to its burst after its capacity changed (I3).
func (a *Account) clamp() { a.level = min(a.level, max(a.Pool().Burst, 0)) }

func (a *Account) holding(region string) *Holding {
	for i := range a.held {
		if a.held[i].Region == region {
			return &a.held[i]
		}
	}
	return nil
}

func (a *Account) release(region string) {
	a.held = slices.DeleteFunc(a.held, func(h Holding) bool { return h.Region == region })
}

func (a *Account) hold(h Holding) *Holding {
	i := 0
	for i < len(a.held) && a.held[i].Region < h.Region {
		i++
	}
	a.held = slices.Insert(a.held, i, h)
	return &a.held[i]
}

// change runs f on a settled account and keeps its pool and the state hash right.
func (l *Ledger) change(a *Account, f func()) {
	l.sum -= a.digest()
	a.settle(l.clock)
	f()
	if a.sliding() > 0 {
		a.balance(l.clock)
	}
	a.clamp()
	l.sum += a.digest()
}

func (l *Ledger) assign(op Assign) error {
	r, err := l.live(op.Region, op.Session)
	if err != nil {
		return err
	}
	if op.Lease.Rate.Tokens < 0 || op.Lease.Burst < 0 || op.Credit < 0 ||
		op.Lease.Rate.Tokens > quota.MaxTokens || op.Lease.Burst > quota.MaxTokens {
		return ErrInvalid
	}
	a, opened := l.accounts[op.Key], false
	if a == nil {
		if op.Release {
			return ErrNoRule
		}
		if a = l.open(op.Key, l.terms); a == nil {
			return ErrNoRule
		}
		opened = true
	}
	floor := a.floor(op.Region)
	lease := op.Lease
	if op.Release {
		lease = floor
	}
	h, err := a.vacant(op.Region, op.Prev)
	switch {
	case err != nil:
		return err
	case op.Release && h == nil:
		return ErrNotInFlight
	case lease.Rate.Per != a.terms.limit.Rate.Per:
		return ErrInvalid
	case !lease.Covers(floor):
		return ErrBelowShare
	}
	growth := lease.Sub(a.reserved(op.Region))
	pool := a.Pool()
	if growth.Rate.Tokens > max(pool.Rate.Tokens, 0) || growth.Burst > max(pool.Burst, 0) {
		return ErrNoRoom
	}
	if op.Credit > 0 && (op.Credit > growth.Burst || op.Credit > a.Level(l.clock)) {
		return ErrCredit
	}
	if a.sliding() > 0 {
		if err := l.admits(r, op, lease, growth.Burst); err != nil {
			return err
		}
	}
	if opened {
		l.accounts[op.Key] = a
		l.sum += a.digest()
	}
	l.change(a, func() {
		if h == nil {
			h = a.hold(Holding{Region: op.Region})
		}
		r.Session.Epochs++
		h.Epoch = r.Session.Epochs
		h.Flight = &Flight{Lease: lease, Credit: op.Credit, Release: op.Release}
		a.level -= op.Credit
	})
	return nil
}

func (l *Ledger) confirm(op Confirm) error {
	if _, err := l.live(op.Region, op.Session); err != nil {
		return err
	}
	if op.Surrendered < 0 {
		return ErrInvalid
	}
	a := l.accounts[op.Key]
	if a == nil {
		return ErrNotInFlight
	}
	h := a.holding(op.Region)
	if h == nil || h.Flight == nil || h.Epoch != op.Epoch {
		return ErrNotInFlight
	}
	l.change(a, func() {
		before := a.Reserved(op.Region)
		f := h.Flight
		if a.sliding() > 0 {
			a.confirm(h, before, op.Surrendered)
			return
		}
		if f.Release || f.Borrows {
			a.giveBack(op.Region, f.Lenders)
		}
		if f.Release {
			a.release(op.Region)
			if f.Lends > 0 {
				l.lent(a, op.Region, f, op.Surrendered)
			}
		} else {
			h.Lease, h.Leased, h.Flight = f.Lease, true, nil
		}
		// The surrendered tokens come back with the burst that bounded them.
		freed := before.Burst - a.Reserved(op.Region).Burst
		a.level += min(op.Surrendered, max(freed, 0))
	})
	return nil
}

func (l *Ledger) drop(op Drop) error {
	a := l.accounts[op.Key]
	if a == nil {
		return nil
	}
	if !a.Idle(l.clock) {
		return ErrNotIdle
	}
	l.sum -= a.digest()
	delete(l.accounts, op.Key)
	return nil
}

// Idle reports whether the account may be dropped: no lease is held, nothing is
// on loan, and the pool is full or its window over (I7).
func (a *Account) Idle(clock quota.Micros) bool {
	return len(a.held) == 0 && len(a.loans) == 0 && (a.over(clock) || a.Level(clock) >= max(a.Pool().Burst, 0))
}
