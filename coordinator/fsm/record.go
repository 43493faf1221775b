package fsm

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	ledgerv1 "github.com/quorate/quorate/proto/ledger/v1"
)

func fromHeader(s ledger.State) *ledgerv1.Record {
	return &ledgerv1.Record{Kind: &ledgerv1.Record_Header{Header: &ledgerv1.Header{
		Format: Format, Index: s.Index, Term: s.Term, AtUs: int64(s.At), ClockUs: int64(s.Clock),
		Cluster: s.Cluster, Leader: &ledgerv1.Lead{Node: s.Leader.Node, Address: s.Leader.Address},
		Sessions: uint64(s.Sessions), StateHash: s.Hash[:],
	}}}
}

func fromRegion(r *ledger.Region) *ledgerv1.Record {
	m := &ledgerv1.RegionState{Name: r.Name, First: r.First, Late: r.Late, Confirmed: r.Confirmed, Offered: r.Offered}
	if s := r.Session; s != nil {
		m.Session = &ledgerv1.SessionState{
			Id: uint64(s.ID), Incarnation: s.Incarnation, Silent: s.Silent,
			SilentSinceUs: int64(s.SilentSince), Epochs: uint64(s.Epochs),
		}
	}
	return &ledgerv1.Record{Kind: &ledgerv1.Record_Region{Region: m}}
}

func fromConfig(c *ledger.Config) *ledgerv1.Record {
	return &ledgerv1.Record{Kind: &ledgerv1.Record_Config{Config: &ledgerv1.ConfigState{
		Version: c.Version, RulesVersion: c.RulesVersion, Sources: fromSources(c.Sources), Shares: fromShares(c.Shares),
	}}}
}

func fromMark(m ledger.Mark) *ledgerv1.Record {
	return &ledgerv1.Record{Kind: &ledgerv1.Record_Mark{Mark: &ledgerv1.MarkState{
		Limit: []byte(m.Limit), Base: int64(m.Base), AtUs: int64(m.At), UntilUs: int64(m.Until),
	}}}
}

func fromAccount(a *ledger.AccountState) *ledgerv1.Record {
	limit := &ledgerv1.Limit{Capacity: fromCapacity(a.Limit.Capacity), Standing: a.Limit.Standing, WindowUs: int64(a.Limit.Window)}
	for _, r := range slices.Sorted(maps.Keys(a.Limit.Weights)) {
		limit.Weights = append(limit.Weights, &ledgerv1.Share{Region: r, Weight: a.Limit.Weights[r]})
	}
	m := &ledgerv1.AccountState{Key: []byte(a.Key), Limit: limit, Level: int64(a.Level), AtUs: int64(a.At)}
	for _, h := range a.Held {
		held := &ledgerv1.Holding{Region: h.Region, Epoch: uint64(h.Epoch), Lease: fromCapacity(h.Lease), Leased: h.Leased}
		if f := h.Flight; f != nil {
			held.Flight = &ledgerv1.Flight{
				Lease: fromCapacity(f.Lease), Credit: int64(f.Credit), Release: f.Release,
				LendsUs: int64(f.Lends), Term: f.Term, AtUs: int64(f.At), Borrows: f.Borrows, Borrowed: int64(f.Borrowed), Lenders: f.Lenders,
			}
		}
		m.Held = append(m.Held, held)
	}
	for _, n := range a.Loans {
		m.Loans = append(m.Loans, &ledgerv1.Loan{
			Lender: n.Lender, Capacity: fromCapacity(n.Capacity), Tokens: int64(n.Tokens),
			Term: n.Term, AtUs: int64(n.At), ForUs: int64(n.For), Borrower: n.Borrower,
		})
	}
	for _, r := range a.Returns {
		m.Returns = append(m.Returns, &ledgerv1.Return{AtUs: int64(r.At), Tokens: int64(r.Tokens)})
	}
	return &ledgerv1.Record{Kind: &ledgerv1.Record_Account{Account: m}}
}

