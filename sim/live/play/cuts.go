package play

import (
	"sync"

	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/netproxy"
	"github.com/quorate/quorate/sim/scenario"
)

// lane is one direction of a link.
type lane struct {
	link *netproxy.Link
	way  netproxy.Direction
}

// cuts are the lanes that carry nothing, each with the number of faults that say
// so: it opens when the last one is over.
type cuts struct {
	mu    sync.Mutex
	count map[lane]int
}

func newCuts() *cuts { return &cuts{count: map[lane]int{}} }

func (c *cuts) shut(lanes []lane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range lanes {
		c.count[l]++
		l.link.Blackhole(l.way)
	}
}

// open ends a fault of lanes. The connections of a link break, unless keep says
// that it holds what it had to carry.
func (c *cuts) open(lanes []lane, keep func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	drawn := map[*netproxy.Link]bool{}
	for _, l := range lanes {
		c.count[l]--
		if _, ok := drawn[l.link]; !ok {
			drawn[l.link] = true
			if !keep() {
				l.link.Reset()
			}
		}
	}
	for _, l := range lanes {
		if c.count[l] == 0 {
			l.link.Restore(l.way)
		}
	}
}

// both are both lanes of links.
func both(links ...*netproxy.Link) (lanes []lane) {
	for _, l := range links {
		lanes = append(lanes, lane{l, netproxy.Forward}, lane{l, netproxy.Back})
	}
	return lanes
}

// links are those of a region's agents to the coordinators.
func (c *conductor) links(region string) (all []*netproxy.Link) {
	for _, a := range c.world.Region(region).Agents {
		for _, node := range c.world.Coordinators() {
			all = append(all, a.Link(node.Name))
		}
	}
	return all
}

// lanes are those between a region and the coordinators: both, or one as the region
// sees it.
func (c *conductor) lanes(region, way string) (lanes []lane) {
	for _, l := range both(c.links(region)...) {
		if way == "" || (way == scenario.Out) == (l.way == netproxy.Forward) {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// around are the lanes between a coordinator and all others, and the agents of all
// regions but one.
func (c *conductor) around(node *live.Coordinator, but string) (lanes []lane) {
	for _, peer := range c.world.Coordinators() {
		if peer != node {
			lanes = append(lanes, both(node.Link(peer.Name), peer.Link(node.Name))...)
		}
	}
	for _, r := range c.world.Regions() {
		for _, a := range r.Agents {
			if r.Name != but {
				lanes = append(lanes, both(a.Link(node.Name))...)
			}
		}
	}
	return lanes
}

// spoil makes the network as bad as the scenario has it all the time: what only
// delays is in the World already.
func (c *conductor) spoil() {
	f := c.plan.Faults
	loss := netproxy.Loss{Packets: f.Network.Loss, Late: f.Network.Late}
	for _, r := range c.world.Regions() {
		for _, l := range c.links(r.Name) {
			l.SetLoss(netproxy.Forward, loss)
			l.SetLoss(netproxy.Back, loss)
		}
		for _, a := range r.Agents {
			if l := a.StoreLink(); l != nil {
				l.SetLoss(netproxy.Back, netproxy.Loss{Break: f.LostReplies})
			}
		}
	}
}

// calm ends that: the network is as fast as it was, and loses nothing any more.
func (c *conductor) calm() {
	d := c.plan.Faults.Network.Delay.Duration()
	for _, r := range c.world.Regions() {
		for _, l := range c.links(r.Name) {
			l.SetLoss(netproxy.Forward, netproxy.Loss{})
			l.SetLoss(netproxy.Back, netproxy.Loss{})
			l.SetDelay(netproxy.Delay{Min: d, Max: d})
		}
		for _, a := range r.Agents {
			if l := a.StoreLink(); l != nil {
				l.SetLoss(netproxy.Back, netproxy.Loss{})
			}
		}
	}
}
