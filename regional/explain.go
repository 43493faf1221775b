package regional

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/lease"
	"github.com/quorate/quorate/regional/uplink"
)

// Explanation says what this agent would decide for one descriptor now, and why.
// The JSON names are an interface; amounts are whole tokens as text, exact to
// the micro-token.
type Explanation struct {
	Region  string `json:"region"`
	Domain  string `json:"domain"`
	Rule    string `json:"rule,omitempty"`
	Version uint64 `json:"config_version"`
	// Over says that a request of cost 1 would be denied. Reason is why it would
	// be answered so; Source says whose tokens that is about, and Scope whether
	// the region or the world is out of them (see enforce).
	Over   bool           `json:"over"`
	Reason enforce.Reason `json:"reason"`
	Source enforce.Source `json:"source,omitempty"`
	Scope  string         `json:"scope,omitempty"`
	// DelayUS is for how long a shaped limit would hold an admitted request back.
	DelayUS int64 `json:"delay_us,omitempty"`
	// RetryUS is how long to wait for the tokens, Never that no wait helps, and
	// Shadow that the rule would deny if it were no shadow rule.
	RetryUS int64 `json:"retry_us,omitempty"`
	Never   bool  `json:"never,omitempty"`
	Shadow  bool  `json:"shadow,omitempty"`
	// Binding is the limit that all this is about, where the rule has several.
	Binding string `json:"binding,omitempty"`
	// Considered traces the match: what was tried and why it did not match.
	Considered []string           `json:"considered"`
	Limits     []LimitExplanation `json:"limits,omitempty"`
	Sync       uplink.Status      `json:"sync"`
	State      *StateExplanation  `json:"state,omitempty"`
	// Store says why the region's Redis could not be asked.
	Store string `json:"store_problem,omitempty"`
}

// LimitExplanation is one limit of the rule, for the key of the descriptor.
type LimitExplanation struct {
	Name           string             `json:"name,omitempty"`
	Key            string             `json:"key"`
	Limit          string             `json:"limit"`
	Algorithm      string             `json:"algorithm"`
	Shape          bool               `json:"shape,omitempty"`
	MaxDebt        string             `json:"max_debt,omitempty"`
	Settle         bool               `json:"settle,omitempty"`
	StandingShare  string             `json:"standing_share"`
	OnDisconnect   string             `json:"on_disconnect"`
	OnStoreFailure string             `json:"on_store_failure"`
	Now            *BalanceExplained  `json:"now,omitempty"`
	Record         *RecordExplanation `json:"record,omitempty"`
}

// BalanceExplained is what a decision would find.
type BalanceExplained struct {
	// Holding is lease, standing, nothing, hold, denied or allowed.
	Holding string `json:"holding"`
	Level   string `json:"level"`
	Force   string `json:"in_force"`
	// AdmitsOne says whether a request of cost 1 would be admitted.
	AdmitsOne bool   `json:"admits_one"`
	RetryUS   int64  `json:"retry_us,omitempty"`
	Epoch     uint64 `json:"epoch,omitempty"`
}

// RecordExplanation is the bucket as it is stored; without one the standing
// share says what the bucket holds.
type RecordExplanation struct {
	Level       string `json:"level"`
	AtUS        int64  `json:"at_us"`
	Lease       string `json:"lease,omitempty"`
	Session     uint64 `json:"session,omitempty"`
	Epoch       uint64 `json:"epoch,omitempty"`
	Released    bool   `json:"released,omitempty"`
	Incarnation string `json:"incarnation"`
}

// StateExplanation is the region's state as the store has it.
type StateExplanation struct {
	NowUS       int64  `json:"now_us"`
	Incarnation string `json:"incarnation"`
	First       bool   `json:"first_incarnation"`
	Session     uint64 `json:"session"`
	LeasesForUS int64  `json:"leases_usable_for_us"`
	Config      uint64 `json:"config_version"`
}

func (a *Agent) explain(ctx context.Context, domain string, d enforce.Descriptor) (any, error) {
	entries := d.Entries
	ad := a.enforcer.Adoption()
	if ad == nil {
		return nil, enforce.ErrNoConfig
	}
	rule, considered := ad.Set.Explain(domain, entries)
	whose, own, key, line := ad.Set.ExplainOverride(domain, entries, d.Override)
	if line != "" {
		considered = append(considered, line)
	}
	if own != nil {
		rule = whose
	}
	x := Explanation{
		Region: a.cfg.Region, Domain: domain, Version: ad.Version, Reason: enforce.NoRule,
		Considered: considered, Sync: a.uplink.Status(),
	}
	if rule == nil {
		return x, nil
	}
	x.Rule, x.Reason = rule.ID, enforce.Unlimited
	s, err := a.store.State(ctx)
	if err != nil {
		x.Store = err.Error()
	} else {
		x.State = &StateExplanation{
			NowUS: int64(s.Now), Incarnation: s.Incarnation, First: s.First, Session: uint64(s.Session),
			LeasesForUS: int64(max(0, s.Deadline-s.Now)), Config: s.Config,
		}
	}
	if len(rule.Limits) == 0 && own == nil {
		return x, nil
	}
	looked, err := a.enforcer.Look(ctx, time.Since(a.start), enforce.Request{
		Domain: domain, Descriptors: []enforce.Descriptor{{Entries: entries, Override: d.Override}},
	})
	if err != nil {
		return nil, err
	}
	b := looked.Statuses[0]
	x.Over, x.Reason, x.Source = b.Over, b.Reason, b.Source
	if b.Over {
		x.Scope = b.Reason.Scope()
	}
	x.DelayUS = int64(quota.MicrosOf(looked.Delay))
	x.RetryUS, x.Never, x.Shadow = int64(quota.MicrosOf(b.Retry)), b.Never, b.Shadowed
	if b.Limit != nil {
		x.Binding = b.Limit.Name
	}
	if own != nil {
		x.Limits = []LimitExplanation{a.explainLimit(ctx, ad, own, key, s)}
		return x, nil
	}
	for i := range rule.Limits {
		l := &rule.Limits[i]
		key := rule.Key(domain, entries, i)
		if l.Windowed() {
			key = rule.WindowKey(domain, entries, i, l.WindowAt(wall()))
		}
		x.Limits = append(x.Limits, a.explainLimit(ctx, ad, l, key, s))
	}
	return x, nil
}

