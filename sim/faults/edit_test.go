package faults

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
	"github.com/quorate/quorate/sim/live"
)

// An operator halves the limit under load and doubles it again. Each piece is
// audited by itself, with the loads going over from one audit to the next.
func TestRuleEditsUnderLoad(t *testing.T) {
	t.Parallel()
	s := open(t, document(rule("api", perSecond)), live.Options{Regions: twoRegions()})
	before := s.audited("api", perSecond)
	loads := s.offer(before, 1.5*perSecond, both...)
	s.recovers("start", before, patience, both...)

	took := s.edit(perSecond / 2)
	t.Logf("halved: in force after %v", took.Round(time.Millisecond))
	halved := s.audited("api", perSecond/2)
	next := s.offer(halved, 1.5*perSecond, both...)
	stop(loads)
	loads = next
	s.recovers("halved", halved, 10*time.Second, both...)
	s.serves("halved", s.watch(2*time.Second, halved), 0.9)

	// A raise is worth no token: the buckets hold at most the old burst.
	doubled := s.audited("api", perSecond)
	next = s.offer(doubled, 1.5*perSecond, both...)
	stop(loads)
	took = s.edit(perSecond)
	t.Logf("doubled: in force after %v", took.Round(time.Millisecond))
	s.recovers("doubled", doubled, 10*time.Second, both...)
	s.serves("doubled", s.watch(2*time.Second, doubled), 0.9)
	stop(next)

	s.bound(before)
	s.bound(halved)
	s.within(doubled, quota.Capacity{Rate: limit(perSecond).Rate, Burst: limit(perSecond / 2).Burst})
}

// edit changes the limit and waits until nothing of it is outstanding.
func (s *scene) edit(rate int) time.Duration {
	s.t.Helper()
	began := time.Now()
	s.must("apply rules", s.ApplyRules(s.t.Context(), document(rule("api", rate))))
	s.until("the edit is in force", 10*time.Second, func() error {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		defer cancel()
		c, err := s.Leader(ctx)
		if err != nil {
			return err
		}
		answer, err := c.Admin().GetRules(ctx, &quoratev1.GetRulesRequest{})
		if err != nil {
			return fmt.Errorf("get rules: %w", err)
		}
		if o := answer.GetOutstanding(); o.GetInForceWithinUs() != 0 || o.GetOverdrawnAccounts() != 0 || len(o.GetRegions()) != 0 {
			return fmt.Errorf("outstanding: %v", o)
		}
		return nil
	})
	return time.Since(began)
}

// A rule counts for every agent of a region from the moment that the region is said to
// have adopted it: an agent that still decided by the rules before would admit what no
// rule counts there, and nobody would know of it.
func TestANewRuleCountsAtEveryAgent(t *testing.T) {
	t.Parallel()
	const number = 20
	written := []string{rule("api", perSecond)}
	s := open(t, document(written...), live.Options{Regions: []live.RegionSpec{{Name: "eu", Agents: 2}, {Name: "us"}}})
	for i := range 3 {
		key := fmt.Sprintf("new%d", i)
		written = append(written, fmt.Sprintf("- key: %s\n  rate_limit: {unit: year, requests_per_unit: %d, quota: {algorithm: fixed_window, on_store_failure: deny}}\n", key, number))
		s.must("apply rules", s.ApplyRules(s.t.Context(), document(written...)))
		tr := s.Track(live.Identity{Domain: "shop", Entries: []rules.Entry{{Key: key, Value: "one"}}},
			quota.Capacity{Rate: quota.Rate{Per: quota.Second}, Burst: quota.Whole(number)})
		loads := s.offer(tr, 2*perSecond, "eu")
		sp := s.watch(1500*time.Millisecond, tr)
		if sp.to.Counts.Denied == 0 || sp.to.Counts.Admitted == 0 {
			t.Errorf("%s was not counted: %+v", key, sp.to.Counts)
		}
		stop(loads)
		s.bound(tr)
	}
}
