package raftnode

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// Config describes one node.
type Config struct {
	// Node is this node's name in InitialCluster, its identity for ever.
	Node string
	// DataDir holds the log, the snapshots and the identity. It belongs to one node.
	DataDir string
	// Bind is the TCP address to listen on.
	Bind string
	// Advertise is the address others dial; default is Node's in InitialCluster.
	Advertise string
	// InitialCluster is the same list on all nodes. It is used once, on an empty
	// DataDir, and must not change afterwards.
	InitialCluster []Server
	// BootstrapWait is how long a node with an empty DataDir waits for all other
	// nodes to say whether they know a cluster already. Default 5 s.
	BootstrapWait time.Duration
	Timeouts      Timeouts

	// ServerTLS and ClientTLS, both or neither, make all connections mutual TLS.
	// A node's certificate must be valid for the host name in its address.
	ServerTLS, ClientTLS *tls.Config
	// Dial opens a connection to another node; default is a TCP dialer, which
	// resolves the name at each call.
	Dial func(network, address string, timeout time.Duration) (net.Conn, error)
	// Listen opens Bind; default is net.Listen. With Dial it puts a node on
	// another network than TCP.
	Listen func(network, address string) (net.Listener, error)

	// FSM is the replicated state machine.
	FSM raft.FSM
	// Cluster returns the cluster id of the replicated state, "" while it has none.
	Cluster func() string
	// SnapshotThreshold is the number of entries after which a snapshot is taken. Default 4096.
	SnapshotThreshold uint64
	// SnapshotInterval is how often that is looked at. Default 1 min.
	SnapshotInterval time.Duration

	Logger *slog.Logger
}

// Server is one member of the initial cluster.
type Server struct{ Node, Address string }

// Timeouts are the durations of a node. A zero one takes its default.
type Timeouts struct {
	// Heartbeat is how long a follower waits for its leader before it starts an
	// election. Heartbeats queue behind disk writes. Default 2 s; across regions 5 s.
	Heartbeat time.Duration
	// Election is how long a candidate waits before it tries again. Default Heartbeat.
	Election time.Duration
	// LeaderLease is how long a leader goes on without hearing of a quorum; at
	// most Heartbeat. Default half of Heartbeat.
	LeaderLease time.Duration
	// Commit is how long a leader waits before it tells followers what is
	// committed when nothing else is sent. Default 50 ms.
	Commit time.Duration
	// Apply is how long a proposal or a check may take before its outcome counts
	// as unknown. Default 5 s.
	Apply time.Duration
	// Stall ends the node when one disk write, or one proposal of a node that
	// leads all the while, takes longer. Default 5 times Heartbeat, at least 10 s.
	Stall time.Duration
	// Transfer bounds the hand-over of leadership at exit, and then the shut-down. Default 5 s.
	Transfer time.Duration
}

// WithDefaults returns t with the defaults in place of zeros.
func (t Timeouts) WithDefaults() Timeouts {
	or := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	or(&t.Heartbeat, 2*time.Second)
	or(&t.Election, t.Heartbeat)
	or(&t.LeaderLease, t.Heartbeat/2)
	or(&t.Commit, 50*time.Millisecond)
	or(&t.Apply, 5*time.Second)
	or(&t.Stall, max(5*t.Heartbeat, 10*time.Second))
	or(&t.Transfer, 5*time.Second)
	return t
}

// Validate returns all problems of t, joined.
func (t Timeouts) Validate() error {
	t = t.WithDefaults()
	var problems []error
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"heartbeat", t.Heartbeat}, {"election", t.Election}, {"leader-lease", t.LeaderLease},
		{"commit", t.Commit}, {"apply", t.Apply}, {"stall", t.Stall}, {"transfer", t.Transfer},
	} {
		if d.d < 5*time.Millisecond {
			problems = append(problems, fmt.Errorf("%s timeout: %s is below 5ms", d.name, d.d))
		}
	}
	if t.LeaderLease > t.Heartbeat {
		problems = append(problems, fmt.Errorf("leader-lease timeout: %s is above the heartbeat timeout %s; two nodes would lead", t.LeaderLease, t.Heartbeat))
	}
	if t.Election < t.Heartbeat {
		problems = append(problems, fmt.Errorf("election timeout: %s is below the heartbeat timeout %s", t.Election, t.Heartbeat))
	}
	return errors.Join(problems...)
}

// ErrCluster means that a list of nodes is not one.
var ErrCluster = errors.New("invalid initial cluster")

// ParseCluster reads a list like "n1=host1:7601,n2=host2:7601,n3=host3:7601",
// and returns it sorted by node.
func ParseCluster(list string) ([]Server, error) {
	var out []Server
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrCluster}, args...)...))
	}
	for _, part := range strings.Split(list, ",") {
		node, addr, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || node == "" {
			bad("%q is not NODE=HOST:PORT", part)
			continue
		}
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" || port == "0" {
			bad("address %q of node %s is not HOST:PORT", addr, node)
			continue
		}
		if slices.ContainsFunc(out, func(s Server) bool { return s.Node == node || s.Address == addr }) {
			bad("node %s or address %s is listed twice", node, addr)
			continue
		}
		out = append(out, Server{node, addr})
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	slices.SortFunc(out, func(a, b Server) int { return strings.Compare(a.Node, b.Node) })
	return out, nil
}

// clusterText is the one form in which lists are compared.
func clusterText(servers []Server) string {
	parts := make([]string, 0, len(servers))
	for _, s := range servers {
		parts = append(parts, s.Node+"="+s.Address)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func (c Config) withDefaults() (Config, error) {
	c.Timeouts = c.Timeouts.WithDefaults()
	if err := c.Timeouts.Validate(); err != nil {
		return c, err
	}
	i := slices.IndexFunc(c.InitialCluster, func(s Server) bool { return s.Node == c.Node })
	if i < 0 {
		return c, fmt.Errorf("%w: node %q is not in the list %q", ErrCluster, c.Node, clusterText(c.InitialCluster))
	}
	if c.Advertise == "" {
		c.Advertise = c.InitialCluster[i].Address
	}
	if (c.ServerTLS == nil) != (c.ClientTLS == nil) {
		return c, errors.New("raft TLS needs both a server and a client configuration")
	}
	if c.BootstrapWait == 0 {
		c.BootstrapWait = 5 * time.Second
	}
	if c.SnapshotThreshold == 0 {
		c.SnapshotThreshold = 4096
	}
	if c.SnapshotInterval == 0 {
		c.SnapshotInterval = time.Minute
	}
	if c.Cluster == nil {
		c.Cluster = func() string { return "" }
	}
	if c.Dial == nil {
		c.Dial = net.DialTimeout
	}
	if c.Listen == nil {
		c.Listen = net.Listen
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
