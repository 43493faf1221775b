package live

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/coordinator"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional"
)

const (
	roleVariable    = "QUORATE_LIVE_ROLE"
	roleCoordinator = "coordinator"
	roleAgent       = "agent"
	roleReaper      = "reaper"
)

// runner is what coordinator.New and regional.New return.
type runner interface{ Run(context.Context) error }

// coordinatorSpec is coordinator.Config as it travels to the child, and the
// node's links: the other nodes' Raft addresses and the proxies that lead there.
type coordinatorSpec struct {
	Node, DataDir                 string
	RaftAddr, GRPCAddr, AdminAddr string
	InitialCluster                string
	Links                         map[string]string
	Regions                       map[string]int64
	Timing                        quota.Timing
	Raft                          coordinator.RaftTimeouts
}

// agentSpec is regional.Config as it travels to the child, and the links of the
// agent: the coordinators' addresses and the proxies that lead there.
type agentSpec struct {
	Region, Agent                 string
	Coordinators                  []string
	Links                         map[string]string
	Redis                         string
	GRPCAddr, HTTPAddr, AdminAddr string
	Timing                        quota.Timing
	DrainDelay, RedisTimeout      time.Duration
	// DriftPPM is by how much the agent's clocks are fast.
	DriftPPM int64
}

// Main runs this process as a node of a World when a World started it as one,
// and then does not return. A program or TestMain that calls Start calls Main
// first; in any other process it does nothing.
func Main() {
	role := os.Getenv(roleVariable)
	if role == "" {
		return
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if err := runChild(role, os.Stdin, log); err != nil {
		log.Error("node failed", "err", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runChild(role string, stdin io.Reader, log *slog.Logger) error {
	in := bufio.NewReader(stdin)
	spec, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if role == roleReaper {
		return reap(in, log)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	clocks := &clocks{}
	// The parent holds the other end open for as long as it lives. This goroutine
	// ends with the process.
	go func() {
		for d := json.NewDecoder(in); ; {
			var s ClockStep
			if d.Decode(&s) != nil {
				break // however it ends, the parent is gone
			}
			log.Info("clocks are set", "mono", s.Mono, "boot", s.Boot, "real", s.Real)
			clocks.step(s)
		}
		log.Error("parent process is gone")
		os.Exit(1)
	}()
	node, err := build(role, spec, clocks, log)
	if err != nil {
		return err
	}
	if err := node.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("run %s: %w", role, err)
	}
	return nil
}

func build(role string, spec []byte, clocks *clocks, log *slog.Logger) (runner, error) {
	switch role {
	case roleCoordinator:
		var s coordinatorSpec
		if err := json.Unmarshal(spec, &s); err != nil {
			return nil, fmt.Errorf("decode configuration: %w", err)
		}
		return coordinator.New(coordinator.Config{
			Node: s.Node, DataDir: s.DataDir,
			RaftAddr: s.RaftAddr, GRPCAddr: s.GRPCAddr, AdminAddr: s.AdminAddr,
			InitialCluster: s.InitialCluster, Regions: s.Regions,
			Timing: s.Timing, RaftTimeouts: s.Raft,
			DialRaft: func(network, address string, timeout time.Duration) (net.Conn, error) {
				return net.DialTimeout(network, routes(s.Links).of(address), timeout)
			},
			Logger: log, Registerer: prometheus.NewRegistry(),
		})
	case roleAgent:
		var s agentSpec
		if err := json.Unmarshal(spec, &s); err != nil {
			return nil, fmt.Errorf("decode configuration: %w", err)
		}
		routeThrough(s.Links)
		clocks.drift(s.DriftPPM)
		return regional.New(regional.Config{
			Region: s.Region, Agent: s.Agent, Coordinators: s.Coordinators, Redis: s.Redis,
			GRPCAddr: s.GRPCAddr, HTTPAddr: s.HTTPAddr, AdminAddr: s.AdminAddr,
			DrainDelay: s.DrainDelay, Drain: time.Second, Timing: s.Timing,
			// A whole world on one machine: a Redis that waits for a processor has not failed.
			RedisTimeout: cmp.Or(s.RedisTimeout, 250*time.Millisecond),
			Clocks:       clocks.read, Logger: log, Registerer: prometheus.NewRegistry(),
		})
	}
	return nil, fmt.Errorf("unknown role %q", role)
}

// routeThrough makes every gRPC client of this process reach the addresses in
// links through their proxies. It is done where names become addresses, so that
// an address that a follower names as the leader's takes its link too.
func routeThrough(links map[string]string) {
	resolver.Register(routes(links))
	resolver.SetDefaultScheme(routes(links).Scheme())
}

type routes map[string]string

// of returns the way to an address: an unknown one is reached directly.
func (r routes) of(addr string) string {
	if proxy, ok := r[addr]; ok {
		return proxy
	}
	return addr
}

// Scheme implements resolver.Builder.
func (routes) Scheme() string { return "quorate-live" }

// Build implements resolver.Builder: it answers once.
func (r routes) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	addr := r.of(target.Endpoint())
	if err := cc.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: addr}}}); err != nil {
		return nil, fmt.Errorf("route to %s: %w", addr, err)
	}
	return route{}, nil
}

// route is a resolver that has nothing more to say.
type route struct{}

func (route) ResolveNow(resolver.ResolveNowOptions) {}
func (route) Close()                                {}
