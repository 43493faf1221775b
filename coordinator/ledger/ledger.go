package ledger

import (
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
)

// Ledger is the replicated state. It is not safe for concurrent use.
type Ledger struct {
	index uint64
	term  uint64
	at    quota.Micros // the last At of term
	clock quota.Micros

	cluster string
	leader  Lead

	sessions quota.SessionID // the last one given out
	regions  []*Region       // sorted by name

	configs []*Config // ascending; the last is in force, the others some region may still use
	terms   *termer   // of the configurations in use
	marks   []mark    // where standing shares have shrunk, sorted by limit

	accounts map[quota.Key]*Account
	sum      uint64 // sum of the hashes of all accounts
}

// New returns the state before the first entry: no cluster, no regions, no rules.
func New() *Ledger {
	l := &Ledger{configs: []*Config{{}}, accounts: map[quota.Key]*Account{}}
	l.terms = newTermer(l)
	return l
}

// Result is the outcome of a batch: one error per operation, nil for applied,
// or Refused for the whole batch.
type Result struct {
	Index   uint64
	Refused error
	Errs    []error
	// Config and Rules are the versions in force after the batch, and Changed
	// says whether it put that configuration in force.
	Config, Rules uint64
	Changed       bool
}

// Err returns the reason why operation i was not applied, nil if it was.
func (r Result) Err(i int) error {
	if r.Refused != nil {
		return r.Refused
	}
	return r.Errs[i]
}

// Apply applies the batch at a log index. Indexes at or below the last applied
// one change nothing.
func (l *Ledger) Apply(index uint64, b Batch) Result {
	res := Result{Index: index}
	if index <= l.index && l.index != 0 {
		res.Refused = ErrVersion
		return res
	}
	l.index = index
	if b.Term < l.term {
		res.Refused = ErrOldTerm
		return res
	}
	l.advance(b.Term, b.At)
	res.Errs = make([]error, len(b.Ops))
	before := l.current().Version
	for i, op := range b.Ops {
		res.Errs[i] = l.apply(op)
	}
	cur := l.current()
	res.Config, res.Rules, res.Changed = cur.Version, cur.RulesVersion, cur.Version != before
	return res
}

// advance moves the ledger clock by what passed on the clock of one leader; it
// stands still across a change of leaders (I6).
func (l *Ledger) advance(term uint64, at quota.Micros) {
	switch {
	case term > l.term:
		l.term, l.at = term, at
	case at > l.at:
		l.clock += at - l.at
		l.at = at
	}
}

func (l *Ledger) apply(op Op) error {
	switch op := op.(type) {
	case Assign:
		return l.assign(op)
	case Confirm:
		return l.confirm(op)
	case Lend:
		return l.lend(op)
	case Borrow:
		return l.borrow(op)
	case EndLoan:
		return l.endLoan(op)
	case Drop:
		return l.drop(op)
	case OpenSession:
		return l.openSession(op)
	case EndSession:
		return l.endSession(op)
	case MarkSilent:
		return l.markSilent(op)
	case Offer:
		return l.offer(op)
	case Adopted:
		return l.adopted(op)
	case SetRules:
		return l.setRules(op)
	case AddRegion:
		return l.addRegion(op)
	case DrainRegion:
		return l.drainRegion(op)
	case RemoveRegion:
		return l.removeRegion(op)
	case Found:
		return l.found(op)
	case Lead:
		l.leader = op
		return nil
	}
	return ErrUnknownOp
}

// Index returns the index of the last entry applied.
func (l *Ledger) Index() uint64 { return l.index }

// Term returns the term of the last entry applied.
func (l *Ledger) Term() uint64 { return l.term }

// Clock returns the ledger clock: the only time the state knows.
func (l *Ledger) Clock() quota.Micros { return l.clock }

// Cluster returns the cluster id, empty before Found.
func (l *Ledger) Cluster() string { return l.cluster }

// Leader returns what the last leader published of itself.
func (l *Ledger) Leader() Lead { return l.leader }

// Regions returns the registered regions, sorted by name. Read only.
func (l *Ledger) Regions() []*Region { return l.regions }

// Region returns a registered region, nil when there is none. Read only.
func (l *Ledger) Region(name string) *Region {
	if i, ok := l.findRegion(name); ok {
		return l.regions[i]
	}
	return nil
}

func (l *Ledger) findRegion(name string) (int, bool) {
	return slices.BinarySearchFunc(l.regions, name, func(r *Region, n string) int {
		switch {
		case r.Name < n:
			return -1
		case r.Name > n:
			return 1
		}
		return 0
	})
}

// Account returns the account of a key, nil when there is none. Read only.
func (l *Ledger) Account(k quota.Key) *Account { return l.accounts[k] }

// Len returns the number of accounts.
func (l *Ledger) Len() int { return len(l.accounts) }

// Accounts calls f for every account, in no particular order, until f returns
// false. Read only.
func (l *Ledger) Accounts(f func(*Account) bool) {
	for _, a := range l.accounts {
		if !f(a) {
			return
		}
	}
}

func (l *Ledger) found(op Found) error {
	if l.cluster != "" {
		return ErrFounded
	}
	if op.Cluster == "" {
		return ErrInvalid
	}
	for _, s := range op.Shares {
		if s.Region == "" || s.Weight < 0 || s.Weight > quota.MaxWeight {
			return ErrInvalid
		}
	}
	l.cluster = op.Cluster
	for _, s := range op.Shares {
		l.register(s.Region, false)
	}
	l.reconfigure(l.current().rules, l.current().Sources, sortedShares(op.Shares))
	return nil
}
