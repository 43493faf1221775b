package play

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/coordinator"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/netproxy"
	"github.com/quorate/quorate/sim/scenario"
	"github.com/quorate/quorate/sim/workload"
)

const (
	// longest bounds a run, shortest its TTL.
	longest  = time.Hour
	shortest = 3 * time.Second
	// storeTimeout is long enough that a busy machine is no outage of a store.
	storeTimeout = 250 * time.Millisecond
	// settled is how long fair shares are measured at least.
	settled = 4 * time.Second
)

// stage is a scenario made ready for real processes: its times from the beginning
// of the load, in the time that the run has.
type stage struct {
	scenario.Scenario
	plan   sim.Plan // its Start is 0 and it heals
	factor float64  // of all times
	timing quota.Timing
	set    *rules.Set
	limits []rules.Limit // by key
	events []scenario.LiveEvent

	seed         uint64
	coordinators int
	store        live.Store
	faults, span quota.Micros // until when there are faults, and the end
}

// prepare makes a stage of what is asked for, or says what is impossible.
func prepare(o Options) (*stage, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &stage{Scenario: o.Scenario, seed: o.Seed, coordinators: o.Coordinators, store: live.StoreRedis, factor: 1}
	if s.coordinators == 0 {
		s.coordinators = max(3, o.Scenario.Live.Coordinators)
	}
	if o.Sentinel || o.Scenario.Live.Sentinel {
		s.store = live.StoreSentinel
	}
	if problems := s.refuse(); len(problems) > 0 {
		return nil, problems
	}
	s.scale(o.Duration)
	if s.span.Duration() > longest {
		return nil, fmt.Errorf("%w: it would take %v, more than %v; give it a shorter duration", ErrOptions, s.span.Duration(), longest)
	}
	if n := s.requests(); n > mostRequests {
		return nil, fmt.Errorf("%w: it would make about %.0f requests, more than the %d that one machine can audit; give it a shorter duration", ErrOptions, n, mostRequests)
	}
	if left := s.span - s.measureFrom(); left < quota.Second {
		return nil, rules.Problems{s.Problem("heal", "the load goes on for %v after it, and fair shares are judged after three TTLs of %v: let `duration` end later",
			(s.span - s.faults).Duration(), s.timing.TTL)}
	}
	var err error
	if s.set, err = rules.Parse(s.plan.Rules); err != nil {
		return nil, fmt.Errorf("rules of the scenario: %w", err)
	}
	for _, k := range s.plan.Keys {
		s.limits = append(s.limits, s.set.Match(k.Domain, k.Entries).Limits[0])
	}
	return s, nil
}

// scale makes the faults end after d, if that is not 0, and brings everything else
// into proportion.
func (s *stage) scale(d time.Duration) {
	p := s.Plan
	end := p.Duration
	if p.Heal > 0 {
		end = p.Heal
	}
	if d > 0 {
		s.factor = float64(quota.MicrosOf(d)) / float64(end-p.Start)
	}
	s.faults = s.times(end - p.Start)
	p.Load, p.Final = s.loads(p.Load), s.loads(p.Final)
	p.Events = nil
	for _, e := range s.Plan.Events {
		e.At = s.times(e.At - p.Start)
		p.Events = append(p.Events, e)
	}
	for _, e := range s.Live.Events {
		e.At, e.For = s.times(e.At), s.times(e.For)
		s.events = append(s.events, e)
	}
	f := &p.Faults
	for _, mean := range []*quota.Micros{&f.Elections, &f.Partitions, &f.Resets, &f.Outages, &f.Kills, &f.Steps, &f.Edits} {
		*mean = s.times(*mean)
	}
	s.timing = timing(s.factor)
	if p.Heal == 0 {
		// Nobody said how it ends: with the demand of that moment.
		for _, l := range p.Load {
			l.Curve = workload.Steady(l.Curve.At(s.faults.Duration()))
			p.Final = append(p.Final, l)
		}
		s.span = s.measureFrom() + quota.MicrosOf(settled)
	} else {
		s.span = s.times(p.Duration - p.Start)
		if d > 0 { // a session does not become as short as one likes
			s.span = max(s.span, s.measureFrom()+quota.MicrosOf(settled))
		}
	}
	p.Start, p.Heal, p.Duration = 0, s.faults, s.span
	s.plan = p
}

func (s *stage) times(m quota.Micros) quota.Micros { return quota.Micros(float64(m) * s.factor) }

func (s *stage) loads(all []sim.Load) (scaled []sim.Load) {
	for _, l := range all {
		c := workload.Curve{Period: s.times(quota.MicrosOf(l.Curve.Period)).Duration()}
		for _, p := range l.Curve.Points {
			c.Points = append(c.Points, workload.Point{At: s.times(quota.MicrosOf(p.At)).Duration(), PerSecond: p.PerSecond})
		}
		if n := len(c.Points); n > 0 && c.Period > 0 {
			c.Period = max(c.Period, c.Points[n-1].At) // both were rounded
		}
		l.Curve = c
		scaled = append(scaled, l)
	}
	return scaled
}

// timing is the production's, or a shorter one for a run in less time, so that a
// cut outlives a session where it does so in the scenario.
func timing(factor float64) quota.Timing {
	t := quota.DefaultTiming()
	ttl := time.Duration(float64(t.TTL) * factor)
	if ttl >= t.TTL {
		return t
	}
	t.TTL, t.Guard, t.Delta = max(ttl, shortest).Round(time.Millisecond), 500*time.Millisecond, 100*time.Millisecond
	t.Answer, t.Tick = time.Second, 500*time.Millisecond
	return t
}

// measureFrom is when every region must have its fair share.
func (s *stage) measureFrom() quota.Micros { return s.faults + 3*quota.MicrosOf(s.timing.TTL) }

// world describes the World.
func (s *stage) world(o Options) live.Options {
	n, l := s.plan.Faults.Network, s.plan.Faults.Log
	// A commit is a round trip to the followers.
	raft := netproxy.Delay{Min: l.Commit.Duration() / 2, Max: (l.Commit + l.CommitJitter).Duration() / 2}
	heartbeat := max(time.Second, 10*raft.Max)
	w := live.Options{
		Seed: s.seed, Dir: o.Keep, Coordinators: s.coordinators, Rules: s.plan.Rules[0].Text, Timing: s.timing,
		Delay: netproxy.Delay{Min: n.Delay.Duration(), Max: (n.Delay + n.Jitter).Duration()}, RaftDelay: raft,
		Raft: coordinator.RaftTimeouts{
			Heartbeat: heartbeat, Election: heartbeat, LeaderLease: heartbeat / 2,
			Commit: 10 * time.Millisecond, Apply: max(2*time.Second, 2*heartbeat),
		},
		StoreLinks: true, RedisTimeout: storeTimeout, DriftPPM: s.plan.Faults.DriftPPM,
	}
	for _, r := range s.plan.Regions {
		w.Regions = append(w.Regions, live.RegionSpec{Name: r.Name, Agents: r.Agents, Weight: r.Weight, Store: s.store})
	}
	w.SmallDisks = s.disks()
	return w
}

// disks are the coordinators whose disk may become full.
func (s *stage) disks() (small []string) {
	for _, name := range names(s.coordinators) {
		for _, e := range s.events {
			if e.Kind == scenario.DiskFull && (e.On == name || e.On == scenario.Leader || e.On == scenario.Follower) {
				small = append(small, name)
				break
			}
		}
	}
	return small
}
