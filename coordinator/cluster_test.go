package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const document = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 100}
  - key: login
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: even
    rate_limit: {unit: second, requests_per_unit: 10, quota: {algorithm: leaky_bucket, shape: true}}
  - key: free
    rate_limit: {unlimited: true}
`

const ada = quota.Key("api|user=ada")

// network is the wires between the nodes of a test; a node that is cut neither
// reaches nor is reached by other nodes. Agents reach it still.
type network struct {
	mu    sync.Mutex
	cut   map[string]bool // by raft address
	conns map[*wire]bool
}

type wire struct {
	net.Conn
	from, to string
	network  *network
}

func (w *wire) Close() error {
	w.network.mu.Lock()
	delete(w.network.conns, w)
	w.network.mu.Unlock()
	return w.Conn.Close()
}

func (n *network) dialer(from string) func(string, string, time.Duration) (net.Conn, error) {
	return func(network, to string, timeout time.Duration) (net.Conn, error) {
		n.mu.Lock()
		dead := n.cut[from] || n.cut[to]
		n.mu.Unlock()
		if dead {
			return nil, errors.New("wire is cut")
		}
		c, err := net.DialTimeout(network, to, timeout)
		if err != nil {
			return nil, err
		}
		w := &wire{c, from, to, n}
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.cut[from] || n.cut[to] { // while it was dialed
			c.Close()
			return nil, errors.New("wire is cut")
		}
		n.conns[w] = true
		return w, nil
	}
}

func (n *network) set(address string, cut bool) {
	n.mu.Lock()
	n.cut[address] = cut
	var broken []*wire
	for w := range n.conns {
		if cut && (w.from == address || w.to == address) {
			broken = append(broken, w)
		}
	}
	n.mu.Unlock()
	for _, w := range broken {
		w.Close()
	}
}

type member struct {
	cfg    Config
	node   *Node
	cancel context.CancelFunc
	done   chan error
}

type cluster struct {
	t       *testing.T
	timing  quota.Timing
	network *network
	members []*member
}

// ports numbers the clusters of this process, so that none meets another's nodes.
var ports = struct {
	sync.Mutex
	next int
}{next: 21000}

// newCluster starts nodes n1…nN with the regions eu and us.
func newCluster(t *testing.T, size int, change ...func(*Config)) *cluster {
	t.Helper()
	ports.Lock()
	ports.next += 3
	port := ports.next
	ports.Unlock()
	pid := os.Getpid()
	// A loopback address that no other test process uses.
	host := func(i int) string { return fmt.Sprintf("127.%d.%d.%d", 1+pid>>8&0x7f, pid&0xff, 101+i) }
	timing := quota.Timing{
		TTL: 2 * time.Second, Guard: 300 * time.Millisecond, Delta: 50 * time.Millisecond, RhoPPM: 10_000,
		Answer: time.Second, Tick: 200 * time.Millisecond,
	}
	c := &cluster{t: t, timing: timing, network: &network{cut: map[string]bool{}, conns: map[*wire]bool{}}}
	var list []string
	for i := range size {
		list = append(list, fmt.Sprintf("n%d=%s:%d", i+1, host(i), port))
	}
	dir := t.TempDir()
	for i := range size {
		raftAddr := fmt.Sprintf("%s:%d", host(i), port)
		m := &member{cfg: Config{
			Node: fmt.Sprintf("n%d", i+1), DataDir: filepath.Join(dir, fmt.Sprintf("n%d", i+1)),
			RaftAddr: raftAddr, GRPCAddr: fmt.Sprintf("%s:%d", host(i), port+1), AdminAddr: fmt.Sprintf("%s:%d", host(i), port+2),
			InitialCluster: strings.Join(list, ","), Regions: map[string]int64{"eu": 1, "us": 1},
			Timing: timing, RaftTimeouts: RaftTimeouts{
				Heartbeat: 200 * time.Millisecond, Commit: 10 * time.Millisecond, Apply: time.Second, Transfer: 2 * time.Second,
			},
			RulesPoll: 200 * time.Millisecond, Drain: time.Second, DialRaft: c.network.dialer(raftAddr), Version: "test",
			Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		}}
		for _, f := range change {
			f(&m.cfg)
		}
		c.members = append(c.members, m)
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			c.stop(m)
		}
	})
	c.start(c.members...)
	return c
}

// testWriter drops what is logged once the test is over.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Logf("%s", bytes.TrimSpace(b))
	}
	return len(b), nil
}

func (c *cluster) start(members ...*member) {
	c.t.Helper()
	for _, m := range members {
		m.cfg.Registerer = prometheus.NewRegistry()
		node, err := New(m.cfg)
		if err != nil {
			c.t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		m.node, m.cancel, m.done = node, cancel, make(chan error, 1)
		go func() { m.done <- node.Run(ctx) }()
	}
	for _, m := range members {
		eventually(c.t, m.cfg.Node+" starts", func() bool {
			select {
			case err := <-m.done:
				c.t.Fatalf("run %s: %v", m.cfg.Node, err)
			default:
			}
			return m.node.opened.Load()
		})
	}
}

func (c *cluster) stop(m *member) error {
	if m.node == nil {
		return nil
	}
	m.cancel()
	err := <-m.done
	m.node = nil
	return err
}

// kill ends a node without letting it say goodbye to the other nodes.
func (c *cluster) kill(m *member) {
	c.network.set(m.cfg.RaftAddr, true)
	c.stop(m)
	c.network.set(m.cfg.RaftAddr, false)
}

func (c *cluster) endpoints() (all []string) {
	for _, m := range c.members {
		all = append(all, m.cfg.GRPCAddr)
	}
	return all
}

// eventually polls until ok, and fails the test after a while.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// leader waits for the node that serves a term and can prove that it leads.
func (c *cluster) leader(except ...*member) *member {
	c.t.Helper()
	var found *member
	eventually(c.t, "a leader", func() bool {
		for _, m := range c.members {
			if m.node == nil || len(except) > 0 && m == except[0] {
				continue
			}
			if t := m.node.serving.Load(); t != nil {
				if _, err := t.verify(context.Background()); err == nil {
					found = m
					return true
				}
			}
		}
		return false
	})
	return found
}

func (c *cluster) followers(of *member) (out []*member) {
	for _, m := range c.members {
		if m != of {
			out = append(out, m)
		}
	}
	return out
}

// admin returns a client of one node's Admin service.
func admin(t *testing.T, m *member) quoratev1.AdminClient {
	t.Helper()
	conn, err := grpc.NewClient(m.cfg.GRPCAddr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return quoratev1.NewAdminClient(conn)
}

// rules applies documents at whoever leads.
func (c *cluster) rules(text string) *quoratev1.ApplyRulesResponse {
	c.t.Helper()
	var resp *quoratev1.ApplyRulesResponse
	eventually(c.t, "apply rules", func() (ok bool) {
		var err error
		resp, err = admin(c.t, c.leader()).ApplyRules(context.Background(), &quoratev1.ApplyRulesRequest{
			Sources: []*quoratev1.Source{{Name: "api.yaml", Text: text}},
		})
		return err == nil
	})
	return resp
}

// agree waits until all running nodes have the same state at the same index, and
// returns the number of stamps that were compared on the way.
func (c *cluster) agree() {
	c.t.Helper()
	eventually(c.t, "all nodes agree", func() bool {
		var first *member
		for _, m := range c.members {
			if m.node == nil {
				continue
			}
			if first == nil {
				first = m
				continue
			}
			last := first.node.fsm.Last()
			hash, ok := m.node.fsm.Hash(last.Index)
			if !ok {
				return false
			}
			if hash != last.Hash {
				c.t.Fatalf("%s and %s differ at index %d", first.cfg.Node, m.cfg.Node, last.Index)
			}
		}
		return true
	})
}
