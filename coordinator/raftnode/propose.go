package raftnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

var (
	// ErrNotApplied means that a proposal has not been and will not be applied.
	ErrNotApplied = errors.New("proposal was not applied")
	// ErrUnknown means that nobody knows whether a proposal has been or will be
	// applied. Read the state and plan again.
	ErrUnknown = errors.New("outcome of the proposal is unknown")
	// ErrNotLeader means that this node does not lead, or cannot prove it now.
	ErrNotLeader = errors.New("this node does not lead")
	// ErrStalled means that this node led but could not commit; it ends.
	ErrStalled = errors.New("leader cannot commit")
)

// Propose appends an entry to the log and returns what the FSM answered once it
// was applied. Without an answer within ctx and the Apply timeout the outcome
// is ErrUnknown.
func (n *Node) Propose(ctx context.Context, entry []byte) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timeouts.Apply)
	defer cancel()
	term := n.raft.CurrentTerm()
	type outcome struct {
		result any
		err    error
	}
	done := make(chan outcome, 1)
	// The goroutine ends with the future: at the latest when raft shuts down.
	go func() {
		// The canary: raft's own lease does not notice a leader that hears its
		// followers but cannot write, and it would be re-elected for ever.
		canary := time.AfterFunc(n.cfg.Timeouts.Stall, func() {
			if n.Leads(term) {
				n.fail(fmt.Errorf("%w: an entry has not been committed for %s though a quorum answers", ErrStalled, n.cfg.Timeouts.Stall))
			}
		})
		defer canary.Stop()
		f := n.raft.Apply(entry, n.cfg.Timeouts.Apply)
		if err := f.Error(); err != nil {
			done <- outcome{err: err}
			return
		}
		done <- outcome{result: f.Response()}
	}()
	select {
	case o := <-done:
		return o.result, classify(o.err)
	case <-ctx.Done():
		return nil, fmt.Errorf("propose: %w: %w", ErrUnknown, ctx.Err())
	}
}

// classify turns raft's error into what it says about the entry.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("propose: %w: %w", ErrNotApplied, err)
	}
	return fmt.Errorf("propose: %w: %w", ErrUnknown, err)
}

// Barrier returns once everything that was committed before it is applied to
// this node's FSM. A new leader must not serve before.
func (n *Node) Barrier(ctx context.Context) error {
	done := make(chan error, 1)
	// Ends with the future, like Propose's.
	go func() { done <- n.raft.Barrier(n.cfg.Timeouts.Apply).Error() }()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("barrier: %w: %w", ErrNotLeader, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("barrier: %w", ctx.Err())
	}
}
