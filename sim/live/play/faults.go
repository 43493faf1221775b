package play

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/scenario"
)

const (
	// slowest bounds what ends a fault: a node that starts, a Redis in step.
	slowest = 30 * time.Second
	// downFor is how long a leader that an event deposes stays away.
	downFor = 2 * time.Second
)

// begin queues everything that happens to the World.
func (c *conductor) begin() {
	c.spoil()
	f := c.plan.Faults
	for i, e := range c.plan.Events {
		c.at(e.At, func() { c.happen(e, c.lasts(i)) })
	}
	for _, e := range c.stage.events {
		c.at(e.At, func() { c.happenLive(e) })
	}
	region := func(r *rand.Rand) string { all := c.regions(); return all[r.IntN(len(all))] }
	c.every(f.Elections, 1, c.election)
	c.every(f.Partitions, 2, func(r *rand.Rand) {
		way := []string{scenario.In, scenario.Out, "", ""}[r.IntN(4)]
		c.cut(region(r), way, c.between(r, 0, 25*time.Second), false)
	})
	c.every(f.Resets, 3, func(r *rand.Rand) { c.reset(region(r), f.Edits == 0 && r.IntN(2) == 0, false) })
	c.every(f.Outages, 4, func(r *rand.Rand) { c.outage(region(r), c.between(r, 0, 15*time.Second), false) })
	c.every(f.Kills, 5, func(r *rand.Rand) {
		agents := c.world.Region(region(r)).Agents
		a := agents[r.IntN(len(agents))]
		c.kill(process{node: a, name: a.Name, agent: a}, 100*time.Millisecond+time.Duration(r.Int64N(int64(3*time.Second))), false)
	})
	c.every(f.Steps, 6, func(r *rand.Rand) {
		agents := c.world.Region(region(r)).Agents
		kind, by := scenario.SetClock, time.Duration(r.Int64N(int64(60*time.Second)))-30*time.Second
		if r.IntN(2) == 0 {
			kind, by = scenario.Suspend, max(by, -by)
		}
		c.clock(agents[r.IntN(len(agents))], kind, by, false)
	})
	c.every(f.Edits, 7, func(r *rand.Rand) { c.edit(r) })
	if f.Resets > 0 && f.Edits == 0 { // what a store comes back with
		c.every(7*quota.Second, 8, func(*rand.Rand) {
			for _, r := range c.world.Regions() {
				if free, ok := c.claim("store of "+r.Name, false); ok {
					_ = r.SaveStore() // it is down: then it comes back with an older state
					free()
				}
			}
		})
	}
}

// lasts is how long a cut or an outage of the plan lasts: until it is ended, or
// until everything heals.
func (c *conductor) lasts(i int) time.Duration {
	end := map[sim.Kind]sim.Kind{sim.Cut: sim.Mend, sim.Outage: sim.Back}[c.plan.Events[i].Kind]
	until := c.stage.faults
	for _, e := range c.plan.Events {
		if e.Kind == end && e.Region == c.plan.Events[i].Region && e.At >= c.plan.Events[i].At {
			until = min(until, e.At)
		}
	}
	return (until - c.plan.Events[i].At).Duration()
}

// happen makes an event happen that a run in virtual time has, too.
func (c *conductor) happen(e sim.Event, length time.Duration) {
	switch e.Kind {
	case sim.Elect:
		if p, ok := c.find(scenario.Leader); ok {
			c.kill(p, time.Duration(float64(downFor)*c.factor), true)
		}
	case sim.Cut:
		c.cut(e.Region, "", length, true)
	case sim.Reset:
		c.reset(e.Region, false, true)
	case sim.Outage:
		c.outage(e.Region, length, true)
	case sim.Kill:
		a := c.world.Region(e.Region).Agent(0)
		c.kill(process{node: a, name: a.Name, agent: a}, time.Second, true)
	case sim.Edit:
		c.edit(rand.New(rand.NewPCG(c.seed, uint64(e.At))))
	case sim.Mend, sim.Back: // the end of what began before
	default:
		c.failed(string(e.Kind), fmt.Errorf("%w: no such event", ErrOptions))
	}
}

// keeps returns what draws whether a connection outlives a cut.
func (c *conductor) keeps() func() bool {
	c.mu.Lock()
	c.drawn++
	rnd := rand.New(rand.NewPCG(c.seed, 1<<33|c.drawn))
	c.mu.Unlock()
	return func() bool { return rnd.Float64() < c.plan.Faults.Network.Held }
}

