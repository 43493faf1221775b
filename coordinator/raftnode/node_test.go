package raftnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestEntriesReachAllNodes(t *testing.T) {
	c := newCluster(t, 3)
	l := c.leader()
	res, err := l.node.Propose(context.Background(), []byte("a"))
	if err != nil || res != 1 {
		t.Fatalf("have %v, %v", res, err)
	}
	if err := l.node.Barrier(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.agree("[a]")
	for _, f := range c.followers(l) {
		if _, err := f.node.Propose(context.Background(), []byte("b")); !errors.Is(err, ErrNotApplied) {
			t.Errorf("propose at a follower: have %v, want %v", err, ErrNotApplied)
		}
		if _, err := f.node.Verify(context.Background()); !errors.Is(err, ErrNotLeader) {
			t.Errorf("verify at a follower: have %v, want %v", err, ErrNotLeader)
		}
		if s := f.node.Status(); s.Role != "follower" || s.Leader != l.cfg.Node || len(s.Servers) != 3 {
			t.Errorf("status of a follower: have %+v", s)
		}
	}
	c.agree("[a]")
}

// K80: restarts, with and without snapshots, lead to the same state.
func TestK80RestartsLeadToTheSameState(t *testing.T) {
	c := newCluster(t, 3)
	var all []string
	for i := range 60 { // three times the snapshot threshold
		all = append(all, fmt.Sprint(i))
		c.propose(fmt.Sprint(i))
	}
	want := fmt.Sprint(all)
	c.agree(want)
	for range 3 {
		for _, m := range c.members {
			if err := c.stop(m); err != nil {
				t.Fatalf("stop %s: %v", m.cfg.Node, err)
			}
		}
		c.start(c.members...)
		c.leader()
		c.agree(want)
	}
}

func TestAnotherNodeLeadsWhenTheLeaderDies(t *testing.T) {
	c := newCluster(t, 3)
	c.propose("a")
	old := c.leader()
	c.kill(old)
	c.propose("b")
	c.start(old)
	c.propose("c")
	c.agree("[a b c]")
}

// A stopped leader hands over, so that nobody waits for an election timeout.
func TestStoppedLeaderHandsOver(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.Timeouts.Heartbeat = 3 * time.Second; cfg.Timeouts.Apply = 5 * time.Second })
	old := c.leader()
	started := time.Now()
	if err := c.stop(old); err != nil {
		t.Fatal(err)
	}
	c.leader(old)
	if took := time.Since(started); took > 2500*time.Millisecond {
		t.Errorf("a new leader took %s, longer than an election needs to begin", took)
	}
}

func TestMajorityLossStopsAndReturnResumes(t *testing.T) {
	c := newCluster(t, 3)
	c.propose("a")
	l := c.leader()
	for _, f := range c.followers(l) {
		c.kill(f)
	}
	_, err := l.node.Propose(context.Background(), []byte("b"))
	if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotApplied) {
		t.Fatalf("propose without a majority: have %v", err)
	}
	if _, err := l.node.Verify(context.Background()); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("verify without a majority: have %v, want %v", err, ErrNotLeader)
	}
	c.start(c.followers(l)...)
	c.propose("c")
	eventually(t, "all nodes agree", func() bool {
		text := c.members[0].list.text()
		return strings.HasSuffix(text, " c]") && c.members[1].list.text() == text && c.members[2].list.text() == text
	})
}

// K79: a leader that is cut off cannot prove that it leads, from the first
// question on, though it may not have noticed.
func TestK79IsolatedLeaderCannotVerify(t *testing.T) {
	// A lease so long that raft itself goes on believing.
	c := newCluster(t, 3, func(cfg *Config) {
		cfg.Timeouts.Heartbeat, cfg.Timeouts.LeaderLease = time.Second, time.Second
	})
	old := c.leader()
	c.network.set(old.cfg.Bind, true)
	if _, err := old.node.Verify(context.Background()); !errors.Is(err, ErrNotLeader) {
		t.Errorf("verify when cut off: have %v, want %v", err, ErrNotLeader)
	}
	if _, err := old.node.Propose(context.Background(), []byte("lost")); err == nil {
		t.Error("a leader that is cut off committed")
	}
	c.leader(old)
	c.propose("a")
	c.network.set(old.cfg.Bind, false)
	c.agree("[a]")
}

