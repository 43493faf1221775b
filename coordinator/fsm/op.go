package fsm

import (
	"fmt"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	ledgerv1 "github.com/quorate/quorate/proto/ledger/v1"
)

func fromOp(op ledger.Op) (*ledgerv1.Op, error) {
	switch op := op.(type) {
	case ledger.Found:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_Found{Found: &ledgerv1.Found{Cluster: op.Cluster, Shares: fromShares(op.Shares)}}}, nil
	case ledger.Lead:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_Lead{Lead: &ledgerv1.Lead{Node: op.Node, Address: op.Address}}}, nil
	case ledger.OpenSession:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_OpenSession{OpenSession: &ledgerv1.OpenSession{
			Region: op.Region, Incarnation: op.Incarnation, Replaces: op.Replaces,
		}}}, nil
	case ledger.EndSession:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_EndSession{EndSession: &ledgerv1.EndSession{
			Region: op.Region, Session: uint64(op.Session),
		}}}, nil
	case ledger.MarkSilent:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_MarkSilent{MarkSilent: &ledgerv1.MarkSilent{
			Region: op.Region, Session: uint64(op.Session), Silent: op.Silent,
		}}}, nil
	case ledger.Assign:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_Assign{Assign: &ledgerv1.Assign{
			Region: op.Region, Session: uint64(op.Session), Key: []byte(op.Key), Prev: uint64(op.Prev),
			Lease: fromCapacity(op.Lease), Credit: int64(op.Credit), Release: op.Release,
		}}}, nil
	case ledger.Confirm:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_Confirm{Confirm: &ledgerv1.Confirm{
			Region: op.Region, Session: uint64(op.Session), Key: []byte(op.Key), Epoch: uint64(op.Epoch),
			Surrendered: int64(op.Surrendered),
		}}}, nil
	case ledger.Drop:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_Drop{Drop: &ledgerv1.Drop{Key: []byte(op.Key)}}}, nil
	case ledger.Lend:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_Lend{Lend: &ledgerv1.Lend{
			Region: op.Region, Session: uint64(op.Session), Key: []byte(op.Key), Prev: uint64(op.Prev), ForUs: int64(op.For),
		}}}, nil
	case ledger.Borrow:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_Borrow{Borrow: &ledgerv1.Borrow{
			Region: op.Region, Session: uint64(op.Session), Key: []byte(op.Key), Prev: uint64(op.Prev), Lenders: op.Lenders,
		}}}, nil
	case ledger.EndLoan:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_EndLoan{EndLoan: &ledgerv1.EndLoan{Key: []byte(op.Key), Lender: op.Lender}}}, nil
	case ledger.SetRules:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_SetRules{SetRules: &ledgerv1.SetRules{
			Sources: fromSources(op.Sources), IfVersion: op.IfVersion,
		}}}, nil
	case ledger.AddRegion:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_AddRegion{AddRegion: &ledgerv1.AddRegion{Region: op.Region, Weight: op.Weight}}}, nil
	case ledger.DrainRegion:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_DrainRegion{DrainRegion: &ledgerv1.DrainRegion{Region: op.Region}}}, nil
	case ledger.RemoveRegion:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_RemoveRegion{RemoveRegion: &ledgerv1.RemoveRegion{Region: op.Region, Force: op.Force}}}, nil
	case ledger.Offer:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_Offer{Offer: &ledgerv1.Offer{Region: op.Region, Version: op.Version}}}, nil
	case ledger.Adopted:
		return &ledgerv1.Op{Kind: &ledgerv1.Op_Adopted{Adopted: &ledgerv1.Adopted{Region: op.Region, Version: op.Version}}}, nil
	}
	return nil, fmt.Errorf("operation %T has no encoding", op)
}

