package rpc

import (
	"context"
	"fmt"
	"strings"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/planner"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// Explain implements quoratev1.AdminServer: which rule counts a descriptor, who
// holds what of each of its limits, and why a region denies now.
func (a adminService) Explain(ctx context.Context, req *quoratev1.ExplainRequest) (*quoratev1.ExplainResponse, error) {
	var entries []rules.Entry
	for _, e := range req.GetEntries() {
		entries = append(entries, rules.Entry{Key: e.GetKey(), Value: e.GetValue()})
	}
	var o rules.Override
	if text := req.GetOverride(); text != "" {
		var err error
		if o, err = rules.ParseOverride(text); err != nil {
			return nil, a.toStatus(fmt.Errorf("override: %w", err))
		}
	}
	resp := &quoratev1.ExplainResponse{}
	err := a.read(ctx, func(v View) {
		c := v.Ledger.Current()
		resp.RulesVersion = c.RulesVersion
		rule, trace := c.Rules().Explain(req.GetDomain(), entries)
		resp.Considered = trace
		whose, own, key, line := c.Rules().ExplainOverride(req.GetDomain(), entries, o)
		if line != "" {
			resp.Considered = append(resp.Considered, line)
		}
		if own != nil {
			resp.Limits = append(resp.Limits, explain(v, whose, own, key))
			return
		}
		if rule == nil {
			return
		}
		if rule.Unlimited {
			resp.Limits = append(resp.Limits, &quoratev1.ExplainedLimit{Rule: rule.ID, Unlimited: true})
		}
		for i := range rule.Limits {
			resp.Limits = append(resp.Limits, explain(v, rule, &rule.Limits[i], keyOf(v, rule, req.GetDomain(), entries, i)))
		}
	})
	return resp, err
}

func explain(v View, rule *rules.Rule, l *rules.Limit, k quota.Key) *quoratev1.ExplainedLimit {
	limit := l.Limit
	m := &quoratev1.ExplainedLimit{
		Rule: rule.ID, LimitName: l.Name,
		Algorithm: l.Algorithm.String(), Shape: l.Shape,
	}
	acct := v.Ledger.Account(k)
	shown := acct
	if m.AccountOpen = acct != nil; !m.AccountOpen {
		shown = v.Ledger.Opening(k) // what it would be
	}
	m.Account = accountOf(v, shown)
	m.Account.Holders = nil
	if acct == nil && l.Windowed() {
		m.Account.Key, _, _ = strings.Cut(m.Account.Key, "#") // of no window in particular
	}
	demand := v.Term.Demand(v.Now, k)
	var arrivals float64
	for _, d := range demand {
		arrivals += d.PerSecond
	}
	contacts := v.Term.Contacts(v.Now)
	for _, r := range v.Ledger.Regions() {
		m.Account.Holders = append(m.Account.Holders, holderOf(v, shown, r.Name))
		said := &quoratev1.RegionDemand{Region: r.Name, ReportedUs: -1}
		for _, d := range demand {
			if d.Region == r.Name {
				said.ArrivalsPerS, said.DeniedPerS = d.PerSecond, d.PerSecond*d.Denied
				said.AdmittedPerS = d.PerSecond - said.DeniedPerS
				said.LevelMicrotokens, said.ReportedUs = int64(d.Level), int64(d.Quiet)
				said.Reason = reason(v, limit, acct, r, contactOf(contacts, r.Name), d, arrivals)
			}
		}
		m.Demand = append(m.Demand, said)
	}
	return m
}

func contactOf(all []planner.Contact, region string) planner.Contact {
	for _, c := range all {
		if c.Region == region {
			return c
		}
	}
	return planner.Contact{Region: region}
}

// Reasons for which a region denies, in the words that agents use too.
const (
	reasonZero        = "zero_limit"
	reasonUnreachable = "coordinator_unreachable"
	reasonBurst       = "burst_exceeded"
	reasonStanding    = "standing_share"
	reasonExhausted   = "global_exhausted"
	reasonLease       = "lease_empty"
)

// fewDenied is the part of its arrivals below which a region does not count as
// denying: the average forgets slowly.
const fewDenied = 0.005

// reason says why a region denies now, "" when it does not. Arrivals is what
// all regions ask for together, in tokens a second.
func reason(v View, limit quota.Limit, acct *ledger.Account, r *ledger.Region, c planner.Contact, d planner.Demand, arrivals float64) string {
	silent := r.Session == nil || r.Session.Silent || c.Silence > quota.MicrosOf(v.Timing.TTL)
	steady := limit.Steady(limit.Capacity)
	switch {
	case d.Denied < fewDenied && !silent:
		return ""
	case limit.Burst == 0:
		return reasonZero
	case silent:
		// It reports nothing either: what it does now is to serve its standing share.
		return reasonUnreachable
	case d.Largest > limit.Burst, d.Largest > d.Burst && d.Burst > 0:
		return reasonBurst
	case steady.Tokens > 0 && arrivals > steady.PerSecond(), spent(v, acct):
		return reasonExhausted
	case acct == nil:
		return reasonStanding
	}
	if h, ok := acct.Holding(r.Name); !ok || !h.Leased {
		return reasonStanding
	}
	return reasonLease
}

// spent reports whether nothing is left in the pool of a fixed window, which is never filled.
func spent(v View, acct *ledger.Account) bool {
	return acct != nil && acct.Windowed() && acct.Level(v.Ledger.Clock()) < quota.Token
}
