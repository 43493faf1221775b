package raftnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Check is a proof of leadership: this node led Term at some moment after
// Started, so no other node had been elected for a later term before it.
type Check struct {
	Started time.Time
	Term    uint64
}

// verifier runs one check at a time. Whoever asks while one runs shares the
// next: the running one may have started before the question arrived.
type verifier struct {
	mu      sync.Mutex
	running bool
	next    *round
}

type round struct {
	check Check
	err   error
	done  chan struct{}
}

// Verify proves that this node still leads, by a check that starts after the
// call. All calls that wait share one check. It fails with ErrNotLeader.
func (n *Node) Verify(ctx context.Context) (Check, error) {
	v := &n.verifier
	v.mu.Lock()
	if v.next == nil {
		v.next = &round{done: make(chan struct{})}
	}
	r := v.next
	if !v.running {
		v.running = true
		go n.runChecks() // ends when nobody waits
	}
	v.mu.Unlock()
	select {
	case <-r.done:
		return r.check, r.err
	case <-ctx.Done():
		return Check{}, fmt.Errorf("verify leadership: %w: %w", ErrNotLeader, ctx.Err())
	}
}

func (n *Node) runChecks() {
	v := &n.verifier
	for {
		v.mu.Lock()
		r := v.next
		v.next = nil
		if r == nil {
			v.running = false
			v.mu.Unlock()
			return
		}
		v.mu.Unlock()
		r.check, r.err = n.check()
		close(r.done)
	}
}

// check asks raft, which sends a heartbeat to every follower at once, and then
// waits for answers to messages that were sent after the start. Raft alone
// would also count an answer that was on its way already: after a long pause of
// this process, to a question from before the next leader's election.
func (n *Node) check() (Check, error) {
	c := Check{Started: time.Now(), Term: n.raft.CurrentTerm()}
	deadline := time.NewTimer(n.cfg.Timeouts.Apply)
	defer deadline.Stop()
	_, lost := n.Leadership()
	if !n.Leads(c.Term) {
		return Check{}, fmt.Errorf("verify leadership: %w", ErrNotLeader)
	}
	asked := make(chan error, 1)
	go func() { asked <- n.raft.VerifyLeader().Error() }() // ends with the future
	for asked != nil {
		select {
		case err := <-asked:
			if err != nil {
				return Check{}, fmt.Errorf("verify leadership: %w: %w", ErrNotLeader, err)
			}
			asked = nil
		case <-deadline.C:
			return Check{}, fmt.Errorf("verify leadership: %w: no quorum answered in time", ErrNotLeader)
		}
	}
	for {
		ok, changed := n.trans.acks.quorum(raft.ServerID(n.cfg.Node), n.voters(), c.Term, c.Started)
		if !n.Leads(c.Term) {
			return Check{}, fmt.Errorf("verify leadership: %w: it was lost during the check", ErrNotLeader)
		}
		if ok {
			return c, nil
		}
		select {
		case <-changed:
		case <-lost:
			_, lost = n.Leadership()
		case <-deadline.C:
			return Check{}, fmt.Errorf("verify leadership: %w: no quorum answered in time", ErrNotLeader)
		}
	}
}
