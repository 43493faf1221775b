package coordinator

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/coordinator/planner"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/raftnode"
)

// RaftTimeouts are the durations of Raft and of proposals; see raftnode.
type RaftTimeouts = raftnode.Timeouts

// Config describes one node. Node, DataDir, RaftAddr, GRPCAddr and
// InitialCluster are required.
type Config struct {
	// Node is this node's name in InitialCluster.
	Node string
	// DataDir holds log and snapshots. It belongs to one node.
	DataDir string
	// RaftAddr and GRPCAddr are where the node listens; AdminAddr may be empty.
	RaftAddr, GRPCAddr, AdminAddr string
	// RaftAdvertise is where other nodes dial; default is Node's address in InitialCluster.
	RaftAdvertise string
	// GRPCAdvertise is where agents dial this node when it leads. Default is
	// GRPCAddr, or its port at the host of RaftAdvertise when it has no host.
	GRPCAdvertise string
	// InitialCluster is the list "n1=host:7601,n2=…", the same on all nodes.
	InitialCluster string
	// Regions is the first share table, by region; only the first leader of a
	// new cluster uses it.
	Regions map[string]int64
	// RulesDir, when set, is where the rules come from: every *.yaml and *.yml in
	// it, watched. Operators cannot apply rules then. A set with a mistake changes
	// nothing; while the cluster has never had a good one, its nodes are not ready.
	RulesDir string
	// RulesPoll is how often RulesDir is read even if nothing seems to have
	// changed. Default 3 s.
	RulesPoll time.Duration

	// RaftServerTLS and RaftClientTLS, both or neither, secure the Raft connections.
	RaftServerTLS, RaftClientTLS *tls.Config
	// GRPCTLS, when set, is what GRPCAddr speaks.
	GRPCTLS *tls.Config
	// Reflection lets gRPC tools list the services.
	Reflection bool

	// Timing is the lease protocol's; it must be the agents'. Zero means quota.DefaultTiming().
	Timing       quota.Timing
	RaftTimeouts RaftTimeouts
	// Planner tunes the division of quota; its Timing is Timing above.
	Planner planner.Config
	// Drain bounds each step of a shutdown. Default 5 s.
	Drain time.Duration
	// DialRaft, when set, opens the connections to other nodes; tests cut them there.
	DialRaft func(network, address string, timeout time.Duration) (net.Conn, error)
	// Listen opens all ports of the node; default is net.Listen. Tests with
	// virtual time replace TCP by it.
	Listen func(network, address string) (net.Listener, error)

	Logger *slog.Logger
	// Registerer takes the metrics; /metrics serves it when it is also a
	// prometheus.Gatherer. Nil means a registry of its own.
	Registerer prometheus.Registerer
	// Version is reported in quorate_build_info and in the status.
	Version string
}

// ErrConfig means that a configuration cannot work; the text lists every problem.
var ErrConfig = errors.New("invalid coordinator configuration")

