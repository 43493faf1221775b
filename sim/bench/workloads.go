package bench

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/fault"
	"github.com/quorate/quorate/sim/netsim"
	"github.com/quorate/quorate/sim/replog"
	"github.com/quorate/quorate/sim/workload"
)

// Workload is a named demand with the limit it meets.
type Workload struct {
	Name string
	// About says what it is, in one line.
	About string
	// Goal is the utilization that it should reach, 0 for none, and Source where
	// that comes from.
	Goal float64
	Plan sim.Plan
	// Step is when demand changes once for all, 0 for never: the time to the fair
	// share counts from then, in the regions of Steps.
	Step  time.Duration
	Steps []string
}

// The network of every workload: 150 ms round trip between a region and the
// coordinator, and 40 ms for a commit, as between continents.
const (
	oneWay = 75 * quota.Second / 1000
	commit = 40 * quota.Second / 1000
	// start is when the load begins: the cluster runs, and no key has a lease.
	start = 5 * quota.Second
)

// spec is a limit.
type spec struct {
	rate     int
	unit     string
	burst    int
	standing float64
	more     string // further keys of the quota block
}

func (s spec) plan(name string, regions ...string) sim.Plan {
	p := sim.Plan{
		Name: name, Start: start, Duration: start + 60*quota.Second, KeepLeases: true,
		Faults: fault.Plan{
			Network: netsim.Faults{Delay: oneWay},
			Log:     replog.Faults{Commit: commit},
		},
		Rules: []quota.Source{{Name: "bench.yaml", Text: fmt.Sprintf(`domain: bench
descriptors:
  - key: tenant
    rate_limit:
      requests_per_unit: %d
      unit: %s
      quota: {burst: %d, standing_share: %g%s}
`, s.rate, s.unit, s.burst, s.standing, s.more)}},
		Keys: []sim.Key{{Domain: "bench", Entries: []rules.Entry{{Key: "tenant", Value: "acme"}}}},
	}
	for _, r := range regions {
		p.Regions = append(p.Regions, sim.Region{Name: r, Weight: 1, Agents: 1})
	}
	return p
}

// thousand is a limit whose burst is a second of its rate.
var thousand = spec{rate: 1000, unit: "second", burst: 1000, standing: 0.1}

func load(p *sim.Plan, region string, c workload.Curve) {
	p.Load = append(p.Load, sim.Load{Region: region, Curve: c, Cost: 1})
}

