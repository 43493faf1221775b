package rpc

import (
	"context"
	"errors"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/planner"
	"github.com/quorate/quorate/coordinator/quota"
)

// Leader is what the services ask of the node that leads. All methods are
// called concurrently, and fail with ErrNotLeader at a follower and with
// ErrNotReady at a leader whose term has not begun to serve.
type Leader interface {
	// Sync answers one request after a leadership check that began after the
	// call. Without an answer before ctx ends the request has renewed nothing.
	// Fresh says that req is the first of its stream: the agent may not know the
	// answer to the one before, and then repeats what it reported there.
	Sync(ctx context.Context, req quota.SyncRequest, fresh bool) (quota.SyncResponse, error)
	// Report takes a request that wants no answer (Seq 0). It renews nothing.
	Report(req quota.SyncRequest) error
	// Gone says that an agent's stream is closed.
	Gone(region, agent string)
}

// State gives access to the replicated state, at the leader only.
type State interface {
	// Read calls read with the state and the leader's memory, then checks that
	// this node led at some moment after the call. Nothing that read was given
	// may be used after it has returned.
	Read(ctx context.Context, read func(View)) error
	// Edit commits an operation and calls read with its outcome and with a state
	// that includes it; other edits may have followed already. It fails, without
	// calling read, in the ledger's words when the operation was refused, and with
	// ErrNotLeader, ErrNotReady or ErrNotApplied when it never will be applied.
	// After any other error nobody knows.
	Edit(ctx context.Context, op ledger.Op, read func(View, ledger.Result)) error
}

// View is what Read shows.
type View struct {
	Ledger *ledger.Ledger
	Term   *planner.Term
	// Now is the leader's time since its term began; it serves since Began.
	Now, Began quota.Micros
	// Timing is that of the lease protocol.
	Timing quota.Timing
}

// Self is what any node says of itself, without asking others.
type Self interface {
	Status() Status
	// Hint says where the leader is, as far as this node knows.
	Hint() Hint
}

// Hint is where the leader serves gRPC; empty fields are unknown.
type Hint struct{ Node, Address string }

// Status is the state of one node.
type Status struct {
	Node, Cluster, Role, Leader, LeaderAddress string
	Term, Applied, Commit                      uint64
	Hash                                       [32]byte
	Servers                                    []Member
	Version                                    string
	Ready                                      bool
	Accounts                                   int
	// Headroom is the smallest distance to the Bound seen in this term; ok only
	// at a leader that has seen usage.
	Headroom   quota.Tokens
	HeadroomOK bool
}

// Member is one node of the Raft configuration.
type Member struct {
	Node, Address string
	Voter         bool
}

var (
	// ErrNotLeader means that another node leads, or that this one cannot prove
	// that it does.
	ErrNotLeader = errors.New("this node does not lead")
	// ErrNotReady means that this node has just been elected and does not serve yet.
	ErrNotReady = errors.New("this node has just been elected and is catching up; try again")
	// ErrNotApplied means that a proposal was not and will not be applied.
	ErrNotApplied = errors.New("the change was not applied; try again")
	// ErrUnknown means that a proposal may or may not be applied.
	ErrUnknown = errors.New("it is not known whether the change was applied; read the state and try again")
	// ErrTooLarge means that a change does not fit one log entry.
	ErrTooLarge = errors.New("the change is too large")
	// ErrRulesDir means that the rules come from a directory.
	ErrRulesDir = errors.New("the rules come from a directory on the coordinator nodes; edit them there")
)
