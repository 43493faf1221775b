package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/rpc"
)

const (
	// gather is how long a round waits after something has changed, for what
	// changes at the same time to go into the same entry.
	gather = 3 * time.Millisecond
	// retry is the pause after a proposal that failed.
	retry = 50 * time.Millisecond
)

// lead serves every term that this node leads, one after the other, until ctx
// ends. It fails when the node leads but a term cannot begin: somebody else must
// lead then.
func (n *Node) lead(ctx context.Context) error {
	for ctx.Err() == nil {
		now, changed := n.raft.Leadership()
		if now.Leading {
			termCtx, cancel := context.WithCancel(ctx)
			go func() { // until the leadership changes, or the term has ended by itself
				defer cancel()
				select {
				case <-changed:
				case <-termCtx.Done():
				}
			}()
			err := n.serveTerm(termCtx, now.Term)
			cancel()
			if err != nil {
				return fmt.Errorf("begin term %d: %w", now.Term, err)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-time.After(retry): // a term may end before the change is announced
		}
	}
	return nil
}

// serveTerm begins a term and runs its rounds until it ends.
func (n *Node) serveTerm(ctx context.Context, number uint64) error {
	t, err := n.begin(ctx, number)
	if t == nil {
		return err
	}
	n.setTerm(t)
	n.metrics.terms.Inc()
	n.log.Info("leading", slog.Uint64("term", number), slog.String("node", n.cfg.Node))
	t.rounds(ctx)
	n.setTerm(nil)
	n.rpc.EndStreams(rpc.ErrNotLeader)
	n.log.Info("no longer leading", slog.Uint64("term", number), slog.String("node", n.cfg.Node))
	return nil
}

// begin waits until everything that older leaders committed is applied here, and
// publishes where this node serves. It returns nil when the leadership is lost
// meanwhile, and an error when the node leads on and yet cannot commit.
func (n *Node) begin(ctx context.Context, number uint64) (*term, error) {
	patience := time.Now().Add(n.cfg.RaftTimeouts.Stall)
	for ctx.Err() == nil && n.raft.Leads(number) {
		t, err := n.tryBegin(ctx, number)
		if err == nil {
			return t, nil
		}
		n.log.Warn("term cannot begin yet", slog.Uint64("term", number), slog.Any("error", err))
		if time.Now().After(patience) && n.raft.Leads(number) {
			return nil, err
		}
		pause(ctx, retry)
	}
	return nil, nil
}

func (n *Node) tryBegin(ctx context.Context, number uint64) (*term, error) {
	barrier, cancel := context.WithTimeout(ctx, n.cfg.RaftTimeouts.Apply)
	defer cancel()
	if err := n.raft.Barrier(barrier); err != nil {
		return nil, err
	}
	if !n.raft.Leads(number) {
		return nil, rpc.ErrNotLeader
	}
	t := newTerm(n, number)
	ops := []ledger.Op{ledger.Lead{Node: n.cfg.Node, Address: n.cfg.GRPCAdvertise}}
	if n.cluster() == "" {
		ops = append(ops, ledger.Found{Cluster: rand.Text(), Shares: n.cfg.shares()})
	}
	res, err := t.commit(ctx, ops)
	if err == nil {
		err = res.Errs[0]
	}
	if err != nil {
		return nil, err
	}
	t.remember()
	return t, nil
}

// rounds is the leader loop.
func (t *term) rounds(ctx context.Context) {
	for ctx.Err() == nil && t.node.raft.Leads(t.number) {
		ops, wake, propose := t.next()
		if !propose {
			t.push()
			t.wait(ctx, wake)
			continue
		}
		res, err := t.commit(ctx, ops)
		t.done(ops, res.Errs)
		t.push()
		switch {
		case errors.Is(err, rpc.ErrNotLeader):
			return
		case err != nil: // a transfer, or the outcome is unknown: plan again
			pause(ctx, retry)
		default:
			pause(ctx, gather)
		}
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