func (c *conductor) cut(region, way string, length time.Duration, patient bool) {
	lanes, keeps := c.lanes(region, way), c.keeps()
	side := map[string]string{"": "", scenario.In: "hears nothing", scenario.Out: "is not heard"}[way]
	text := words(region, "is cut off from the coordinators")
	if side != "" {
		text = words(region, side)
	}
	c.inflict(fault{
		what: "partitions", text: text, length: length, patient: patient,
		begin: func() error { c.cuts.shut(lanes); return nil },
		end: func(lasted time.Duration) error {
			c.cuts.open(lanes, keeps)
			c.lasted(lasted, region)
			return nil
		},
	})
}

func (c *conductor) reset(region string, keep, patient bool) {
	r := c.world.Region(region)
	with := "empty"
	if keep {
		with = "with an older state"
	}
	c.inflict(fault{
		what: "store resets", text: fmt.Sprintf("the Redis of %s restarts %s", region, with), on: "store of " + region, patient: patient,
		begin: func() error { return r.ResetStore(keep) },
	})
}

func (c *conductor) outage(region string, length time.Duration, patient bool) {
	r := c.world.Region(region)
	c.inflict(fault{
		what: "store outages", text: fmt.Sprintf("the Redis of %s does not answer", region), on: "store of " + region, patient: patient,
		length: length,
		begin: func() error {
			c.storeGone(region)
			return r.PauseStore()
		},
		end: func(lasted time.Duration) error {
			defer c.storeBack(region, lasted)
			ctx, cancel := context.WithTimeout(context.Background(), slowest)
			defer cancel()
			return r.ResumeStore(ctx)
		},
	})
}

// election deposes the leader in one of several ways.
func (c *conductor) election(r *rand.Rand) {
	how, down := r.IntN(3), c.between(r, time.Second, 5*time.Second)
	loyal := ""
	if f := c.plan.Faults; f.Loyal > 0 && r.Float64() < f.Loyal {
		all := c.regions()
		how, loyal, down = 2, all[r.IntN(len(all))], c.between(r, 0, 25*time.Second)
	}
	leader, ok := c.find(scenario.Leader)
	switch {
	case !ok: // there is an election already
	case how == 0:
		c.kill(leader, down, false)
	case how == 1:
		c.freeze(leader, down, false)
	default:
		c.isolate(leader, loyal, down, false)
	}
}

// edit puts another document in the place of the rules, or changes a weight.
func (c *conductor) edit(r *rand.Rand) {
	var text string
	var change func(ctx context.Context) error
	if n := len(c.plan.Edited); n > 0 && r.IntN(2) == 0 {
		document := c.plan.Edited[r.IntN(n)][0]
		text = "other rules"
		change = func(ctx context.Context) error { return c.world.ApplyRules(ctx, document.Text) }
	} else {
		all := c.regions()
		region, weight := all[r.IntN(len(all))], int64(r.IntN(4))
		text = fmt.Sprintf("%s weighs %d", region, weight)
		change = func(ctx context.Context) error { return c.weigh(ctx, region, weight) }
	}
	c.inflict(fault{what: "edits", text: text, on: "rules", patient: true, begin: func() error {
		c.mu.Lock()
		c.edited = true
		c.mu.Unlock()
		// It waits for a leader and for all regions, which may take as long as faults do.
		return change(c.ctx)
	}})
}

// weigh changes the weight of a region, as soon as somebody leads.
func (c *conductor) weigh(ctx context.Context, region string, weight int64) error {
	leader, err := c.world.AwaitLeader(ctx)
	if err != nil {
		return err
	}
	if _, err := leader.Admin().AddRegion(ctx, &quoratev1.AddRegionRequest{Name: region, Weight: weight}); err != nil {
		return fmt.Errorf("change the weight of %s: %w", region, err)
	}
	return nil
}

// restore gives the cluster the rules and weights back that it began with.
func (c *conductor) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slowest)
	defer cancel()
	for _, r := range c.plan.Regions {
		if err := c.weigh(ctx, r.Name, r.Weight); err != nil {
			return fmt.Errorf("restore the weights: %w", err)
		}
	}
	if err := c.world.ApplyRules(ctx, c.plan.Rules[0].Text); err != nil {
		return fmt.Errorf("restore the rules: %w", err)
	}
	return nil
}

// clock sets the clocks of an agent.
func (c *conductor) clock(a *live.Agent, kind scenario.LiveKind, by time.Duration, patient bool) {
	step, text := live.ClockStep{Real: quota.MicrosOf(by)}, fmt.Sprintf("the wall clock of %s is set by %v", a.Name, by)
	if kind == scenario.Suspend {
		step.Boot, text = step.Real, fmt.Sprintf("the machine of %s was suspended for %v", a.Name, by)
	}
	c.inflict(fault{what: "agent clocks upset", text: text, on: a.Name, patient: patient, begin: func() error { return a.StepClocks(step) }})
}