func TestVerifyStartsAfterTheCall(t *testing.T) {
	c := newCluster(t, 3)
	l := c.leader()
	term := l.node.Status().Term
	for range 50 {
		called := time.Now()
		check, err := l.node.Verify(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if check.Started.Before(called) || check.Term != term {
			t.Fatalf("have a check of term %d from %s before the call, want term %d", check.Term, called.Sub(check.Started), term)
		}
	}
}

// An answer to a message from before the start proves nothing, nor does one of
// another term.
func TestOnlyAnswersToLaterMessagesCount(t *testing.T) {
	start := time.Now()
	voters := []raft.ServerID{"n1", "n2", "n3"}
	for _, tt := range []struct {
		reason string
		term   uint64
		sent   time.Duration
		want   bool
	}{
		{"sent before the check", 7, -time.Millisecond, false},
		{"sent at the very moment", 7, 0, false},
		{"sent after it", 7, time.Millisecond, true},
		{"sent after it in an older term", 6, time.Millisecond, false},
	} {
		a := newAcks()
		_, changed := a.quorum("n1", voters, 7, start)
		a.add("n2", tt.term, start.Add(tt.sent))
		if have, _ := a.quorum("n1", voters, 7, start); have != tt.want {
			t.Errorf("%s: have %v, want %v", tt.reason, have, tt.want)
		}
		select {
		case <-changed:
		default:
			t.Errorf("%s: nobody was told", tt.reason)
		}
	}
	if ok, _ := newAcks().quorum("n1", voters[:1], 7, start); !ok {
		t.Error("a single voter is its own quorum")
	}
	if ok, _ := newAcks().quorum("n4", voters, 7, start); ok {
		t.Error("a node that has no vote is no quorum")
	}
}

func TestSingleNodeLeads(t *testing.T) {
	c := newCluster(t, 1)
	c.propose("a")
	c.agree("[a]")
}

// A leader whose log cannot be written ends instead of leading on.
func TestWriteErrorEndsTheNode(t *testing.T) {
	c := newCluster(t, 3)
	c.propose("a")
	l := c.leader()
	l.node.bolt.Close()
	if _, err := l.node.Propose(context.Background(), []byte("b")); !errors.Is(err, ErrUnknown) {
		t.Errorf("propose: have %v, want %v", err, ErrUnknown)
	}
	if err := <-l.done; !errors.Is(err, ErrDisk) {
		t.Errorf("run: have %v, want %v", err, ErrDisk)
	}
	l.node = nil
	c.propose("c")
}

func TestSlowWriteIsReported(t *testing.T) {
	told := make(chan error, 2)
	release := make(chan struct{})
	g := guard{time.Millisecond, func(err error) { told <- err; close(release) }}
	if err := g.write("write", func() error { <-release; return nil }); err != nil {
		t.Error(err)
	}
	if err := <-told; !errors.Is(err, ErrDisk) {
		t.Errorf("have %v, want %v", err, ErrDisk)
	}
}

// A data directory that was lost does not found a second cluster.
func TestNodeWithEmptyDirectoryJoinsTheClusterThereIs(t *testing.T) {
	c := newCluster(t, 3)
	var all []string
	for i := range 60 { // so many that it needs a snapshot
		all = append(all, fmt.Sprint(i))
		c.propose(fmt.Sprint(i))
	}
	c.id = "c-1"
	f := c.followers(c.leader())[0]
	c.stop(f)
	if err := os.RemoveAll(f.cfg.DataDir); err != nil {
		t.Fatal(err)
	}
	c.start(f)
	if last := f.node.raft.LastIndex(); last == 1 {
		t.Error("the node bootstrapped again")
	}
	c.agree(fmt.Sprint(all))
}

// stuck is an FSM that stops applying until it is released.
type stuck struct {
	list
	release chan struct{}
}

func (s *stuck) Apply(log *raft.Log) any {
	<-s.release
	return s.list.Apply(log)
}

// The canary: a leader that hears its followers but gets nothing done ends, so
// that another one leads.
func TestLeaderThatGetsNothingDoneEnds(t *testing.T) {
	f := &stuck{release: make(chan struct{})}
	addr := host(20) + ":19999"
	timeouts := short
	timeouts.Stall, timeouts.Transfer = 500*time.Millisecond, 100*time.Millisecond
	n, err := Open(Config{Node: "n1", DataDir: t.TempDir(), Bind: addr, InitialCluster: []Server{{"n1", addr}}, Timeouts: timeouts, FSM: f})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- n.Run(context.Background()) }()
	eventually(t, "the node leads", func() bool { now, _ := n.Leadership(); return now.Leading })
	if _, err := n.Propose(context.Background(), []byte("a")); !errors.Is(err, ErrUnknown) {
		t.Errorf("propose: have %v, want %v", err, ErrUnknown)
	}
	if err := <-done; !errors.Is(err, ErrStalled) {
		t.Errorf("run: have %v, want %v", err, ErrStalled)
	}
	close(f.release)
	n.raft.Shutdown()
}
