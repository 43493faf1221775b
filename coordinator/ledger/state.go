package ledger

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// State is a ledger as plain values, for snapshots. It shares nothing that
// changes with the ledger it was taken from.
type State struct {
	Index, Term uint64
	At, Clock   quota.Micros
	Cluster     string
	Leader      Lead
	Sessions    quota.SessionID
	Regions     []Region
	Configs     []Config
	Marks       []Mark
	Accounts    []AccountState // in no particular order
	// Hash is the hash of the ledger that the state was taken from.
	Hash [32]byte
}

// Mark is where the standing shares of a limit have shrunk.
type Mark struct {
	Limit     string
	Base      quota.Tokens
	At, Until quota.Micros
}

// AccountState is one account. Limit is the limit it last had, needed only
// where no rule counts the key any more.
type AccountState struct {
	Key     quota.Key
	Limit   quota.Limit
	Level   quota.Tokens
	At      quota.Micros
	Held    []Holding
	Loans   []Loan
	Returns []Return
}

// Snapshot returns a copy of the state. It costs time in the number of accounts
// and does no encoding, so that it may run between two entries.
func (l *Ledger) Snapshot() State {
	s := State{
		Index: l.index, Term: l.term, At: l.at, Clock: l.clock,
		Cluster: l.cluster, Leader: l.leader, Sessions: l.sessions,
		Accounts: make([]AccountState, 0, len(l.accounts)),
		Hash:     l.Hash(),
	}
	for _, r := range l.regions {
		c := *r
		if r.Session != nil {
			session := *r.Session
			c.Session = &session
		}
		s.Regions = append(s.Regions, c)
	}
	for _, c := range l.configs {
		s.Configs = append(s.Configs, *c)
	}
	for _, m := range l.marks {
		s.Marks = append(s.Marks, Mark{m.limit, m.base, m.at, m.until})
	}
	for _, a := range l.accounts {
		// A flight is never changed in place, so it may be shared.
		s.Accounts = append(s.Accounts, AccountState{a.Key, a.terms.limit, a.level, a.at, slices.Clone(a.held), slices.Clone(a.loans), a.returns})
	}
	return s
}

// Restore builds the ledger that s was taken from. It fails, and builds
// nothing, when s is not what a ledger would have written.
func Restore(s State) (*Ledger, error) {
	l := New()
	l.index, l.term, l.at, l.clock = s.Index, s.Term, s.At, s.Clock
	l.cluster, l.leader, l.sessions = s.Cluster, s.Leader, s.Sessions
	if len(s.Configs) == 0 {
		return nil, fmt.Errorf("restore ledger: no configuration")
	}
	l.configs = nil
	for _, c := range s.Configs {
		set, err := rules.Accepted(c.Sources)
		if err != nil {
			return nil, fmt.Errorf("restore configuration %d: %w", c.Version, err)
		}
		c.rules = set
		l.configs = append(l.configs, &c)
	}
	for _, r := range s.Regions {
		if r.Session != nil {
			session := *r.Session
			r.Session = &session
		}
		for _, v := range []uint64{r.Confirmed, r.Offered} {
			if v != 0 && l.Config(v) == nil {
				return nil, fmt.Errorf("restore region %s: configuration %d is missing", r.Name, v)
			}
		}
		l.regions = append(l.regions, &r)
	}
	for _, m := range s.Marks {
		l.marks = append(l.marks, mark{m.Limit, m.Base, m.At, m.Until})
	}
	l.terms = newTermer(l)
	for _, a := range s.Accounts {
		t := l.terms.of(a.Key)
		if t.orphaned {
			t = l.terms.orphan(&Account{Key: a.Key, terms: &terms{limit: a.Limit}})
		}
		acct := &Account{
			Key: a.Key, terms: t, level: a.Level, at: a.At, held: slices.Clone(a.Held), loans: slices.Clone(a.Loans),
			returns: slices.Clone(a.Returns), window: windowOf(a.Key),
		}
		l.accounts[a.Key] = acct
		l.sum += acct.digest()
	}
	if have := l.Hash(); have != s.Hash {
		return nil, fmt.Errorf("restore ledger at index %d: state hash is %x, want %x", s.Index, have[:8], s.Hash[:8])
	}
	return l, nil
}
