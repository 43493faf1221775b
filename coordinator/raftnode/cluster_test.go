package raftnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// list is an FSM that keeps the entries it was given, as text, each once: the
// tests propose again when an outcome is unknown.
type list struct {
	mu      sync.Mutex
	entries []string
}

func (l *list) Apply(log *raft.Log) any {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.entries, string(log.Data)) {
		l.entries = append(l.entries, string(log.Data))
	}
	return len(l.entries)
}

func (l *list) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.entries)
}

func (l *list) Snapshot() (raft.FSMSnapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b bytes.Buffer
	for _, e := range l.entries {
		b.WriteString(e + "\n")
	}
	return listSnapshot(b.Bytes()), nil
}

func (l *list) Restore(r io.ReadCloser) error {
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
	for line := range bytes.Lines(data) {
		l.entries = append(l.entries, string(bytes.TrimSpace(line)))
	}
	return nil
}

type listSnapshot []byte

func (s listSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := sink.Write(s); err != nil {
		sink.Cancel()
		return err
	}
	return sink.Close()
}
func (listSnapshot) Release() {}

// network is the wires between the nodes of a test: a node that is cut neither
// reaches nor is reached, and its connections break.
type network struct {
	mu    sync.Mutex
	cut   map[string]bool // by address
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

// host is a loopback address that no other test process uses.
func host(i int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 1+pid>>8&0x7f, pid&0xff, 1+i)
}

type member struct {
	cfg    Config
	list   *list
	node   *Node
	cancel context.CancelFunc
	done   chan error
}

type cluster struct {
	t       *testing.T
	network *network
	id      string
	members []*member
}

var short = Timeouts{Heartbeat: 200 * time.Millisecond, Apply: time.Second, Transfer: 2 * time.Second, Commit: 10 * time.Millisecond}

var ports = struct {
	sync.Mutex
	next int
}{next: 20000}

// newCluster starts nodes n1…nN.
func newCluster(t *testing.T, size int, change ...func(*Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, network: &network{cut: map[string]bool{}, conns: map[*wire]bool{}}}
	ports.Lock()
	ports.next++
	port := ports.next
	ports.Unlock()
	var servers []Server
	for i := range size {
		servers = append(servers, Server{fmt.Sprintf("n%d", i+1), fmt.Sprintf("%s:%d", host(i), port)})
	}
	dir := t.TempDir()
	for _, s := range servers {
		m := &member{cfg: Config{
			Node: s.Node, DataDir: filepath.Join(dir, s.Node), Bind: s.Address, InitialCluster: servers, Timeouts: short,
			Cluster: func() string { return c.id }, Dial: c.network.dialer(s.Address),
			SnapshotThreshold: 20, SnapshotInterval: 100 * time.Millisecond,
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

// start opens nodes at the same time, as they wait for each other.
func (c *cluster) start(members ...*member) {
	c.t.Helper()
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() {
			m.list = &list{}
			m.cfg.FSM = m.list
			node, err := Open(m.cfg)
			if err != nil {
				c.t.Errorf("open %s: %v", m.cfg.Node, err)
				return
			}
			ctx, cancel := context.WithCancel(context.Background())
			m.node, m.cancel, m.done = node, cancel, make(chan error, 1)
			go func() { m.done <- node.Run(ctx) }()
		})
	}
	wg.Wait()
	if c.t.Failed() {
		c.t.FailNow()
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

// kill ends a node without letting it say goodbye.
func (c *cluster) kill(m *member) {
	c.network.set(m.cfg.Bind, true)
	c.stop(m)
	c.network.set(m.cfg.Bind, false)
}

// eventually polls until ok, and fails the test after a while.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// leader waits for a leader among the running nodes that can prove it.
func (c *cluster) leader(except ...*member) *member {
	c.t.Helper()
	var found *member
	eventually(c.t, "a leader", func() bool {
		for _, m := range c.members {
			if m.node == nil || len(except) > 0 && m == except[0] {
				continue
			}
			if now, _ := m.node.Leadership(); now.Leading {
				if _, err := m.node.Verify(context.Background()); err == nil {
					found = m
					return true
				}
			}
		}
		return false
	})
	return found
}

func (c *cluster) followers(of *member) []*member {
	var out []*member
	for _, m := range c.members {
		if m != of {
			out = append(out, m)
		}
	}
	return out
}

// propose proposes until it is known to be applied.
func (c *cluster) propose(entry string) {
	c.t.Helper()
	eventually(c.t, "apply "+entry, func() bool {
		_, err := c.leader().node.Propose(context.Background(), []byte(entry))
		return err == nil
	})
}

func (c *cluster) agree(want string) {
	c.t.Helper()
	eventually(c.t, "all nodes have "+want, func() bool {
		for _, m := range c.members {
			if m.node != nil && m.list.text() != want {
				return false
			}
		}
		return true
	})
}
