package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Cluster is a Redis Cluster of processes on the loopback.
type Cluster struct {
	// Nodes are the first primaries, then the first replicas: node i+n is one of
	// node i, for n primaries.
	Nodes []*Server
	n     int
}

// slots of a cluster.
const slots = 16384

// StartCluster starts a cluster of primaries with even parts of the slots, each
// with one replica if replicas is set, and returns when all nodes agree. A
// replica takes over about a second after its primary went silent.
func StartCluster(primaries int, replicas bool) (c *Cluster, err error) {
	c = &Cluster{n: primaries}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	total := primaries
	if replicas {
		total *= 2
	}
	for range total {
		bus, err := HoldPort()
		if err != nil {
			return c, err
		}
		// The bus is usually 10,000 ports above, where there may be no port left.
		s, err := Start(Options{Args: []string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", strconv.Itoa(bus.Number),
			"--cluster-replica-validity-factor", "0",
		}})
		if err != nil {
			bus.Release()
			return c, err
		}
		s.bus = bus
		c.Nodes = append(c.Nodes, s)
		if _, err := s.Do("CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].Port(), busOf(c.Nodes[0])); err != nil {
			return c, err
		}
		if i := len(c.Nodes) - 1; i < primaries {
			if _, err := s.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/primaries), strconv.Itoa((i+1)*slots/primaries-1)); err != nil {
				return c, err
			}
		}
	}
	if err := c.Settle(total); err != nil {
		return c, err
	}
	for i := primaries; i < total; i++ {
		id, err := c.Nodes[i-primaries].Do("CLUSTER", "MYID")
		if err != nil {
			return c, err
		}
		if _, err := c.Nodes[i].Do("CLUSTER", "REPLICATE", id); err != nil {
			return c, err
		}
	}
	for i := primaries; i < total; i++ {
		if err := until(func() (bool, error) {
			info, err := c.Nodes[i].Do("INFO", "replication")
			return strings.Contains(info, "master_link_status:up"), err
		}); err != nil {
			return c, fmt.Errorf("replica %s does not follow: %w", c.Nodes[i].Addr(), err)
		}
	}
	return c, c.Settle(total)
}

func busOf(s *Server) string { return strconv.Itoa(s.bus.Number) }

// Settle waits until every running node knows as many nodes and sees the cluster
// whole.
func (c *Cluster) Settle(nodes int) error {
	for _, s := range c.Nodes {
		if s.PID() == 0 {
			continue
		}
		if err := until(func() (bool, error) {
			info, err := s.Do("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", nodes)), err
		}); err != nil {
			return fmt.Errorf("cluster node %s: %w", s.Addr(), err)
		}
	}
	return nil
}

// RunCluster is StartCluster for a test, which ends with it.
func RunCluster(tb testing.TB, primaries int, replicas bool) *Cluster {
	tb.Helper()
	c, err := StartCluster(primaries, replicas)
	if err != nil {
		tb.Fatalf("this test needs a real Redis: %v", err)
	}
	tb.Cleanup(func() {
		if err := c.Stop(); err != nil {
			tb.Errorf("stop cluster: %v", err)
		}
	})
	return c
}

// URL is what a client needs: the addresses of some nodes.
func (c *Cluster) URL() string {
	addrs := make([]string, 0, c.n)
	for _, s := range c.Nodes[:c.n] {
		addrs = append(addrs, s.Addr())
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// Move gives a slot with its keys from one node to another, as a resharding does.
func (c *Cluster) Move(slot int, from, to *Server) error {
	ids := make(map[*Server]string)
	for _, s := range []*Server{from, to} {
		id, err := s.Do("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		ids[s] = id
	}
	n := strconv.Itoa(slot)
	if _, err := to.Do("CLUSTER", "SETSLOT", n, "IMPORTING", ids[from]); err != nil {
		return err
	}
	if _, err := from.Do("CLUSTER", "SETSLOT", n, "MIGRATING", ids[to]); err != nil {
		return err
	}
	for {
		keys, err := from.Do("CLUSTER", "GETKEYSINSLOT", n, "100")
		if err != nil {
			return err
		}
		if keys == "" {
			break
		}
		words := append([]string{"MIGRATE", "127.0.0.1", to.Port(), "", "0", "5000", "KEYS"}, strings.Split(keys, "\n")...)
		if _, err := from.Do(words...); err != nil {
			return err
		}
	}
	for _, s := range append([]*Server{to, from}, c.Nodes...) {
		if s.PID() == 0 {
			continue
		}
		role, err := s.Do("ROLE")
		if err != nil {
			return err
		}
		if !strings.HasPrefix(role, "master") {
			continue
		}
		if _, err := s.Do("CLUSTER", "SETSLOT", n, "NODE", ids[to]); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends all processes.
func (c *Cluster) Stop() error {
	var problems []error
	for _, s := range c.Nodes {
		problems = append(problems, s.Stop())
	}
	return errors.Join(problems...)
}
