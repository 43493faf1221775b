package faults

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/live"
)

var both = []string{"eu", "us"}

func twoRegions() []live.RegionSpec { return []live.RegionSpec{{Name: "eu"}, {Name: "us"}} }

// One region is parted from all coordinators, with a key under each policy.
func TestRegionCutOff(t *testing.T) {
	t.Parallel()
	const rate = perSecond / 2
	const share = rate * 3 / 10 / 2 // what each region owns for ever
	policies := []string{"standing", "hold", "deny", "allow"}
	var rules []string
	for _, p := range policies {
		rules = append(rules, rule(p, rate, "standing_share: 0.3", "on_disconnect: "+p))
	}
	s := open(t, document(rules...), live.Options{Regions: twoRegions()})
	tracks, elsewhere := map[string]*live.Track{}, map[string]*live.Track{}
	for _, p := range policies {
		tracks[p] = s.audited(p, rate)
		us := tracks[p]
		if p == "allow" { // what the cut-off region admits is outside the Bound, the rest is not
			us = s.audited(p, rate)
		}
		elsewhere[p] = us
		s.offer(tracks[p], 1.5*rate, "eu")
		s.offer(us, 1.5*rate, "us")
	}
	var parts []served
	for _, p := range policies {
		parts = append(parts, served{tracks[p], []string{"eu"}}, served{elsewhere[p], []string{"us"}})
	}
	s.allRecover("start", patience, parts...)

	eu := s.Region("eu")
	held := s.lease(tracks["hold"], "eu")
	cut := time.Now()
	eu.Cut()
	took := s.until("the agent notices", timing().TTL+2*time.Second, func() error {
		if s.metric(eu.Agent(0), "quorate_unbounded_admissions_total", "on_disconnect_allow") == 0 {
			return errors.New("nothing is admitted outside the bound yet")
		}
		return nil
	})
	t.Logf("cut off for %v until the policies decided", took.Round(10*time.Millisecond))
	// The other region has what this one held when the session is over.
	for _, p := range policies[:3] {
		s.settles("the other region has the lease", elsewhere[p], timing().TTL+timing().Guard+4*time.Second, 0.75*(rate-share), 2*rate, "us")
	}
	from := map[string]live.Tally{}
	for p, tr := range tracks {
		from[p] = tr.Tally()
	}
	s.watch(3*time.Second, tracks["allow"])
	spans := map[string]span{}
	for p, tr := range tracks {
		spans[p] = span{from[p], tr.Tally()}
	}
	s.between("standing", spans["standing"], "eu", 0.8*share, 2*share)
	if over := tracks["standing"].AuditRegion("eu", from["standing"].At, limit(share)).Certain; over != 0 {
		t.Errorf("standing: admitted %v more than the standing share of %d", over, share)
	}
	s.between("hold", spans["hold"], "eu", 0.85*held.Rate.PerSecond(), 1.15*held.Rate.PerSecond())
	s.between("deny", spans["deny"], "eu", 0, 0)
	s.between("allow", spans["allow"], "eu", 0.8*1.5*rate, math.Inf(1))
	// On a busy machine a Redis may be too slow for a moment; then the rule's other
	// policy decides.
	slow := s.metric(eu.Agent(0), "quorate_decisions_total", `decision="over"`, `reason="store_degraded"`)
	if denied, failed := spans["allow"].lost("eu"); denied > quota.Whole(uint64(slow)) || measured && failed != 0 {
		t.Errorf("allow: denied %v, failed %v, want all admitted but %v for which Redis was too slow", denied, failed, slow)
	}
	s.loud(eu.Agent(0), "allow", "on_disconnect_allow")
	s.loud(eu.Agent(0), "hold", "on_disconnect_hold")

	eu.Heal()
	away := time.Since(cut)
	s.allRecover("healed", 10*time.Second, parts...)
	s.bound(tracks["standing"])
	s.bound(tracks["deny"])
	s.bound(elsewhere["allow"])
	// Worst case: once its session is over, the lease that the region keeps is
	// spent a second time by whoever has it now, for as long as it is away: the
	// burst, and the rate from the end of the session on, which is at most the cut.
	worst := limit(rate)
	worst.Burst += held.Burst + quota.Tokens(float64(held.Rate.Tokens)*max(timing().TTL, away).Seconds())
	s.within(tracks["hold"], worst)
	t.Logf("hold: %v over the Bound in a cut of %v; the lease was %v", tracks["hold"].Audit().Certain, away.Round(10*time.Millisecond), held)
}
