package faults

import (
	"math"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/workload"
)

// An agent, and then the Redis, of a region are taken away. The gateways of the
// region ask the other agent when one is gone, as a load balancer makes them.
func TestAgentAndStoreFaults(t *testing.T) {
	t.Parallel()
	const rate = perSecond / 2
	const share = rate * 3 / 10 / 2 // what each region owns for ever
	policies := []string{"local", "deny", "allow"}
	var rules []string
	for _, p := range policies {
		rules = append(rules, rule(p, rate, "standing_share: 0.3", "on_store_failure: "+p))
	}
	s := open(t, document(rules...), live.Options{Regions: []live.RegionSpec{{Name: "eu", Agents: 2}, {Name: "us"}}})
	tracks, elsewhere := map[string]*live.Track{}, map[string]*live.Track{}
	var first []*live.Load // what goes to the agent that is killed
	for _, p := range policies {
		tracks[p] = s.audited(p, rate)
		us := tracks[p]
		if p == "allow" { // what the region without a store admits is outside the Bound, the rest is not
			us = s.audited(p, rate)
		}
		elsewhere[p] = us
		s.offer(us, 1.5*rate, "us")
		s.load(live.LoadSpec{Region: "eu", Track: tracks[p], Agent: 2, Demand: workload.Steady(rate)})
		first = append(first, s.load(live.LoadSpec{Region: "eu", Track: tracks[p], Agent: 1, Demand: workload.Steady(rate / 2)}))
	}
	var parts []served
	for _, p := range policies {
		parts = append(parts, served{tracks[p], []string{"eu"}}, served{elsewhere[p], []string{"us"}})
	}
	back := func(what string, within time.Duration) {
		t.Helper()
		s.allRecover(what, within, parts...)
	}
	back("start", patience)

	eu := s.Region("eu")
	eu.Agent(0).Kill()
	stop(first)
	sp := s.watch(2*time.Second, tracks["local"])
	s.serves("one agent of two killed", sp, 0.9)
	s.between("one agent of two killed", sp, "eu", 0.75*rate/2, math.Inf(1))
	s.must("restart "+eu.Agent(0).Name, eu.Agent(0).Restart())
	s.must("wait for "+eu.Agent(0).Name, s.AwaitReady(t.Context()))
	for _, p := range policies {
		s.load(live.LoadSpec{Region: "eu", Track: tracks[p], Agent: 1, Demand: workload.Steady(rate / 2)})
	}
	back("killed agent is back", 10*time.Second)

	s.must("restart Redis empty", eu.Redis().Restart(false))
	back("Redis restarted empty", 10*time.Second)
	if first := s.metric(eu.Agent(0), "quorate_first_incarnation"); first != 0 {
		t.Error("the empty Redis passes for the first that the region ever had")
	}

	pause := time.Now()
	s.must("pause Redis", eu.Redis().Pause())
	// Until each agent has seen a few calls fail, requests wait for the store.
	s.watch(time.Second, tracks["local"])
	from := map[string]live.Tally{}
	for p, tr := range tracks {
		from[p] = tr.Tally()
	}
	s.watch(3*time.Second, tracks["local"])
	spans := map[string]span{}
	for p, tr := range tracks {
		spans[p] = span{from[p], tr.Tally()}
	}
	s.must("resume Redis", eu.Redis().Resume())
	paused := time.Since(pause) + time.Second
	s.between("Redis paused: local", spans["local"], "eu", 0.5*share, 2*share)
	s.between("Redis paused: deny", spans["deny"], "eu", 0, 0)
	s.between("Redis paused: allow", spans["allow"], "eu", 0.8*1.5*rate, math.Inf(1))
	for _, p := range policies {
		denied, failed := spans[p].lost("eu")
		if p == "allow" && denied != 0 || measured && failed != 0 {
			t.Errorf("Redis paused: %s: denied %v, failed %v", p, denied, failed)
		}
	}
	if over := tracks["local"].AuditRegion("eu", from["local"].At, limit(share)).Certain; over != 0 {
		t.Errorf("Redis paused: local: admitted %v more than the standing share of %d", over, share)
	}
	s.loud(eu.Agent(0), "allow", "on_store_failure_allow")
	back("Redis goes on", 10*time.Second)

	s.bound(tracks["local"])
	s.bound(tracks["deny"])
	s.bound(elsewhere["allow"])
	// What the policy admitted is all that there is above the Bound: 1.5 times the
	// limit for the time of the pause, and a second until the agents had noticed its end.
	loose := limit(rate)
	loose.Burst += quota.Tokens(1.5 * rate * paused.Seconds() * float64(quota.Token))
	s.within(tracks["allow"], loose)
}
