package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/fsm"
	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/planner"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/raftnode"
	"github.com/quorate/quorate/coordinator/rpc"
)

// term is one term that this node leads and serves.
type term struct {
	node   *Node
	number uint64
	start  time.Time    // the zero of its time
	began  quota.Micros // when it began to serve
	kick   chan struct{}

	mu       sync.Mutex // guards the rest; taken before the FSM's lock
	memory   *planner.Term
	headroom headroom
}

// newTerm starts the time of a term. The barrier must be past.
func newTerm(n *Node, number uint64) *term {
	return &term{node: n, number: number, start: time.Now(), kick: make(chan struct{}, 1)}
}

// remember starts the leader's memory, before anybody else sees the term.
func (t *term) remember() {
	t.with(func(now quota.Micros, l *ledger.Ledger) {
		t.began, t.memory = now, planner.NewTerm(now, t.number, l, t.node.cfg.Planner)
	})
}

// now is the time since the term began, on the monotonic clock.
func (t *term) now() quota.Micros { return quota.MicrosOf(time.Since(t.start)) }

// hurry makes the next round begin.
func (t *term) hurry() {
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// with calls f with the time, the ledger and exclusive use of the memory.
func (t *term) with(f func(now quota.Micros, l *ledger.Ledger)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.node.fsm.View(func(l *ledger.Ledger) { f(t.now(), l) })
}

func (t *term) next() (ops []ledger.Op, wake quota.Micros, propose bool) {
	t.with(func(now quota.Micros, l *ledger.Ledger) { ops, wake, propose = t.memory.Next(now, l) })
	return ops, wake, propose
}

func (t *term) done(ops []ledger.Op, errs []error) {
	t.with(func(now quota.Micros, l *ledger.Ledger) { t.memory.Done(now, l, ops, errs) })
}

// push hands new assignments and configurations to the streams of their agents.
func (t *term) push() {
	var all []planner.Push
	t.with(func(now quota.Micros, l *ledger.Ledger) { all = t.memory.Push(now, l) })
	for _, p := range all {
		t.node.rpc.Push(p.Region, p.Agent, p.SyncResponse)
	}
}

// wait waits until something changes, at the latest until wake, and then a
// little for what changes at the same time.
func (t *term) wait(ctx context.Context, wake quota.Micros) {
	timer := time.NewTimer(max((wake - t.now()).Duration(), gather))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-t.kick:
		pause(ctx, gather)
	}
}

// commit proposes operations and returns their outcome once they are applied.
// With an error, nothing is known of them but what it says: not applied, unknown,
// or that this term is over. What does not fit one entry is committed in several.
func (t *term) commit(ctx context.Context, ops []ledger.Op) (res ledger.Result, err error) {
	started := time.Now()
	data, err := fsm.Encode(ledger.Batch{Term: t.number, At: t.now(), Ops: ops})
	if errors.Is(err, fsm.ErrTooLarge) && len(ops) > 1 {
		half := len(ops) / 2
		first, err := t.commit(ctx, ops[:half])
		if err != nil {
			return res, err
		}
		if res, err = t.commit(ctx, ops[half:]); err != nil {
			return res, err
		}
		res.Errs, res.Changed = append(first.Errs, res.Errs...), res.Changed || first.Changed
		return res, nil
	}
	if err != nil {
		return res, fmt.Errorf("%w: %w", rpc.ErrTooLarge, err)
	}
	m := t.node.metrics
	applied, err := t.node.raft.Propose(ctx, data)
	switch {
	case errors.Is(err, raftnode.ErrNotApplied):
		m.proposals.WithLabelValues(outcomeNotApplied).Inc()
		return res, fmt.Errorf("%w: %w", rpc.ErrNotApplied, err)
	case err != nil:
		m.proposals.WithLabelValues(outcomeUnknown).Inc()
		return res, fmt.Errorf("%w: %w", rpc.ErrUnknown, err)
	}
	res = applied.(ledger.Result)
	if res.Refused != nil {
		m.proposals.WithLabelValues(outcomeRefused).Inc()
		return res, fmt.Errorf("%w: %w", rpc.ErrNotLeader, res.Refused)
	}
	m.proposals.WithLabelValues(outcomeApplied).Inc()
	m.commitSeconds.Observe(time.Since(started).Seconds())
	m.operations(res.Errs)
	return res, nil
}

// verify proves that this node led this term at some moment after the call.
func (t *term) verify(ctx context.Context) (checked quota.Micros, err error) {
	check, err := t.node.raft.Verify(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("%w: %w", rpc.ErrNotLeader, err)
	case check.Term != t.number:
		return 0, fmt.Errorf("%w: term %d is over", rpc.ErrNotLeader, t.number)
	}
	return quota.MicrosOf(check.Started.Sub(t.start)), nil
}

// sync answers one request: commit what must be, check the leadership, answer.
func (t *term) sync(ctx context.Context, req quota.SyncRequest, fresh bool) (resp quota.SyncResponse, err error) {
	var before []ledger.Op
	t.with(func(now quota.Micros, l *ledger.Ledger) { before = t.memory.Receive(now, l, req) })
	t.hurry()
	if len(before) > 0 {
		res, err := t.commit(ctx, before)
		t.done(before, res.Errs)
		if errors.Is(err, rpc.ErrNotLeader) {
			return resp, err
		}
		// Otherwise the answer says busy if it was needed and is not there.
	}
	checked, err := t.verify(ctx)
	if err != nil {
		return resp, err
	}
	t.with(func(now quota.Micros, l *ledger.Ledger) {
		resp = t.memory.Answer(now, checked, l, req)
		if resp.Refusal == nil {
			t.headroom.report(now, l, req, fresh)
		}
	})
	t.hurry()
	return resp, nil
}

// report takes what an agent says while it waits for an answer.
func (t *term) report(req quota.SyncRequest) {
	t.with(func(now quota.Micros, l *ledger.Ledger) {
		t.memory.Report(now, l, req)
		t.headroom.report(now, l, req, false)
	})
	t.hurry()
}
