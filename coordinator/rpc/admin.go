package rpc

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

type adminService struct {
	quoratev1.UnimplementedAdminServer
	*Server
}

// read reads the state and maps the error.
func (a adminService) read(ctx context.Context, f func(View)) error {
	return a.toStatus(a.ports.State.Read(ctx, f))
}

// edit commits one operation and maps the error.
func (a adminService) edit(ctx context.Context, op ledger.Op, f func(View, ledger.Result)) error {
	return a.toStatus(a.ports.State.Edit(ctx, op, f))
}

func (a adminService) GetRules(ctx context.Context, _ *quoratev1.GetRulesRequest) (*quoratev1.GetRulesResponse, error) {
	var resp *quoratev1.GetRulesResponse
	err := a.read(ctx, func(v View) {
		c := v.Ledger.Current()
		resp = &quoratev1.GetRulesResponse{
			RulesVersion: c.RulesVersion, ConfigVersion: c.Version,
			Sources: quoratev1.FromSources(c.Sources), Outstanding: outstanding(v),
		}
	})
	return resp, err
}

// ApplyRules implements quoratev1.AdminServer. Documents are kept sorted by
// name, so that the order in which they were given changes nothing. The reading
// before the edit saves an entry where there is nothing to change; whether the
// condition holds is decided by the ledger, since other edits may be under way.
func (a adminService) ApplyRules(ctx context.Context, req *quoratev1.ApplyRulesRequest) (*quoratev1.ApplyRulesResponse, error) {
	if a.cfg.RulesDir != "" && !req.GetDryRun() {
		return nil, a.toStatus(fmt.Errorf("%w (%s)", ErrRulesDir, a.cfg.RulesDir))
	}
	sources := quoratev1.ToSources(req.GetSources())
	slices.SortStableFunc(sources, func(x, y quota.Source) int { return strings.Compare(x.Name, y.Name) })
	if _, err := rules.Parse(sources); err != nil {
		return nil, a.toStatus(err)
	}
	resp := &quoratev1.ApplyRulesResponse{}
	var cur uint64
	if err := a.read(ctx, func(v View) {
		c := v.Ledger.Current()
		cur = c.RulesVersion
		resp.RulesVersion, resp.ConfigVersion, resp.Outstanding = cur, c.Version, outstanding(v)
		resp.Changed = !slices.Equal(sources, c.Sources)
	}); err != nil {
		return nil, err
	}
	if req.IfVersion != nil && req.GetIfVersion() != cur {
		return nil, a.toStatus(fmt.Errorf("%w: rules are at version %d, the edit was made from %d", ledger.ErrVersion, cur, req.GetIfVersion()))
	}
	if !resp.Changed || req.GetDryRun() {
		return resp, nil
	}
	err := a.edit(ctx, ledger.SetRules{Sources: sources, IfVersion: req.IfVersion}, func(v View, res ledger.Result) {
		resp.RulesVersion, resp.ConfigVersion, resp.Changed = res.Rules, res.Config, res.Changed
		resp.Outstanding = outstanding(v)
	})
	return resp, err
}

// outstanding says what the newest configuration still waits for.
func outstanding(v View) *quoratev1.Outstanding {
	l := v.Ledger
	out := &quoratev1.Outstanding{OverdrawnAccounts: overdrawn(l)}
	left := map[string]quota.Micros{}
	var longest quota.Micros
	for _, c := range v.Term.Contacts(v.Now) {
		left[c.Region] = c.Left
		longest = max(longest, c.Left)
	}
	var within quota.Micros
	unbounded := false
	for _, r := range l.Regions() {
		if r.Confirmed == l.Current().Version {
			continue
		}
		out.Regions = append(out.Regions, r.Name)
		within = max(within, left[r.Name])
		// A region without a session may go on with its old standing share for
		// ever; only its confirmation ends that.
		unbounded = unbounded || r.Session == nil
	}
	if out.OverdrawnAccounts > 0 {
		within = max(within, longest) // a lease ends with its session at the latest
	}
	out.InForceWithinUs = int64(within)
	if unbounded {
		out.InForceWithinUs = -1
	}
	return out
}

