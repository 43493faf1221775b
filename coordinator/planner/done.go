package planner

import (
	"errors"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// Done closes the operations of a round: they were applied with these errors,
// or, when errs is nil, their outcome is unknown; then the ledger is read and
// what is missing is proposed again. It may also be told of the operations of
// Receive.
func (t *Term) Done(now quota.Micros, l *ledger.Ledger, ops []ledger.Op, errs []error) {
	for i, op := range ops {
		var err error
		if errs != nil {
			err = errs[i]
		}
		t.done(now, op, err, errs == nil)
	}
	t.observe(now, l)
	for _, op := range ops {
		t.settle(now, l, op)
	}
}

func (t *Term) done(now quota.Micros, op ledger.Op, err error, unknown bool) {
	switch op := op.(type) {
	case ledger.EndSession:
		if r := t.regions[op.Region]; r != nil {
			r.ended = false
		}
	case ledger.MarkSilent:
		// Clearing a mark says nothing of a mark that is still open.
		if r := t.regions[op.Region]; r != nil && op.Silent {
			r.marking, r.doubt = false, unknown
		}
	case ledger.Adopted:
		if r := t.regions[op.Region]; r != nil {
			r.adopting = false
		}
		for _, r := range t.regions {
			r.offerFrom = now // there may be room now
		}
	case ledger.Offer:
		if r := t.regions[op.Region]; r != nil {
			r.offering = false
			if err != nil || unknown {
				r.offerFrom = now + offerAge
			}
		}
	case ledger.Confirm:
		if e := t.book.entries[op.Key]; e != nil && err == nil && !unknown {
			e.of(op.Region).settled = now
			if r := t.regions[op.Region]; r != nil {
				r.landed(now, op.Key)
			}
		}
	case ledger.Lend:
		t.retry(now, op.Key, err)
	case ledger.Borrow:
		if e := t.book.entries[op.Key]; e != nil && (err != nil || unknown) {
			e.told = nil
		}
		t.retry(now, op.Key, err)
	case ledger.EndLoan:
		t.retry(now, op.Key, err)
	case ledger.Assign:
		if e := t.book.entries[op.Key]; e != nil && err != nil {
			// A new account may have less than a full pool; its level is known
			// once it exists.
			e.bare = errors.Is(err, ledger.ErrCredit)
			e.due = now + retryAge
		}
	}
}

// retry plans a key again in a while when an operation was refused.
func (t *Term) retry(now quota.Micros, k quota.Key, err error) {
	if e := t.book.entries[k]; e != nil && err != nil {
		e.due = now + retryAge
	}
}

// settle brings a key's entry in step with the ledger after its operations.
func (t *Term) settle(now quota.Micros, l *ledger.Ledger, op ledger.Op) {
	var k quota.Key
	switch op := op.(type) {
	case ledger.Assign:
		k = op.Key
	case ledger.Lend:
		k = op.Key
	case ledger.Borrow:
		k = op.Key
	case ledger.EndLoan:
		k = op.Key
	case ledger.Confirm:
		k = op.Key
	case ledger.Drop:
		k = op.Key
	default:
		return
	}
	e := t.book.entries[k]
	if e == nil || e.index >= 0 {
		return // settled by another operation of the round
	}
	a := l.Account(k)
	for name, r := range t.regions {
		var h ledger.Holding
		held := false
		if a != nil {
			h, held = a.Holding(name)
		}
		r.track(k, h, held)
	}
	if a != nil {
		e.bare = false
	}
	due := now
	if e.due != never {
		due = e.due
	}
	t.book.park(e, due)
}
