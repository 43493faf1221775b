package play

import (
	"fmt"
	"math"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/check"
	"github.com/quorate/quorate/sim/live"
)

// policies are what all documents of a run say of a key.
type policies struct{ hold, allow, local bool }

// policies returns what may decide about a key when parts are away.
func (s *stage) policies(k int) (p policies) {
	key := s.plan.Keys[k]
	note := func(set *rules.Set) {
		rule := set.Match(key.Domain, key.Entries)
		if rule == nil {
			return
		}
		for _, l := range rule.Limits {
			p.hold = p.hold || l.OnDisconnect == rules.OnDisconnectHold
			p.allow = p.allow || l.OnDisconnect == rules.OnDisconnectAllow || l.OnStoreFailure == rules.OnStoreFailureAllow
			p.local = p.local || l.OnStoreFailure == rules.OnStoreFailureLocal
		}
	}
	note(s.set)
	for _, document := range s.plan.Edited {
		if set, err := rules.Parse(document); err == nil { // the scenario has been read, so it is valid
			note(set)
		}
	}
	return p
}

func (s *stage) shares() (all quota.Shares) {
	for _, r := range s.plan.Regions {
		all = append(all, quota.Share{Region: r.Name, Weight: r.Weight})
	}
	return all
}

// allowed is the Worst case: what may be admitted of a key beyond the Bound because
// an assumption was broken on purpose. 0 means that the Bound must hold.
func (c *conductor) allowed(k int, p policies) (sum quota.Tokens) {
	limit := c.limits[k].Limit
	c.mu.Lock()
	defer c.mu.Unlock()
	earns := func(of quota.Capacity, d time.Duration) quota.Tokens {
		return of.Burst + of.Rate.In(quota.MicrosOf(d)).Tokens
	}
	for _, r := range c.plan.Regions {
		share := limit.StandingShare(r.Name, c.shares())
		if p.hold {
			// Whoever has the lease next spends it a second time.
			for _, d := range c.away[r.Name] {
				sum += earns(limit.Capacity, max(d, c.timing.TTL))
			}
		}
		if !p.local {
			continue
		}
		// An agent that alone loses a store that others reach, or dies with what it
		// owes to it, is ahead by what it served of the standing share.
		if n := c.owing[r.Name]; n > 0 && c.outages[r.Name] > 0 {
			sum += quota.Tokens(n) * earns(share, c.outages[r.Name])
		}
		if c.plan.Faults.LostReplies > 0 && r.Agents > 1 {
			sum += earns(share, c.timing.TTL)
		}
	}
	return sum
}

// Verdict is what became of the Bound of a key.
type Verdict string

// The verdicts.
const (
	Kept     Verdict = "kept"
	Within   Verdict = "within the worst case"
	Unjudged Verdict = "not judged: a policy is allow"
	Broken   Verdict = "broken"
)

// judge audits a key.
func (r *run) judge(k int) (audit check.Report, allowed quota.Tokens, v Verdict) {
	audit = r.tracks[k].Audit()
	p := r.policies(k)
	allowed = r.conductor.allowed(k, p)
	worst := r.limits[k].Capacity
	worst.Burst += allowed
	switch {
	case p.allow:
		return audit, allowed, Unjudged
	case !audit.Broken():
		return audit, allowed, Kept
	case allowed > 0 && !r.tracks[k].AuditWithin(worst).Broken():
		return audit, allowed, Within
	}
	return audit, allowed, Broken
}

// share is what a region got of a key when it must have had its fair share.
type share struct {
	region      string
	have, want  float64 // tokens in the time that was measured
	least, span float64 // what it must be at least; seconds
}

// fair compares what each region was admitted at the end with its fair share, by
// what it was asked for then.
func (r *run) fair(k int) (all []share) {
	if r.to == nil {
		return nil
	}
	from, to := r.from[k], r.to[k]
	span := (to.At - from.At).Duration().Seconds()
	in := func(count func(live.Counts) quota.Tokens, region string) float64 {
		return float64(count(to.Regions[region])-count(from.Regions[region])) / float64(quota.Token)
	}
	// What was never sent, since this machine could not, is no demand.
	asked := func(c live.Counts) quota.Tokens { return c.Offered - c.Dropped }
	wants := map[string]float64{}
	for _, one := range r.plan.Regions {
		wants[one.Name] = in(asked, one.Name) / span
	}
	fair := sim.Divide(r.limits[k].Limit, r.shares(), wants)
	cost := 1.0
	for _, l := range r.plan.Final {
		cost = max(cost, float64(l.Cost), float64(l.MostCost))
	}
	for _, one := range r.plan.Regions {
		s := share{region: one.Name, span: span, have: in(func(c live.Counts) quota.Tokens { return c.Admitted }, one.Name)}
		s.want = min(fair[one.Name]*span, in(asked, one.Name))
		// Arrivals are random, and tokens come whole.
		s.least = 0.95*s.want - 4*math.Sqrt(s.want*cost) - 2*cost
		all = append(all, s)
	}
	return all
}

func (s share) missed() bool { return s.have < s.least }

// judged reports whether so few requests can say anything.
func (s share) judged() bool { return s.least > 0 }

func (s share) String() string {
	return fmt.Sprintf("%s was admitted %.0f in the last %.1f s; its fair share is %.0f", s.region, s.have, s.span, s.want)
}
