package live

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/sim/netproxy"
)

// buildCoordinators prepares the coordinator nodes, each with a link of its own
// to each other one's Raft port.
func (w *World) buildCoordinators(free *ports) error {
	weights := map[string]int64{}
	for _, r := range w.opts.Regions {
		weights[r.Name] = r.Weight
	}
	var cluster []string
	for _, name := range coordinatorNames(w.opts.Coordinators) {
		addrs, err := free.take(3)
		if err != nil {
			return err
		}
		c := &Coordinator{
			Name: name, raftAddr: addrs[0], grpcAddr: addrs[1], adminAddr: addrs[2],
			links:   map[string]*netproxy.Link{},
			dataDir: filepath.Join(w.dir, name),
			process: &process{role: roleCoordinator, name: name, log: w.logPath(name), group: w.group()},
		}
		w.coordinators = append(w.coordinators, c)
		if err := w.buildDisk(c); err != nil {
			return err
		}
		if c.conn, err = w.dialOperator(c.grpcAddr); err != nil {
			return err
		}
		cluster = append(cluster, name+"="+c.raftAddr)
	}
	for _, c := range w.coordinators {
		routes := map[string]string{}
		for _, peer := range w.coordinators {
			if peer == c {
				continue
			}
			link, err := w.link(peer.raftAddr, w.opts.RaftDelay)
			if err != nil {
				return err
			}
			c.links[peer.Name], routes[peer.raftAddr] = link, link.Addr()
		}
		c.process.spec = coordinatorSpec{
			Node: c.Name, DataDir: c.dataDir,
			RaftAddr: c.raftAddr, GRPCAddr: c.grpcAddr, AdminAddr: c.adminAddr,
			InitialCluster: strings.Join(cluster, ","), Links: routes,
			Regions: weights, Timing: w.opts.Timing, Raft: w.opts.Raft,
		}
	}
	return nil
}

// buildRegion prepares the agents of a region with a store, each with a link of its
// own to each coordinator.
func (w *World) buildRegion(spec RegionSpec, s *store, free *ports) error {
	r := &Region{Name: spec.Name, store: s}
	w.regions = append(w.regions, r)
	agents := spec.Agents
	if s.current() == nil && agents > 1 {
		w.opts.Logger.Warn("an embedded store cannot be shared, so the region has one agent; install redis-server for more", "region", spec.Name)
		agents = 1
	}
	for i := range agents {
		addrs, err := free.take(3)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s-%d", spec.Name, i+1)
		a := &Agent{
			Name: name, Region: spec.Name, grpcAddr: addrs[0], httpAddr: addrs[1], adminAddr: addrs[2],
			links:   map[string]*netproxy.Link{},
			process: &process{role: roleAgent, name: name, log: w.logPath(name), group: w.group()},
		}
		r.Agents = append(r.Agents, a)
		if a.conn, err = w.dialOperator(a.grpcAddr); err != nil {
			return err
		}
		routes := map[string]string{}
		var coordinators []string
		for _, c := range w.coordinators {
			link, err := w.link(c.grpcAddr, w.opts.Delay)
			if err != nil {
				return err
			}
			a.links[c.Name] = link
			routes[c.grpcAddr] = link.Addr()
			coordinators = append(coordinators, c.grpcAddr)
		}
		if a.store, err = w.storeLink(s); err != nil {
			return err
		}
		a.process.spec = agentSpec{
			Region: spec.Name, Agent: name, Coordinators: coordinators, Links: routes, Redis: s.address(a.store),
			GRPCAddr: addrs[0], HTTPAddr: addrs[1], AdminAddr: addrs[2], Timing: w.opts.Timing,
			DrainDelay: w.opts.DrainDelay, RedisTimeout: w.opts.RedisTimeout, DriftPPM: w.drift(),
		}
	}
	return nil
}

// storeLink opens an agent's link to its store, nil when it needs none.
func (w *World) storeLink(s *store) (*netproxy.Link, error) {
	if s.server == nil || !w.opts.StoreLinks {
		return nil, nil
	}
	return w.link(s.server.Addr(), netproxy.Delay{})
}

// drift draws by how much the clocks of the next agent are fast.
func (w *World) drift() int64 {
	if w.opts.DriftPPM <= 0 {
		return 0
	}
	w.drifts++
	rnd := rand.New(rand.NewPCG(w.opts.Seed, w.drifts))
	return rnd.Int64N(2*w.opts.DriftPPM+1) - w.opts.DriftPPM
}

// link opens a link that ends with the World.
func (w *World) link(target string, delay netproxy.Delay) (*netproxy.Link, error) {
	w.links++
	l, err := netproxy.Listen(netproxy.Config{Target: target, Delay: delay, Seed: w.opts.Seed<<16 | w.links})
	if err != nil {
		return nil, fmt.Errorf("link to %s: %w", target, err)
	}
	w.closers = append(w.closers, func() error { l.Close(); return nil })
	return l, nil
}

// dialOperator opens a lazy connection to a node, which takes no link and ends
// with the World. It tries again soon after a node came back, where gRPC's own
// backoff would wait for up to two minutes.
func (w *World) dialOperator(addr string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(quickly))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	w.closers = append(w.closers, conn.Close)
	return conn, nil
}
