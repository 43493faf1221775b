package raftnode

import (
	"context"
	"sync"

	"github.com/hashicorp/raft"
)

// Leadership says whether this node leads, and which term.
type Leadership struct {
	Leading bool
	Term    uint64
}

type leadership struct {
	mu      sync.Mutex
	now     Leadership
	changed chan struct{}
}

// Leadership returns the present state and a channel that is closed at the next
// change, which may also be from one term that this node leads to another.
func (n *Node) Leadership() (Leadership, <-chan struct{}) {
	n.leadership.mu.Lock()
	defer n.leadership.mu.Unlock()
	return n.leadership.now, n.leadership.changed
}

// watchLeadership only stores what raft says: anything slower here could make
// raft's main loop wait. Run stops it.
func (n *Node) watchLeadership(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case leading := <-n.raft.LeaderCh():
			now := Leadership{Leading: leading, Term: n.raft.CurrentTerm()}
			n.leadership.mu.Lock()
			n.leadership.now = now
			close(n.leadership.changed)
			n.leadership.changed = make(chan struct{})
			n.leadership.mu.Unlock()
		}
	}
}

// Leads reports whether this node still takes itself for the leader of term.
// It may be mistaken: Verify tells.
func (n *Node) Leads(term uint64) bool {
	return n.raft.State() == raft.Leader && n.raft.CurrentTerm() == term
}

// Status is what a node says of itself.
type Status struct {
	Node string
	// Role is leader, follower, candidate or stopped.
	Role string
	// Leader is the leader's node as far as this one knows, else "".
	Leader                string
	Term, Commit, Applied uint64
	Servers               []Member
}

// Member is a server of the present configuration.
type Member struct {
	Node, Address string
	Voter         bool
}

// Status returns the node's view; it asks nobody.
func (n *Node) Status() Status {
	_, leader := n.raft.LeaderWithID()
	s := Status{
		Node: n.cfg.Node, Leader: string(leader),
		Term: n.raft.CurrentTerm(), Commit: n.raft.CommitIndex(), Applied: n.raft.AppliedIndex(),
	}
	switch n.raft.State() {
	case raft.Leader:
		s.Role = "leader"
	case raft.Candidate:
		s.Role = "candidate"
	case raft.Follower:
		s.Role = "follower"
	default:
		s.Role = "stopped"
	}
	for _, m := range n.servers() {
		s.Servers = append(s.Servers, Member{string(m.ID), string(m.Address), m.Suffrage == raft.Voter})
	}
	return s
}

func (n *Node) servers() []raft.Server {
	f := n.raft.GetConfiguration() // does not wait
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

func (n *Node) voters() []raft.ServerID {
	var out []raft.ServerID
	for _, m := range n.servers() {
		if m.Suffrage == raft.Voter {
			out = append(out, m.ID)
		}
	}
	return out
}

// addressOf returns where a node is known to live: a member of the present
// configuration, or, before this node has one, of the initial cluster.
func (n *Node) addressOf(node string) string {
	for _, m := range n.cfg.InitialCluster {
		if m.Node == node {
			return m.Address
		}
	}
	if r := n.ready.Load(); r != nil {
		for _, m := range n.servers() {
			if string(m.ID) == node {
				return string(m.Address)
			}
		}
	}
	return ""
}
