package coordinator

import (
	"context"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rpc"
)

// A Node is all three ports of the gRPC services.
var (
	_ rpc.Leader = (*Node)(nil)
	_ rpc.State  = (*Node)(nil)
	_ rpc.Self   = (*Node)(nil)
)

func (n *Node) setTerm(t *term) {
	n.serving.Store(t)
	n.tellRules()
	n.tellHealth()
}

// present returns the term that this node serves.
func (n *Node) present() (*term, error) {
	if t := n.serving.Load(); t != nil {
		return t, nil
	}
	if now, _ := n.raft.Leadership(); now.Leading && !n.draining.Load() {
		return nil, rpc.ErrNotReady
	}
	return nil, rpc.ErrNotLeader
}

// Sync implements rpc.Leader.
func (n *Node) Sync(ctx context.Context, req quota.SyncRequest, fresh bool) (quota.SyncResponse, error) {
	t, err := n.present()
	if err != nil {
		return quota.SyncResponse{}, err
	}
	return t.sync(ctx, req, fresh)
}

// Report implements rpc.Leader.
func (n *Node) Report(req quota.SyncRequest) error {
	t, err := n.present()
	if err != nil {
		return err
	}
	t.report(req)
	return nil
}

// Gone implements rpc.Leader.
func (n *Node) Gone(region, agent string) {
	t, err := n.present()
	if err != nil {
		return
	}
	t.with(func(now quota.Micros, l *ledger.Ledger) { t.memory.Gone(now, region, agent) })
	t.hurry()
}

// Read implements rpc.State. The check comes after the reading: what was read
// was then the newest state at the time of the call.
func (n *Node) Read(ctx context.Context, read func(rpc.View)) error {
	t, err := n.present()
	if err != nil {
		return err
	}
	t.view(read)
	_, err = t.verify(ctx)
	return err
}

// view shows the state and the leader's memory.
func (t *term) view(read func(rpc.View)) {
	t.with(func(now quota.Micros, l *ledger.Ledger) {
		read(rpc.View{Ledger: l, Term: t.memory, Now: now, Began: t.began, Timing: t.node.cfg.Timing})
	})
}

// Edit implements rpc.State. What is committed stays so: the term may be over
// when it is answered.
func (n *Node) Edit(ctx context.Context, op ledger.Op, read func(rpc.View, ledger.Result)) error {
	t, err := n.present()
	if err != nil {
		return err
	}
	res, err := t.commit(ctx, []ledger.Op{op})
	t.hurry()
	if err == nil {
		err = res.Errs[0]
	}
	if err != nil {
		return err
	}
	t.view(func(v rpc.View) { read(v, res) })
	return nil
}

// Propose commits operations, and returns one error for each once they are
// applied. After rpc.ErrUnknown nobody knows the outcome.
func (n *Node) Propose(ctx context.Context, ops ...ledger.Op) ([]error, error) {
	t, err := n.present()
	if err != nil {
		return nil, err
	}
	res, err := t.commit(ctx, ops)
	t.hurry()
	return res.Errs, err
}

// Hint implements rpc.Self. The ledger says where its last leader serves; that
// counts only while Raft says that it leads still.
func (n *Node) Hint() rpc.Hint {
	h := rpc.Hint{Node: n.raft.Status().Leader}
	n.fsm.View(func(l *ledger.Ledger) {
		if l.Leader().Node == h.Node {
			h.Address = l.Leader().Address
		}
	})
	return h
}

// Status implements rpc.Self.
func (n *Node) Status() rpc.Status {
	r, hint, last := n.raft.Status(), n.Hint(), n.fsm.Last()
	s := rpc.Status{
		Node: r.Node, Role: r.Role, Leader: r.Leader, LeaderAddress: hint.Address,
		Term: r.Term, Applied: last.Index, Commit: r.Commit, Hash: last.Hash,
		Version: n.cfg.Version, Ready: n.ready() == nil,
	}
	n.fsm.View(func(l *ledger.Ledger) { s.Cluster, s.Accounts = l.Cluster(), l.Len() })
	for _, m := range r.Servers {
		s.Servers = append(s.Servers, rpc.Member{Node: m.Node, Address: m.Address, Voter: m.Voter})
	}
	if t := n.serving.Load(); t != nil {
		t.mu.Lock()
		s.Headroom, s.HeadroomOK = t.headroom.worst, t.headroom.seen
		t.mu.Unlock()
	}
	return s
}

// cluster returns the cluster id, "" before the cluster is founded.
func (n *Node) cluster() (id string) {
	n.fsm.View(func(l *ledger.Ledger) { id = l.Cluster() })
	return id
}
