package fasttime

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/coordinator"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional"
)

// world is three coordinator nodes and the agents of some regions.
type world struct {
	t         *testing.T
	timeouts  coordinator.RaftTimeouts
	timing    quota.Timing // zero is the default
	network   *network     // who reaches whom
	transport transport
	nodes     []*node
	regions   map[string]*region
	log       log
	witness   *witness
	stops     []func() // of the loads that run
	// gone are the processes that were killed: a bubble cannot abandon their
	// goroutines, so they end on their own, unheard.
	gone []<-chan error
}

// node is a coordinator node; it runs unless end is nil.
type node struct {
	name string
	node *coordinator.Node
	cfg  coordinator.Config
	end  context.CancelFunc
	done chan error
}

// region is a region with its store and its agents.
type region struct {
	name   string
	redis  *redis
	agents []*agent
	killed []string
	made   int // agents, ever
	turn   int
}

type agent struct {
	*regional.Agent
	name   string
	region *region
	client *client
	end    context.CancelFunc
	done   chan error
}

// The regions of every world, and the nodes.
var (
	all   = []string{"ap", "eu", "us"}
	hosts = []string{"n1", "n2", "n3"}
)

const (
	// nodeLine and agentLine are the delays of a host's line: 2 ms between two
	// nodes, 21 ms from a region to a coordinator, one way.
	nodeLine  = time.Millisecond
	agentLine = 20 * time.Millisecond
	operator  = "operator"
)

// run makes a world with the rules in doc and one agent in each region, waits
// until all are connected, and plays a scenario. Afterwards it stops everything;
// the bubble then checks that no goroutine is left.
func run(t *testing.T, doc string, play func(w *world)) {
	t.Helper()
	runWith(t, doc, coordinator.RaftTimeouts{}, all, play)
}

// runWith is run with other Raft timeouts than the default ones, and with agents
// in some regions only.
func runWith(t *testing.T, doc string, timeouts coordinator.RaftTimeouts, started []string, play func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := newNetwork()
		w := newWorld(t, network, network)
		w.timeouts = timeouts
		defer w.close()
		w.begin(doc, started)
		play(w)
	})
}

func newWorld(t *testing.T, network *network, transport transport) *world {
	return &world{t: t, network: network, transport: transport, regions: map[string]*region{}, witness: newWitness(t)}
}

// begin starts everything and waits until all agents are connected.
func (w *world) begin(doc string, started []string) {
	dir := w.dir()
	for _, host := range hosts {
		w.addNode(host, filepath.Join(dir, host))
	}
	w.apply(doc)
	for _, name := range all {
		w.regions[name] = &region{name: name, redis: newRedis(name)}
	}
	for _, name := range started {
		w.addAgent(name)
	}
	w.within(20*time.Second, "all agents are connected", w.connected)
	w.log.begin()
}

// transport carries bytes between hosts.
type transport interface {
	listen(network, address string) (net.Listener, error)
	dial(ctx context.Context, from, address string) (net.Conn, error)
	// end is called when nothing runs any more, and returns when no goroutine is left.
	end()
}

// raftDialer dials as a Raft node does.
func (w *world) raftDialer(from string) func(_, address string, timeout time.Duration) (net.Conn, error) {
	return func(_, address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return w.transport.dial(ctx, from, address)
	}
}

// grpcDialer dials as an agent or an operator does.
func (w *world) grpcDialer(from string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		return w.transport.dial(ctx, from, address)
	}
}