// Validate returns all problems of c, joined, each naming its setting. What New
// fills in by itself may be missing.
func (c Config) Validate() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...))
	}
	for _, r := range []struct{ setting, value, hint string }{
		{"node", c.Node, "give this node's name in initial-cluster"},
		{"data-dir", c.DataDir, "give a directory that belongs to this node alone"},
		{"raft-addr", c.RaftAddr, "give the address to listen on for the other nodes, as :7601"},
		{"grpc-addr", c.GRPCAddr, "give the address to listen on for agents, as :7600"},
		{"initial-cluster", c.InitialCluster, "give the same list NODE=HOST:PORT,… to all nodes"},
	} {
		if r.value == "" {
			bad("%s: missing, %s", r.setting, r.hint)
		}
	}
	c.validateAddresses(bad)
	if c.InitialCluster != "" {
		servers, err := raftnode.ParseCluster(c.InitialCluster)
		if err != nil {
			bad("initial-cluster: %w", err)
		} else if c.Node != "" && !slices.ContainsFunc(servers, func(s raftnode.Server) bool { return s.Node == c.Node }) {
			bad("initial-cluster: node %q is not in the list %q", c.Node, c.InitialCluster)
		}
	}
	for name, weight := range c.Regions {
		if !printable(name) || name == "" || len(name) > 128 {
			bad("regions: %q is not a name of 1 to 128 printable bytes", name)
		}
		if weight < 0 || weight > quota.MaxWeight {
			bad("regions: weight %d of region %q is outside 0…%d", weight, name, quota.MaxWeight)
		}
	}
	if t := c.Timing; t != (quota.Timing{}) {
		if t.TTL <= 0 || t.Answer <= 0 || t.Tick <= 0 || t.Guard < 0 || t.Delta < 0 || t.RhoPPM < 0 || t.Usable() <= 0 {
			bad("timing: ttl %s, guard %s, answer %s, tick %s, delta %s and rho %d ppm leave no usable lease time", t.TTL, t.Guard, t.Answer, t.Tick, t.Delta, t.RhoPPM)
		}
	}
	if err := c.RaftTimeouts.Validate(); err != nil {
		bad("raft: %w", err)
	}
	if (c.RaftServerTLS == nil) != (c.RaftClientTLS == nil) {
		bad("raft-tls: certificate, key and CA are all needed: nodes prove themselves to each other")
	}
	for _, d := range []struct {
		setting string
		d       time.Duration
	}{{"drain", c.Drain}, {"rules-poll", c.RulesPoll}} {
		if d.d < 0 {
			bad("%s: %s is negative", d.setting, d.d)
		}
	}
	return errors.Join(problems...)
}

func (c Config) validateAddresses(bad func(string, ...any)) {
	for _, a := range []struct {
		setting, addr string
		dialed        bool
	}{
		{"raft-addr", c.RaftAddr, false}, {"grpc-addr", c.GRPCAddr, false}, {"admin-addr", c.AdminAddr, false},
		{"raft-advertise", c.RaftAdvertise, true}, {"grpc-advertise", c.GRPCAdvertise, true},
	} {
		if a.addr == "" {
			continue
		}
		host, port, err := net.SplitHostPort(a.addr)
		switch {
		case err != nil || port == "":
			bad("%s: %q is not HOST:PORT or :PORT", a.setting, a.addr)
		case a.dialed && (host == "" || port == "0"):
			bad("%s: %q is no address that others can dial, give HOST:PORT", a.setting, a.addr)
		}
	}
}

// withDefaults fills in what may be missing in a valid configuration.
func (c Config) withDefaults() Config {
	servers, _ := raftnode.ParseCluster(c.InitialCluster)
	if i := slices.IndexFunc(servers, func(s raftnode.Server) bool { return s.Node == c.Node }); c.RaftAdvertise == "" && i >= 0 {
		c.RaftAdvertise = servers[i].Address
	}
	if c.GRPCAdvertise == "" {
		host, port, _ := net.SplitHostPort(c.GRPCAddr)
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host, _, _ = net.SplitHostPort(c.RaftAdvertise)
		}
		c.GRPCAdvertise = net.JoinHostPort(host, port)
	}
	if c.Timing == (quota.Timing{}) {
		c.Timing = quota.DefaultTiming()
	}
	c.Planner.Timing = c.Timing
	c.RaftTimeouts = c.RaftTimeouts.WithDefaults()
	if c.Drain == 0 {
		c.Drain = 5 * time.Second
	}
	if c.RulesPoll == 0 {
		c.RulesPoll = 3 * time.Second
	}
	if c.Listen == nil {
		c.Listen = net.Listen
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.Version == "" {
		c.Version = "unknown"
	}
	return c
}

// shares returns the first share table, sorted by region.
func (c Config) shares() quota.Shares {
	var out quota.Shares
	for name, weight := range c.Regions {
		out = append(out, quota.Share{Region: name, Weight: weight})
	}
	slices.SortFunc(out, func(a, b quota.Share) int { return strings.Compare(a.Region, b.Region) })
	return out
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
}
