package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// transport is raft's network transport without the heartbeat fast path
// (hashicorp/raft#695), and with a record of which messages were answered.
type transport struct {
	*raft.NetworkTransport
	acks *acks
}

// SetHeartbeatHandler does nothing: all messages go through raft's main loop.
func (transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntries also records when a message was sent that a follower of this
// term has acknowledged. Heartbeats come this way.
func (t transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	sent := time.Now()
	err := t.NetworkTransport.AppendEntries(id, target, req, resp)
	if err == nil && resp.Success {
		t.acks.add(id, req.Term, sent)
	}
	return err
}

// acks is, per follower, the latest moment at which a message was sent that the
// follower acknowledged as one of its leader's.
type acks struct {
	mu      sync.Mutex
	last    map[raft.ServerID]ack
	changed chan struct{}
}

type ack struct {
	term uint64
	sent time.Time
}

func newAcks() *acks {
	return &acks{last: map[raft.ServerID]ack{}, changed: make(chan struct{})}
}

func (a *acks) add(id raft.ServerID, term uint64, sent time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.last[id]; term > old.term || term == old.term && sent.After(old.sent) {
		a.last[id] = ack{term, sent}
		close(a.changed)
		a.changed = make(chan struct{})
	}
}

// quorum reports whether a majority of the voters, this node included, has
// acknowledged a message of term that was sent after start. Otherwise changed
// is closed when it is worth asking again.
func (a *acks) quorum(self raft.ServerID, voters []raft.ServerID, term uint64, start time.Time) (ok bool, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, id := range voters {
		if got := a.last[id]; id == self || got.term == term && got.sent.After(start) {
			n++
		}
	}
	return n > len(voters)/2, a.changed
}