func toOp(m *ledgerv1.Op) (ledger.Op, error) {
	switch k := m.GetKind().(type) {
	case *ledgerv1.Op_Found:
		return ledger.Found{Cluster: k.Found.GetCluster(), Shares: toShares(k.Found.GetShares())}, nil
	case *ledgerv1.Op_Lead:
		return ledger.Lead{Node: k.Lead.GetNode(), Address: k.Lead.GetAddress()}, nil
	case *ledgerv1.Op_OpenSession:
		o := k.OpenSession
		return ledger.OpenSession{Region: o.GetRegion(), Incarnation: o.GetIncarnation(), Replaces: o.GetReplaces()}, nil
	case *ledgerv1.Op_EndSession:
		return ledger.EndSession{Region: k.EndSession.GetRegion(), Session: quota.SessionID(k.EndSession.GetSession())}, nil
	case *ledgerv1.Op_MarkSilent:
		o := k.MarkSilent
		return ledger.MarkSilent{Region: o.GetRegion(), Session: quota.SessionID(o.GetSession()), Silent: o.GetSilent()}, nil
	case *ledgerv1.Op_Assign:
		o := k.Assign
		return ledger.Assign{
			Region: o.GetRegion(), Session: quota.SessionID(o.GetSession()), Key: quota.Key(o.GetKey()), Prev: quota.Epoch(o.GetPrev()),
			Lease: toCapacity(o.GetLease()), Credit: quota.Tokens(o.GetCredit()), Release: o.GetRelease(),
		}, nil
	case *ledgerv1.Op_Confirm:
		o := k.Confirm
		return ledger.Confirm{
			Region: o.GetRegion(), Session: quota.SessionID(o.GetSession()), Key: quota.Key(o.GetKey()), Epoch: quota.Epoch(o.GetEpoch()),
			Surrendered: quota.Tokens(o.GetSurrendered()),
		}, nil
	case *ledgerv1.Op_Drop:
		return ledger.Drop{Key: quota.Key(k.Drop.GetKey())}, nil
	case *ledgerv1.Op_Lend:
		o := k.Lend
		return ledger.Lend{
			Region: o.GetRegion(), Session: quota.SessionID(o.GetSession()), Key: quota.Key(o.GetKey()), Prev: quota.Epoch(o.GetPrev()),
			For: quota.Micros(o.GetForUs()),
		}, nil
	case *ledgerv1.Op_Borrow:
		o := k.Borrow
		return ledger.Borrow{
			Region: o.GetRegion(), Session: quota.SessionID(o.GetSession()), Key: quota.Key(o.GetKey()), Prev: quota.Epoch(o.GetPrev()),
			Lenders: o.GetLenders(),
		}, nil
	case *ledgerv1.Op_EndLoan:
		return ledger.EndLoan{Key: quota.Key(k.EndLoan.GetKey()), Lender: k.EndLoan.GetLender()}, nil
	case *ledgerv1.Op_SetRules:
		return ledger.SetRules{Sources: toSources(k.SetRules.GetSources()), IfVersion: k.SetRules.IfVersion}, nil
	case *ledgerv1.Op_AddRegion:
		return ledger.AddRegion{Region: k.AddRegion.GetRegion(), Weight: k.AddRegion.GetWeight()}, nil
	case *ledgerv1.Op_DrainRegion:
		return ledger.DrainRegion{Region: k.DrainRegion.GetRegion()}, nil
	case *ledgerv1.Op_RemoveRegion:
		return ledger.RemoveRegion{Region: k.RemoveRegion.GetRegion(), Force: k.RemoveRegion.GetForce()}, nil
	case *ledgerv1.Op_Offer:
		return ledger.Offer{Region: k.Offer.GetRegion(), Version: k.Offer.GetVersion()}, nil
	case *ledgerv1.Op_Adopted:
		return ledger.Adopted{Region: k.Adopted.GetRegion(), Version: k.Adopted.GetVersion()}, nil
	}
	return nil, fmt.Errorf("%w: no operation is set", ErrCorrupt)
}

func fromCapacity(c quota.Capacity) *ledgerv1.Capacity {
	return &ledgerv1.Capacity{Rate: int64(c.Rate.Tokens), PerUs: int64(c.Rate.Per), Burst: int64(c.Burst)}
}

func toCapacity(m *ledgerv1.Capacity) quota.Capacity {
	return quota.Capacity{
		Rate:  quota.Rate{Tokens: quota.Tokens(m.GetRate()), Per: quota.Micros(m.GetPerUs())},
		Burst: quota.Tokens(m.GetBurst()),
	}
}

func fromShares(s quota.Shares) []*ledgerv1.Share {
	var out []*ledgerv1.Share
	for _, e := range s {
		out = append(out, &ledgerv1.Share{Region: e.Region, Weight: e.Weight})
	}
	return out
}

func toShares(m []*ledgerv1.Share) quota.Shares {
	var out quota.Shares
	for _, e := range m {
		out = append(out, quota.Share{Region: e.GetRegion(), Weight: e.GetWeight()})
	}
	return out
}

func fromSources(s []quota.Source) []*ledgerv1.Source {
	var out []*ledgerv1.Source
	for _, e := range s {
		out = append(out, &ledgerv1.Source{Name: e.Name, Text: e.Text})
	}
	return out
}

func toSources(m []*ledgerv1.Source) []quota.Source {
	var out []quota.Source
	for _, e := range m {
		out = append(out, quota.Source{Name: e.GetName(), Text: e.GetText()})
	}
	return out
}