// Workloads returns all workloads.
func Workloads() (all []Workload) {
	three := []string{"ap", "eu", "us"}
	eight := []string{"af", "ap", "au", "eu", "in", "jp", "sa", "us"}
	add := func(w Workload) { all = append(all, w) }

	for _, times := range []float64{0.9, 1.5, 3} {
		p := thousand.plan(fmt.Sprintf("skew 80/15/5 at %gx", times), three...)
		for i, part := range []float64{0.8, 0.15, 0.05} {
			load(&p, three[i], workload.Steady(1000*times*part))
		}
		add(Workload{Name: p.Name, About: "steady demand, four fifths of it in one region", Goal: 0.99, Plan: p})
	}
	for _, names := range [][]string{three, eight} {
		for _, standing := range []float64{0.1, 0.3} {
			s := thousand
			s.standing = standing
			p := s.plan(fmt.Sprintf("one busy of %d, share %g", len(names), standing), names...)
			load(&p, names[0], workload.Steady(1500))
			p.Duration = start + 300*quota.Second // several times as long as a loan lasts
			add(Workload{Name: p.Name, About: "all demand in one region; the standing shares of the others are idle, and lent to it", Goal: 0.99, Plan: p})
		}
	}
	{
		p := thousand.plan("step to 1.5x", three...)
		load(&p, "ap", workload.Steady(500))
		load(&p, "eu", workload.Step(300, 100, 20*time.Second))
		load(&p, "us", workload.Step(100, 900, 20*time.Second))
		add(Workload{Name: p.Name, About: "one region's demand rises ninefold and stays", Plan: p, Step: 20 * time.Second, Steps: []string{"us"}})
	}
	{
		p := thousand.plan("follow the sun", three...)
		for i, c := range workload.FollowTheSun(3, 50, 1150, 20*time.Second) {
			load(&p, three[i], c)
		}
		add(Workload{Name: p.Name, About: "noon moves from region to region, once in 20 s, at 1.8x in the mean", Goal: 0.97, Plan: p})
	}
	{
		p := thousand.plan("flash crowd 10x", three...)
		load(&p, "ap", workload.Flash(200, 2000, 20*time.Second, 15*time.Second))
		load(&p, "eu", workload.Steady(200))
		load(&p, "us", workload.Steady(200))
		add(Workload{Name: p.Name, About: "ten times the demand in one region for 15 s", Goal: 0.95, Plan: p, Step: 20 * time.Second, Steps: []string{"ap"}})
	}
	{
		p := thousand.plan("flash everywhere", three...)
		for _, r := range three {
			load(&p, r, workload.Flash(100, 3000, 20*time.Second, 5*time.Second))
		}
		add(Workload{Name: p.Name, About: "all regions at once from a third of the limit to nine times the limit, for 5 s", Plan: p})
	}
	{
		p := thousand.plan("hopping every 2 s", three...)
		for i, r := range three {
			at := time.Duration(2*i) * time.Second
			c := workload.Flash(50, 1400, at, 2*time.Second)
			c.Period = 6 * time.Second
			load(&p, r, c)
		}
		add(Workload{Name: p.Name, About: "the busy region is another one every 2 s", Plan: p})
	}
	{
		s := thousand
		s.more = ", weights: {ap: 1, eu: 2, us: 2}"
		p := s.plan("greedy against polite", three...)
		load(&p, "ap", workload.Steady(5000))
		load(&p, "eu", workload.Steady(300))
		load(&p, "us", workload.Steady(300))
		add(Workload{Name: p.Name, About: "one region asks for five times the limit, the others for less than their part", Goal: 0.99, Plan: p})
	}
	{
		names := []string{"ap", "eu", "in", "sa", "us"}
		p := spec{rate: 5, unit: "minute", burst: 5, standing: 0.1}.plan("5 a minute over 5 regions", names...)
		p.Duration = start + 20*60*quota.Second
		for i, r := range names {
			load(&p, r, workload.Steady(0.02*float64(i+1)))
		}
		add(Workload{Name: p.Name, About: "a limit too small to be divided, at 3.6x", Plan: p})
	}
	{
		const keys = 100_000
		s := spec{rate: 20, unit: "second", burst: 20, standing: 0.3}
		p := s.plan("100k keys, Zipf", three...)
		p.Duration = start + 30*quota.Second
		p.Keys = nil
		for i := range keys {
			p.Keys = append(p.Keys, sim.Key{Domain: "bench", Entries: []rules.Entry{{Key: "tenant", Value: fmt.Sprintf("t%d", i)}}})
		}
		for i, part := range []float64{0.8, 0.15, 0.05} {
			p.Load = append(p.Load, sim.Load{Region: three[i], Keys: keys, Curve: workload.Steady(5000 * part), Cost: 1})
		}
		add(Workload{Name: p.Name, About: "a hundred thousand users, of whom a few dozen are over their limit", Plan: p})
	}
	{
		s := thousand
		s.burst = 30
		p := s.plan("burst of 30 ms", three...)
		for i, part := range []float64{0.8, 0.15, 0.05} {
			load(&p, three[i], workload.Steady(1500*part))
		}
		add(Workload{Name: p.Name, About: "the burst is a fifth of what the rate gives in a round trip", Plan: p})
	}
	{
		s := spec{rate: 100, unit: "second", burst: 100, standing: 0.1}
		p := s.plan("costs from 1 to burst", three...)
		for i, part := range []float64{0.8, 0.15, 0.05} {
			p.Load = append(p.Load, sim.Load{Region: three[i], Curve: workload.Steady(3 * part), Cost: 1, MostCost: 100})
		}
		add(Workload{Name: p.Name, About: "single requests of up to the whole burst, at 1.5x", Plan: p})
	}
	return all
}