// overdrawn counts the accounts whose pool is below zero.
func overdrawn(l *ledger.Ledger) (n int64) {
	l.Accounts(func(a *ledger.Account) bool {
		if p := a.Pool(); p.Burst < 0 || p.Rate.Tokens < 0 {
			n++
		}
		return true
	})
	return n
}

func (a adminService) ListRegions(ctx context.Context, _ *quoratev1.ListRegionsRequest) (*quoratev1.ListRegionsResponse, error) {
	resp := &quoratev1.ListRegionsResponse{}
	err := a.read(ctx, func(v View) {
		leases := map[string]int64{}
		v.Ledger.Accounts(func(a *ledger.Account) bool {
			for _, h := range a.Holdings() {
				if h.Leased {
					leases[h.Region]++
				}
			}
			return true
		})
		weights := map[string]int64{}
		for _, s := range v.Ledger.Current().Shares {
			weights[s.Region] = s.Weight
		}
		resp.ConfigVersion = v.Ledger.Current().Version
		contacts := v.Term.Contacts(v.Now)
		for _, r := range v.Ledger.Regions() {
			m := &quoratev1.Region{
				Name: r.Name, Weight: weights[r.Name], HeardUs: -1, ConfigConfirmed: r.Confirmed, ConfigOffered: r.Offered,
				Leases: leases[r.Name], Draining: weights[r.Name] == 0,
			}
			if s := r.Session; s != nil {
				m.Session, m.Incarnation, m.Silent = uint64(s.ID), s.Incarnation, s.Silent
			}
			for _, c := range contacts {
				if c.Region == r.Name {
					m.Agents = c.Agents
					if c.Silence < v.Now-v.Began { // heard in this term
						m.HeardUs = int64(c.Silence)
					}
				}
			}
			resp.Regions = append(resp.Regions, m)
		}
	})
	return resp, err
}

func (a adminService) AddRegion(ctx context.Context, req *quoratev1.AddRegionRequest) (*quoratev1.RegionChange, error) {
	return a.changeRegion(ctx, ledger.AddRegion{Region: req.GetName(), Weight: req.GetWeight()})
}

func (a adminService) DrainRegion(ctx context.Context, req *quoratev1.DrainRegionRequest) (*quoratev1.RegionChange, error) {
	return a.changeRegion(ctx, ledger.DrainRegion{Region: req.GetName()})
}

func (a adminService) RemoveRegion(ctx context.Context, req *quoratev1.RemoveRegionRequest) (*quoratev1.RegionChange, error) {
	return a.changeRegion(ctx, ledger.RemoveRegion{Region: req.GetName(), Force: req.GetForce()})
}

func (a adminService) changeRegion(ctx context.Context, op ledger.Op) (*quoratev1.RegionChange, error) {
	resp := &quoratev1.RegionChange{}
	err := a.edit(ctx, op, func(_ View, res ledger.Result) {
		resp.ConfigVersion, resp.Changed = res.Config, res.Changed
	})
	return resp, err
}

func (a adminService) NodeStatus(context.Context, *quoratev1.NodeStatusRequest) (*quoratev1.NodeStatusResponse, error) {
	s := a.ports.Self.Status()
	resp := &quoratev1.NodeStatusResponse{
		Node: s.Node, Cluster: s.Cluster, Role: s.Role, Leader: s.Leader, LeaderAddress: s.LeaderAddress,
		Term: s.Term, AppliedIndex: s.Applied, CommitIndex: s.Commit, StateHash: hex.EncodeToString(s.Hash[:]),
		Version: s.Version, Ready: s.Ready, Accounts: int64(s.Accounts),
	}
	if s.HeadroomOK {
		h := int64(s.Headroom)
		resp.WorstHeadroomMicrotokens = &h
	}
	for _, m := range s.Servers {
		resp.Servers = append(resp.Servers, &quoratev1.Server{Id: m.Node, RaftAddress: m.Address, Voter: m.Voter})
	}
	return resp, nil
}
