package rpc

import (
	"context"
	"slices"
	"strings"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// listed is the default number of accounts in one answer, mostListed the largest.
const (
	listed     = 1000
	mostListed = 10_000
)

// ListLeases implements quoratev1.AdminServer: accounts sorted by key.
func (a adminService) ListLeases(ctx context.Context, req *quoratev1.ListLeasesRequest) (*quoratev1.ListLeasesResponse, error) {
	limit := int(req.GetLimit())
	if limit <= 0 {
		limit = listed
	}
	limit = min(limit, mostListed)
	resp := &quoratev1.ListLeasesResponse{}
	err := a.read(ctx, func(v View) {
		var keys []quota.Key
		v.Ledger.Accounts(func(acct *ledger.Account) bool {
			if req.GetDomain() != "" {
				if id, err := rules.DecodeKey(acct.Key); err != nil || id.Domain != req.GetDomain() {
					return true
				}
			}
			if r := req.GetRegion(); r != "" {
				if _, ok := acct.Holding(r); !ok {
					return true
				}
			}
			keys = append(keys, acct.Key)
			return true
		})
		slices.Sort(keys)
		resp.TotalAccounts = int64(v.Ledger.Len())
		for _, k := range keys[:min(limit, len(keys))] {
			acct := v.Ledger.Account(k)
			m := accountOf(v, acct)
			for _, r := range holders(acct) {
				m.Holders = append(m.Holders, holderOf(v, acct, r))
			}
			resp.Accounts = append(resp.Accounts, m)
		}
	})
	return resp, err
}

// holders returns the regions that hold or lend something of an account, sorted.
func holders(acct *ledger.Account) (all []string) {
	for _, h := range acct.Holdings() {
		all = append(all, h.Region)
	}
	for _, n := range acct.Loans() {
		all = append(all, n.Lender)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// accountOf describes an account without its holders.
func accountOf(v View, acct *ledger.Account) *quoratev1.Account {
	m := nameOf(acct.Key)
	m.Limit = quoratev1.FromCapacity(acct.Limit().Capacity)
	m.Pool = quoratev1.FromCapacity(acct.Pool())
	m.PoolLevelMicrotokens = int64(acct.Level(v.Ledger.Clock()))
	return m
}

// nameOf returns an account with the parts of its key in words.
func nameOf(k quota.Key) *quoratev1.Account {
	m := &quoratev1.Account{Key: string(k)}
	id, err := rules.DecodeKey(k)
	if err != nil {
		m.Key = strings.ToValidUTF8(m.Key, "�")
		return m
	}
	var parts []string
	for _, p := range id.Parts {
		text := p.Key
		if p.Value != "" || p.Digest != "" {
			text += "=" + p.Value
		}
		if p.Digest != "" {
			text += "=" + p.Digest
		}
		parts = append(parts, text)
	}
	m.Domain = strings.ToValidUTF8(id.Domain, "�")
	m.Descriptor_ = strings.ToValidUTF8(strings.Join(parts, ", "), "�")
	return m
}

// holderOf describes what one region has of an account.
func holderOf(v View, acct *ledger.Account, region string) *quoratev1.LeaseHolder {
	m := &quoratev1.LeaseHolder{Region: region, StandingShare: quoratev1.FromCapacity(acct.Share(region))}
	m.Lease = m.StandingShare
	for _, n := range acct.Loans() {
		if n.Lender == region {
			m.Lent, m.LentTo, m.Lease = true, n.Borrower, quoratev1.FromCapacity(quota.Capacity{Rate: quota.Rate{Per: n.Capacity.Rate.Per}})
		}
	}
	if b := acct.Borrowed(region); !b.IsZero() {
		m.Borrowed = quoratev1.FromCapacity(b)
	}
	var session quota.SessionID
	if r := v.Ledger.Region(region); r != nil && r.Session != nil {
		session = r.Session.ID
		m.Session = uint64(session)
	}
	h, ok := acct.Holding(region)
	if !ok {
		return m
	}
	m.Epoch, m.HoldsLease = uint64(h.Epoch), h.Leased
	if h.Leased {
		m.Lease = quoratev1.FromCapacity(h.Lease)
	}
	if f := h.Flight; f != nil {
		m.InFlight = quoratev1.FromAssignment(quota.Assignment{
			Key: acct.Key, Session: session, Epoch: h.Epoch, Lease: f.Lease, Credit: f.Credit, Release: f.Release, Lend: f.Lends.Duration(),
		})
	}
	return m
}