func (a *Agent) explainLimit(ctx context.Context, ad *lease.Adoption, l *rules.Limit, key quota.Key, s bucket.State) LimitExplanation {
	st := ad.StandingAt(key, s.Now, wall())
	x := LimitExplanation{
		Name: l.Name, Key: string(key), Limit: capacityOf(l, l.Capacity),
		Algorithm: l.Algorithm.String(), Shape: l.Shape, Settle: l.Settle, StandingShare: capacityOf(l, st.Capacity),
		OnDisconnect: l.OnDisconnect.String(), OnStoreFailure: l.OnStoreFailure.String(),
	}
	if l.MaxDebt > 0 {
		x.MaxDebt = l.MaxDebt.String()
	}
	if s.Incarnation == "" {
		return x // the store does not answer
	}
	// Cost 1 in a take of its own would charge, so it is judged from a look.
	ask := bucket.Ask{Key: key, Standing: st, Mode: enforce.ModeOf(l.OnDisconnect)}
	res, err := a.store.Take(ctx, enforce.Take{Incarnation: ad.Incarnation, Config: ad.Version, Asks: []bucket.Ask{ask}})
	if err == nil && len(res.Verdicts) == 1 {
		v := res.Verdicts[0]
		x.Now = &BalanceExplained{
			Holding: v.Holding.String(), Level: v.Level.String(), Force: capacityOf(l, v.Capacity), Epoch: uint64(v.Epoch),
		}
		one := bucket.Judge(&bucket.Ask{Cost: quota.Token, Debt: l.MaxDebt},
			bucket.Balance{Holding: v.Holding, Level: v.Level, Unspent: v.Unspent, Capacity: v.Capacity, Reset: v.Full, Fresh: v.Fresh}, false)
		if x.Now.AdmitsOne = one.Admitted; one.Retry < bucket.Forever {
			x.Now.RetryUS = int64(one.Retry)
		}
	}
	rec, ok, err := a.store.Read(ctx, key)
	if err == nil && ok {
		x.Record = &RecordExplanation{
			Level: rec.Level.String(), AtUS: int64(rec.At), Session: uint64(rec.Session), Epoch: uint64(rec.Epoch),
			Released: rec.Released, Incarnation: rec.Incarnation,
		}
		if !rec.Lease.IsZero() {
			x.Record.Lease = capacityOf(l, rec.Lease)
		}
	}
	return x
}

// capacityOf is a capacity of a limit in words.
func capacityOf(l *rules.Limit, c quota.Capacity) string {
	if l.Window > 0 {
		return fmt.Sprintf("%v in any %v (%v)", c.Burst, l.Window.Duration(), l.Algorithm)
	}
	return c.String()
}

// rulesText returns the rules in force, one line each, in the manner of
// envoyproxy/ratelimit's /rlconfig.
func (a *Agent) rulesText() (string, bool) {
	ad := a.enforcer.Adoption()
	if ad == nil {
		return "", false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# configuration %d, region %s\n", ad.Version, a.cfg.Region)
	for _, r := range ad.Set.Rules() {
		fmt.Fprintf(&b, "%s:", r.ID)
		if r.Name != "" {
			fmt.Fprintf(&b, " name=%s", r.Name)
		}
		if r.Unlimited {
			b.WriteString(" unlimited")
		}
		for i := range r.Limits {
			l := &r.Limits[i]
			if l.Name != "" {
				fmt.Fprintf(&b, " [%s]", l.Name)
			}
			fmt.Fprintf(&b, " unit=%s requests_per_unit=%d", l.Unit, l.RequestsPerUnit)
			if l.Multiplier > 1 {
				fmt.Fprintf(&b, " unit_multiplier=%d", l.Multiplier)
			}
			if l.Algorithm != rules.TokenBucket {
				fmt.Fprintf(&b, " algorithm=%s", l.Algorithm)
			}
			if l.Shape {
				b.WriteString(" shape")
			}
			if l.Window > 0 {
				fmt.Fprintf(&b, " standing_share=%s", l.StandingShare(a.cfg.Region, ad.Shares).Burst)
				continue
			}
			fmt.Fprintf(&b, " burst=%s standing_share=%s", l.Burst, l.StandingShare(a.cfg.Region, ad.Shares))
			if l.MaxDebt > 0 {
				fmt.Fprintf(&b, " max_debt=%s", l.MaxDebt)
			}
			if l.Settle {
				b.WriteString(" settle")
			}
		}
		if r.Shadow {
			b.WriteString(" shadow_mode")
		}
		if r.QuotaMode {
			b.WriteString(" quota_mode")
		}
		b.WriteByte('\n')
	}
	return b.String(), true
}
