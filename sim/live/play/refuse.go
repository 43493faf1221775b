package play

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/scenario"
)

const (
	// mostProcesses, mostDemand, mostRequests and mostKeys are what one machine bears.
	mostProcesses = 60
	mostDemand    = 20_000
	mostRequests  = 5_000_000
	mostKeys      = 10_000
)

// refuse returns what the scenario asks for and real processes cannot do.
func (s *stage) refuse() (problems rules.Problems) {
	p := s.Plan
	bad := func(path, format string, args ...any) { problems = append(problems, s.Problem(path, format, args...)) }
	f := p.Faults
	for _, one := range []struct {
		path string
		is   bool
		why  string
	}{
		{"network.duplicate", f.Network.Duplicate > 0, "a TCP connection does not repeat what it carries"},
		{"log.lost", f.Log.Lost > 0, "Raft loses a proposal only with its leader; use `elections`"},
		{"log.unknown", f.Log.Unknown > 0, "Raft leaves an outcome unknown only with its leader; use `elections`"},
		{"faults.frozen", f.Frozen > 0, "a redis-server reads this machine's clock, which goes on while the server is stopped"},
		{"faults.lost_replies", f.LostReplies > 0 && s.store == live.StoreSentinel, "Sentinels send agents past the line that breaks"},
		{"faults.nonsense", f.Nonsense > 0, "a real leader proposes what its planner says"},
	} {
		if one.is {
			bad(one.path, "not possible with real processes: %s", one.why)
		}
	}
	if path, why := s.counted(); why != "" {
		bad(path, "not possible with real processes: %s", why)
	}
	servers := 1
	if s.store == live.StoreSentinel {
		servers = 5
	}
	processes := s.coordinators
	for i, r := range p.Regions {
		processes += servers + r.Agents
		if r.Weight == 0 {
			bad(fmt.Sprintf("regions[%d].weight", i), "a live region needs a weight of at least 1")
		}
	}
	if processes > mostProcesses {
		bad("regions", "they need %d processes, more than the %d that one machine should run", processes, mostProcesses)
	}
	if len(p.Keys) > mostKeys {
		bad("keys", "they are %d keys, more than the %d that one machine can audit", len(p.Keys), mostKeys)
	}
	for path, loads := range map[string][]sim.Load{"load": p.Load, "final": p.Final} {
		if slices.ContainsFunc(loads, func(l sim.Load) bool { return l.Afterwards != "" }) {
			bad(path, "not possible with real processes: refunds and settlements are audited in virtual time only")
		}
		if peak := peak(loads); peak > mostDemand {
			bad(path, "it may reach %.0f requests a second, more than the %d that one machine can ask for", peak, mostDemand)
		}
	}
	for _, e := range s.Live.Events {
		switch {
		case scenario.IsCoordinator(e.On) && e.On != scenario.Leader && e.On != scenario.Follower && !slices.Contains(names(s.coordinators), e.On):
			bad(e.Path, "there are %d coordinators, and %s is none of them", s.coordinators, e.On)
		case e.Kind == scenario.FailOver && s.store != live.StoreSentinel:
			bad(e.Path, "a fail-over needs a second Redis: say `sentinel: true` under `live`, or --sentinel")
		}
	}
	if i := slices.IndexFunc(s.Live.Events, func(e scenario.LiveEvent) bool { return e.Kind == scenario.DiskFull }); i >= 0 {
		if err := live.CanMount(); err != nil {
			bad(s.Live.Events[i].Path, "a disk that can be filled is not possible here: %v", err)
		}
	}
	return problems
}

// counted says where a key is counted in a way that is not possible here, and why.
func (s *stage) counted() (path, why string) {
	set, err := rules.Parse(s.Plan.Rules)
	if err != nil {
		return "", ""
	}
	for _, k := range s.Plan.Keys {
		if !k.Override.IsZero() {
			return "keys", "limits that requests bring are played in virtual time only"
		}
		r := set.Match(k.Domain, k.Entries)
		if r == nil || len(r.Limits) == 0 {
			continue
		}
		path = "limit"
		if k.Domain != "sim" {
			path = "rules"
		}
		switch l := &r.Limits[0]; {
		case l.Windowed():
			return path, "nobody outside an agent knows by its clock which window a request was counted in"
		case l.Algorithm.Slides():
			return path, "a " + l.Algorithm.String() + " is audited in virtual time only"
		case l.MaxDebt > 0:
			return path, "debts are audited in virtual time only"
		}
	}
	return "", ""
}

// requests is about how many there will be.
func (s *stage) requests() (n float64) {
	for at := time.Duration(0); at < s.span.Duration(); at += time.Second {
		if at < s.faults.Duration() {
			n += demand(s.plan.Load, at)
		} else {
			n += demand(s.plan.Final, at-s.faults.Duration())
		}
	}
	return n
}

// demand is what all loads together ask for in the second that begins at a time.
func demand(loads []sim.Load, at time.Duration) (sum float64) {
	for _, l := range loads {
		sum += l.Curve.At(at)
	}
	return sum
}

func names(coordinators int) (all []string) {
	for i := range coordinators {
		all = append(all, fmt.Sprintf("n%d", i+1))
	}
	return all
}

// peak is the most that all loads together may ask for.
func peak(loads []sim.Load) (sum float64) {
	for _, l := range loads {
		most := 0.0
		for _, p := range l.Curve.Points {
			most = max(most, p.PerSecond)
		}
		sum += most
	}
	return sum
}
