package live

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"google.golang.org/grpc"

	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
	"github.com/quorate/quorate/sim/netproxy"
)

// stopGrace is how long a node may take to end in order.
const stopGrace = 15 * time.Second

// Coordinator is one coordinator node.
type Coordinator struct {
	Name string

	raftAddr, grpcAddr, adminAddr string
	links                         map[string]*netproxy.Link // to the other nodes, by name
	dataDir                       string
	disk                          string // where its own disk is mounted, "" for none
	process                       *process
	conn                          *grpc.ClientConn // the operator's
}

// GRPCAddr is where the node serves agents and operators, without any delay.
func (c *Coordinator) GRPCAddr() string { return c.grpcAddr }

// AdminAddr is where the node serves /metrics and health.
func (c *Coordinator) AdminAddr() string { return c.adminAddr }

// Kill ends the node at once, as a crash does. Its store stays.
func (c *Coordinator) Kill() { c.process.kill() }

// Stop ends the node in order.
func (c *Coordinator) Stop() error { return c.process.stop(stopGrace) }

// Restart starts the node again, on the store it had. It does not wait until
// the node has caught up.
func (c *Coordinator) Restart() error { return c.process.start() }

// Freeze stops the process in its tracks, as a VM pause would; Thaw lets it go on.
func (c *Coordinator) Freeze() error { return c.process.signal(syscall.SIGSTOP) }

// Thaw lets a frozen node go on.
func (c *Coordinator) Thaw() error { return c.process.signal(syscall.SIGCONT) }

// Running reports whether the node's process runs.
func (c *Coordinator) Running() bool { return c.process.running() }

// Log is the path of the node's log.
func (c *Coordinator) Log() string { return c.process.log }

// Link is the node's link to another coordinator.
func (c *Coordinator) Link(peer string) *netproxy.Link { return c.links[peer] }

// Admin is the operator's service of this node.
func (c *Coordinator) Admin() quoratev1.AdminClient { return quoratev1.NewAdminClient(c.conn) }

// Status asks the node for itself.
func (c *Coordinator) Status(ctx context.Context) (*quoratev1.NodeStatusResponse, error) {
	status, err := c.Admin().NodeStatus(ctx, &quoratev1.NodeStatusRequest{})
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", c.Name, err)
	}
	return status, nil
}

// ErrNoLeader means that no coordinator is the leader, or none answered.
var ErrNoLeader = errors.New("no coordinator is the leader")

// Leader returns the leader, or ErrNoLeader.
func (w *World) Leader(ctx context.Context) (*Coordinator, error) {
	for _, c := range w.coordinators {
		if !c.Running() {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		status, err := c.Status(ctx)
		cancel()
		if err == nil && status.GetRole() == "leader" {
			return c, nil
		}
	}
	return nil, ErrNoLeader
}

// Isolate parts a coordinator from all others, or, with agents, from everybody
// but operators.
func (w *World) Isolate(c *Coordinator, agents bool) {
	for _, l := range w.linksOf(c, agents) {
		l.Cut()
	}
}

// Rejoin brings an isolated coordinator back.
func (w *World) Rejoin(c *Coordinator) {
	for _, l := range w.linksOf(c, true) {
		l.Heal()
	}
}

func (w *World) linksOf(c *Coordinator, agents bool) (links []*netproxy.Link) {
	for _, peer := range w.coordinators {
		if peer != c {
			links = append(links, c.links[peer.Name], peer.links[c.Name])
		}
	}
	for _, r := range w.regions {
		for _, a := range r.Agents {
			if agents {
				links = append(links, a.links[c.Name])
			}
		}
	}
	return links
}

// AwaitLeader waits until there is a leader that is ready to serve.
func (w *World) AwaitLeader(ctx context.Context) (*Coordinator, error) {
	var leader *Coordinator
	err := w.await(ctx, "a ready leader", func(ctx context.Context) error {
		c, err := w.Leader(ctx)
		if err != nil {
			return err
		}
		status, err := c.Status(ctx)
		if err != nil {
			return err
		}
		if !status.GetReady() {
			return fmt.Errorf("%s leads but is not ready", c.Name)
		}
		leader = c
		return nil
	})
	return leader, err
}

// ApplyRules replaces the rule documents by one and waits until every agent
// that runs has adopted it, or ctx ends.
func (w *World) ApplyRules(ctx context.Context, text string) error {
	var version uint64
	err := w.await(ctx, "a leader that takes the rules", func(ctx context.Context) error {
		c, err := w.Leader(ctx)
		if err != nil {
			return err
		}
		answer, err := c.Admin().ApplyRules(ctx, &quoratev1.ApplyRulesRequest{
			Sources: []*quoratev1.Source{{Name: "rules.yaml", Text: text}},
		})
		if err != nil {
			return fmt.Errorf("apply rules at %s: %w", c.Name, err)
		}
		version = answer.GetConfigVersion()
		return nil
	})
	if err != nil {
		return err
	}
	return w.AwaitAdopted(ctx, version)
}

// AwaitAdopted waits until every region has confirmed the configuration version, for
// all of its agents that run.
func (w *World) AwaitAdopted(ctx context.Context, version uint64) error {
	return w.await(ctx, fmt.Sprintf("configuration %d in all regions", version), func(ctx context.Context) error {
		c, err := w.Leader(ctx)
		if err != nil {
			return err
		}
		answer, err := c.Admin().ListRegions(ctx, &quoratev1.ListRegionsRequest{})
		if err != nil {
			return fmt.Errorf("list regions at %s: %w", c.Name, err)
		}
		for _, r := range answer.GetRegions() {
			region := w.Region(r.GetName())
			if region == nil || region.connected() == 0 {
				continue
			}
			if have := len(r.GetAgents()); have < region.connected() {
				return fmt.Errorf("%d of %d agents of region %s are connected", have, region.connected(), r.GetName())
			}
			if have := r.GetConfigConfirmed(); have < version {
				return fmt.Errorf("region %s has confirmed version %d", r.GetName(), have)
			}
		}
		return nil
	})
}