// addRecord adds one record to the state that is being read. The header comes
// first, and only first.
func addRecord(s *ledger.State, rec *ledgerv1.Record, first bool) error {
	if _, header := rec.GetKind().(*ledgerv1.Record_Header); header != first {
		return fmt.Errorf("%w: the header must be the first record", ErrCorrupt)
	}
	switch k := rec.GetKind().(type) {
	case *ledgerv1.Record_Header:
		h := k.Header
		if h.GetFormat() != Format {
			return fmt.Errorf("%w: snapshot format %d, this version reads %d", ErrFormat, h.GetFormat(), Format)
		}
		if len(h.GetStateHash()) != len(s.Hash) {
			return fmt.Errorf("%w: state hash of %d bytes", ErrCorrupt, len(h.GetStateHash()))
		}
		s.Index, s.Term, s.At, s.Clock = h.GetIndex(), h.GetTerm(), quota.Micros(h.GetAtUs()), quota.Micros(h.GetClockUs())
		s.Cluster, s.Sessions = h.GetCluster(), quota.SessionID(h.GetSessions())
		s.Leader = ledger.Lead{Node: h.GetLeader().GetNode(), Address: h.GetLeader().GetAddress()}
		copy(s.Hash[:], h.GetStateHash())
	case *ledgerv1.Record_Region:
		s.Regions = append(s.Regions, toRegion(k.Region))
	case *ledgerv1.Record_Config:
		c := k.Config
		s.Configs = append(s.Configs, ledger.Config{
			Version: c.GetVersion(), RulesVersion: c.GetRulesVersion(), Sources: toSources(c.GetSources()), Shares: toShares(c.GetShares()),
		})
	case *ledgerv1.Record_Mark:
		m := k.Mark
		s.Marks = append(s.Marks, ledger.Mark{
			Limit: string(m.GetLimit()), Base: quota.Tokens(m.GetBase()), At: quota.Micros(m.GetAtUs()), Until: quota.Micros(m.GetUntilUs()),
		})
	case *ledgerv1.Record_Account:
		s.Accounts = append(s.Accounts, toAccount(k.Account))
	default:
		return fmt.Errorf("%w: unknown kind of snapshot record", ErrFormat)
	}
	return nil
}

func toRegion(m *ledgerv1.RegionState) ledger.Region {
	r := ledger.Region{Name: m.GetName(), First: m.GetFirst(), Late: m.GetLate(), Confirmed: m.GetConfirmed(), Offered: m.GetOffered()}
	if s := m.GetSession(); s != nil {
		r.Session = &ledger.Session{
			ID: quota.SessionID(s.GetId()), Incarnation: s.GetIncarnation(), Silent: s.GetSilent(),
			SilentSince: quota.Micros(s.GetSilentSinceUs()), Epochs: quota.Epoch(s.GetEpochs()),
		}
	}
	return r
}

func toAccount(m *ledgerv1.AccountState) ledger.AccountState {
	a := ledger.AccountState{
		Key: quota.Key(m.GetKey()),
		Limit: quota.Limit{
			Capacity: toCapacity(m.GetLimit().GetCapacity()), Standing: m.GetLimit().GetStanding(), Window: quota.Micros(m.GetLimit().GetWindowUs()),
		},
		Level: quota.Tokens(m.GetLevel()), At: quota.Micros(m.GetAtUs()),
	}
	for _, w := range m.GetLimit().GetWeights() {
		if a.Limit.Weights == nil {
			a.Limit.Weights = map[string]int64{}
		}
		a.Limit.Weights[w.GetRegion()] = w.GetWeight()
	}
	for _, h := range m.GetHeld() {
		held := ledger.Holding{Region: h.GetRegion(), Epoch: quota.Epoch(h.GetEpoch()), Lease: toCapacity(h.GetLease()), Leased: h.GetLeased()}
		if f := h.GetFlight(); f != nil {
			held.Flight = &ledger.Flight{
				Lease: toCapacity(f.GetLease()), Credit: quota.Tokens(f.GetCredit()), Release: f.GetRelease(),
				Lends: quota.Micros(f.GetLendsUs()), Term: f.GetTerm(), At: quota.Micros(f.GetAtUs()),
				Borrows: f.GetBorrows(), Borrowed: quota.Tokens(f.GetBorrowed()), Lenders: f.GetLenders(),
			}
		}
		a.Held = append(a.Held, held)
	}
	for _, n := range m.GetLoans() {
		a.Loans = append(a.Loans, ledger.Loan{
			Lender: n.GetLender(), Capacity: toCapacity(n.GetCapacity()), Tokens: quota.Tokens(n.GetTokens()),
			Term: n.GetTerm(), At: quota.Micros(n.GetAtUs()), For: quota.Micros(n.GetForUs()), Borrower: n.GetBorrower(),
		})
	}
	for _, r := range m.GetReturns() {
		a.Returns = append(a.Returns, ledger.Return{At: quota.Micros(r.GetAtUs()), Tokens: quota.Tokens(r.GetTokens())})
	}
	return a
}