// dir returns a directory in memory where the system has one: the nodes sync
// every entry to disk, a disk's time is real, and minutes are many entries.
func (w *world) dir() string {
	dir, err := os.MkdirTemp("/dev/shm", "quorate-fasttime-*")
	if err != nil {
		return w.t.TempDir()
	}
	w.t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// logger is silent unless FASTTIME_LOG is set: raft has much to say about links
// that are cut.
func (w *world) logger(who string) *slog.Logger {
	if os.Getenv("FASTTIME_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(logWriter{w.t}, nil)).With("who", who)
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(b))
	return len(b), nil
}

func (w *world) addNode(host, dir string) {
	w.network.slow(host, nodeLine)
	n := &node{name: host, cfg: coordinator.Config{
		Node: host, DataDir: dir, RaftAddr: host + ":7601", GRPCAddr: host + ":7600",
		InitialCluster: "n1=n1:7601,n2=n2:7601,n3=n3:7601", Regions: map[string]int64{"ap": 1, "eu": 1, "us": 1},
		Listen: w.transport.listen, DialRaft: w.raftDialer(host), RaftTimeouts: w.timeouts, Timing: w.timing,
		Logger: slog.New(w.witness.hear(host, w.logger(host).Handler())),
	}}
	w.nodes = append(w.nodes, n)
	w.start(n)
}

func (w *world) start(n *node) {
	w.t.Helper()
	n.cfg.Registerer = nil // a registry of its own
	c, err := coordinator.New(n.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	n.node, n.end, n.done = c, end, make(chan error, 1)
	go func() { n.done <- c.Run(ctx) }()
}

// kill ends a node without a word to anybody.
func (w *world) kill(n *node) {
	w.network.set(n.name, "", true)
	n.end()
	if err := <-n.done; err != nil {
		w.t.Errorf("node %s, cut off from the others, ended with %v", n.name, err)
	}
	n.end = nil
	w.network.set(n.name, "", false)
}

func (w *world) addAgent(name string) *agent {
	w.t.Helper()
	r := w.regions[name]
	r.made++
	a := &agent{name: fmt.Sprintf("%s-%d", name, r.made), region: r, client: &client{redis: r.redis}}
	w.network.slow(a.name, agentLine)
	var err error
	a.Agent, err = regional.New(regional.Config{
		Region: name, Agent: a.name, Coordinators: []string{"n1:7600", "n2:7600", "n3:7600"}, Store: a.client,
		HTTPAddr: a.name + ":8080", Listen: w.transport.listen, DialCoordinator: w.grpcDialer(a.name), Timing: w.timing,
		Clocks: func() (mono, boot, realtime quota.Micros) { return now(), now(), now() },
		Logger: w.logger(a.name),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	a.end, a.done = end, make(chan error, 1)
	go func() { a.done <- a.Run(ctx) }()
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	r.agents = append(r.agents, a)
	return a
}

// leave ends an agent properly and returns when it has gone.
func (w *world) leave(a *agent) {
	w.t.Helper()
	w.remove(a)
	a.end()
	if err := <-a.done; err != nil {
		w.t.Errorf("agent %s ended with %v", a.name, err)
	}
}

// killAgent ends an agent without a word to the coordinator or to the store.
func (w *world) killAgent(a *agent) {
	w.remove(a)
	w.network.set(a.name, "", true)
	a.client.kill()
	a.region.killed = append(a.region.killed, a.name)
	a.end()
	w.gone = append(w.gone, a.done)
}

func (w *world) remove(a *agent) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	a.region.agents = slices.DeleteFunc(a.region.agents, func(b *agent) bool { return a == b })
}

// cut separates a region from all coordinators, or joins it again.
func (w *world) cut(name string, cut bool) {
	for _, a := range w.regions[name].agents {
		w.network.set(a.name, "", cut)
	}
}

// close stops everything.
func (w *world) close() {
	for _, stop := range w.stops {
		stop()
	}
	for _, r := range w.regions {
		for _, a := range slices.Clone(r.agents) {
			w.leave(a)
		}
	}
	for _, done := range w.gone {
		<-done
	}
	for _, n := range w.nodes {
		if n.end != nil {
			n.end()
		}
	}
	for _, n := range w.nodes {
		if n.end == nil {
			continue
		}
		if err := <-n.done; err != nil {
			w.t.Errorf("node %s ended with %v", n.name, err)
		}
	}
	w.transport.end()
}

// connected reports whether every agent has a session that counts.
func (w *world) connected() error {
	for _, r := range w.regions {
		for _, a := range r.agents {
			if s := a.Status(); s.Phase != "connected" || len(a.NotReady()) > 0 {
				return fmt.Errorf("agent %s: %+v, not ready: %v", a.name, s, a.NotReady())
			}
		}
	}
	return nil
}

// within waits until ok returns nil, fails the test after limit, and returns how
// long it took.
func (w *world) within(limit time.Duration, what string, ok func() error) time.Duration {
	w.t.Helper()
	began := time.Now()
	for {
		err := ok()
		took := time.Since(began)
		if err == nil {
			return took
		}
		if took > limit {
			w.t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
