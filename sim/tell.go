package sim

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// tell writes a committed operation into the trace.
func (w *World) tell(op ledger.Op) {
	if w.trace == nil {
		return
	}
	switch op := op.(type) {
	case ledger.OpenSession:
		w.note("log: %s opens a session in incarnation %s%s", op.Region, op.Incarnation, only(op.Replaces != "", " in place of "+op.Replaces))
	case ledger.EndSession:
		w.note("log: session %d of %s ends", op.Session, op.Region)
	case ledger.MarkSilent:
		w.note("log: session %d of %s is %s", op.Session, op.Region, either(op.Silent, "marked silent", "cleared of its mark"))
	case ledger.Assign:
		w.note("log: assign %s after epoch %d of %s: %v, credit %v", op.Region, op.Prev, op.Key, op.Lease, op.Credit)
	case ledger.Confirm:
		w.note("log: %s confirms epoch %d of %s, surrenders %v", op.Region, op.Epoch, op.Key, op.Surrendered)
	case ledger.Lend:
		w.note("log: %s lends its share of %s after epoch %d, for %v", op.Region, op.Key, op.Prev, op.For.Duration())
	case ledger.Borrow:
		w.note("log: %s borrows %s of %s after epoch %d", op.Region, op.Key, strings.Join(op.Lenders, ", "), op.Prev)
	case ledger.EndLoan:
		w.note("log: the loan of %s of %s ends", op.Key, op.Lender)
	case ledger.Drop:
		w.note("log: drop the account of %s", op.Key)
	case ledger.SetRules:
		var names []string
		for _, s := range op.Sources {
			names = append(names, s.Name)
		}
		w.note("log: new rules %s", strings.Join(names, ", "))
	case ledger.AddRegion:
		w.note("log: %s weighs %d", op.Region, op.Weight)
	case ledger.Adopted:
		w.note("log: %s has adopted configuration %d", op.Region, op.Version)
	}
}

// applies writes an assignment that a region has applied into the trace.
func (w *World) applies(region string, a quota.Assignment, again bool) {
	if w.trace != nil {
		loan := ""
		if a.Loan != nil {
			loan = fmt.Sprintf(", and a loan of %v for %v", a.Loan.Capacity, a.Loan.Left)
		}
		w.note("%s applies epoch %d of %s: %v%s%s", region, a.Epoch, a.Key, a.Lease, loan, only(again, ", again"))
	}
}

func only(so bool, text string) string { return either(so, text, "") }

func either(so bool, yes, no string) string {
	if so {
		return yes
	}
	return no
}

// cutOff says in words which messages a partition stops.
func cutOff(region string, toIt, fromIt bool) string {
	switch {
	case toIt && fromIt:
		return fmt.Sprintf("%s is cut off", region)
	case toIt:
		return fmt.Sprintf("nothing reaches %s", region)
	}
	return fmt.Sprintf("nothing of %s arrives", region)
}
