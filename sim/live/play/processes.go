package play

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/netproxy"
	"github.com/quorate/quorate/sim/scenario"
)

// node is a process that can have a fault.
type node interface {
	Kill()
	Restart() error
	Freeze() error
	Thaw() error
	Running() bool
}

// process is a node by its name; one of agent and coordinator is set.
type process struct {
	node
	name        string
	agent       *live.Agent
	coordinator *live.Coordinator
}

// find returns the process that an event names. ok is false when nobody leads,
// within a while: then there is none to do something to, which is said.
func (c *conductor) find(on string) (p process, ok bool) {
	for _, r := range c.world.Regions() {
		for _, a := range r.Agents {
			if a.Name == on {
				return process{node: a, name: on, agent: a}, true
			}
		}
	}
	var leader *live.Coordinator
	if on == scenario.Leader || on == scenario.Follower {
		var err error
		if leader, err = c.world.AwaitLeader(c.ctx); err != nil {
			c.failed("find a "+on, err)
			return p, false
		}
	}
	for _, n := range c.world.Coordinators() {
		if n.Name == on || on == scenario.Leader && n == leader || on == scenario.Follower && n != leader {
			return process{node: n, name: n.Name, coordinator: n}, true
		}
	}
	c.failed("find "+on, errors.New("there is no such process"))
	return p, false
}

// everybody is who suffers when a process does: its region, or all.
func (c *conductor) everybody(p process) []string {
	if p.agent != nil {
		return []string{p.agent.Region}
	}
	return c.regions()
}

func (c *conductor) kill(p process, down time.Duration, patient bool) {
	what := "agents killed"
	if p.coordinator != nil {
		what = "coordinators killed"
	}
	c.inflict(fault{
		what: what, text: fmt.Sprintf("%s is killed", p.name), on: p.name, length: down, patient: patient,
		begin: func() error {
			p.Kill()
			if p.agent != nil {
				c.killed(p.agent.Region)
			}
			return nil
		},
		end: func(lasted time.Duration) error {
			c.lasted(lasted, c.everybody(p)...)
			return p.Restart()
		},
	})
}

func (c *conductor) freeze(p process, length time.Duration, patient bool) {
	c.inflict(fault{
		what: "processes stopped", text: fmt.Sprintf("%s is stopped", p.name), on: p.name, length: length, patient: patient,
		begin: p.Freeze,
		end: func(lasted time.Duration) error {
			c.lasted(lasted, c.everybody(p)...)
			return p.Thaw()
		},
	})
}

// isolate parts a coordinator from all others and from the agents of all regions
// but one, if it is named.
func (c *conductor) isolate(p process, loyal string, length time.Duration, patient bool) {
	lanes := c.around(p.coordinator, loyal)
	text := fmt.Sprintf("%s is isolated", p.name)
	if loyal != "" {
		text += ", and still reached by " + loyal
	}
	c.inflict(fault{
		what: "coordinators isolated", text: text, on: p.name, length: length, patient: patient,
		begin: func() error { c.cuts.shut(lanes); return nil },
		end: func(lasted time.Duration) error {
			c.lasted(lasted, c.regions()...)
			// Raft's connections outlive it: old messages do turn up late.
			c.cuts.open(lanes, func() bool { return true })
			return nil
		},
	})
}

// happenLive makes an event happen that only real processes have.
func (c *conductor) happenLive(e scenario.LiveEvent) {
	var p process
	if e.On != "" {
		var ok bool
		if p, ok = c.find(e.On); !ok {
			return
		}
	}
	length := e.For.Duration()
	switch e.Kind {
	case scenario.Freeze:
		c.freeze(p, length, true)
	case scenario.KillNode:
		c.kill(p, length, true)
	case scenario.Isolate:
		c.isolate(p, "", length, true)
	case scenario.Blackhole:
		c.cut(e.Region, e.Way, length, true)
	case scenario.Disconnect:
		c.disconnect(e.Region)
	case scenario.Throttle:
		c.throttle(e, length)
	case scenario.Slow:
		c.slow(e, length)
	case scenario.FailOver:
		c.failOver(e.Region)
	case scenario.DiskFull:
		c.fill(p, length)
	case scenario.SetClock, scenario.Suspend:
		c.clock(p.agent, e.Kind, e.By, true)
	default:
		c.failed(string(e.Kind), fmt.Errorf("%w: no such event", ErrOptions))
	}
}

func (c *conductor) disconnect(region string) {
	c.inflict(fault{
		what: "connections broken", text: fmt.Sprintf("the connections of %s to the coordinators break", region),
		begin: func() error {
			for _, l := range c.links(region) {
				l.Reset()
			}
			return nil
		},
	})
}

func (c *conductor) throttle(e scenario.LiveEvent, length time.Duration) {
	pace := func(bytes int64) {
		for _, l := range c.links(e.Region) {
			l.Throttle(netproxy.Forward, bytes)
			l.Throttle(netproxy.Back, bytes)
		}
	}
	c.inflict(fault{
		what: "lines throttled", text: fmt.Sprintf("the lines of %s carry %d bytes a second", e.Region, e.Bytes),
		on: "pace of " + e.Region, length: length, patient: true,
		begin: func() error { pace(e.Bytes); return nil },
		end: func(lasted time.Duration) error {
			pace(0)
			c.lasted(lasted, e.Region)
			return nil
		},
	})
}

func (c *conductor) slow(e scenario.LiveEvent, length time.Duration) {
	delay := func(d netproxy.Delay) {
		for _, l := range c.links(e.Region) {
			l.SetDelay(d)
		}
	}
	n := c.plan.Faults.Network
	c.inflict(fault{
		what: "lines slowed", text: fmt.Sprintf("the lines of %s take %v", e.Region, e.Delay.Duration()),
		on: "delay of " + e.Region, length: length, patient: true,
		begin: func() error { delay(netproxy.Delay{Min: e.Delay.Duration(), Max: e.Delay.Duration()}); return nil },
		end: func(lasted time.Duration) error {
			delay(netproxy.Delay{Min: n.Delay.Duration(), Max: (n.Delay + n.Jitter).Duration()})
			c.lasted(lasted, e.Region)
			return nil
		},
	})
}

func (c *conductor) failOver(region string) {
	r := c.world.Region(region)
	c.inflict(fault{
		what: "store fail-overs", text: fmt.Sprintf("the primary Redis of %s dies", region), on: "store of " + region, patient: true,
		begin: func() error {
			began := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), slowest)
			defer cancel()
			c.storeGone(region)
			err := r.FailOver(ctx)
			c.storeBack(region, time.Since(began))
			if err == nil {
				c.note("%s has another primary after %v", region, time.Since(began).Round(10*time.Millisecond))
			}
			return err
		},
	})
}

// fill leaves no space on the disk of a coordinator.
func (c *conductor) fill(p process, length time.Duration) {
	c.inflict(fault{
		what: "disks full", text: fmt.Sprintf("the disk of %s is full", p.name), on: p.name, length: length, patient: true,
		begin: p.coordinator.FillDisk,
		end: func(lasted time.Duration) error {
			c.lasted(lasted, c.regions()...)
			if !p.Running() {
				c.note("%s has ended for want of space and starts again", p.name)
			}
			return p.coordinator.FreeDisk()
		},
	})
}
