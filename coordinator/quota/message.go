package quota

import "time"

// SessionID numbers the sessions of all regions in the order the ledger opened
// them. Zero is no session. A region never goes back to a smaller one.
type SessionID uint64

// Epoch numbers the assignments of one session in the order of the log. Zero is
// no assignment. A region applies an assignment only if its epoch is newer than
// the one in the bucket record.
type Epoch uint64

// Assignment is a lease change on its way to a region.
type Assignment struct {
	Key     Key
	Session SessionID
	Epoch   Epoch
	// Lease is the total the region holds from now on, standing share included.
	Lease Capacity
	// Credit travels from the pool to the region with the assignment.
	Credit Tokens
	// Release ends the lease: the region falls back to its standing share, and
	// Lease is that share.
	Release bool
	// Lend, when not 0, takes the standing share away too, for that long from when
	// the region applies it; Lease is then nothing.
	Lend time.Duration
	// Home says that the standing share is not on loan, also where the region was told
	// so before.
	Home bool
	// Loan comes beside the lease, in place of what came before; nil leaves that as
	// it is.
	Loan *Loan
}

// Loan is what a region borrows of the standing shares of others: all it may use,
// in place of what it was told before.
type Loan struct {
	Capacity Capacity
	// Credit travels with the part of it that is new.
	Credit Tokens
	// Left is how long it may be used, counted from before the request was sent
	// that it answers.
	Left time.Duration
}

// Lent is what a region has on loan to others.
type Lent struct {
	Keys []Key
	// For is how long from now none of it comes back before.
	For time.Duration
}

// Applied is a region's answer to an assignment. It is the same however often
// the assignment arrives.
type Applied struct {
	Key         Key
	Session     SessionID
	Epoch       Epoch
	Surrendered Tokens
}

// Usage is what an agent saw of one key since its last report.
type Usage struct {
	Key Key
	// Window is the time the counts cover.
	Window time.Duration
	// Admitted and Denied are the costs of the decisions of the window.
	Admitted, Denied Tokens
	// Largest is the most that a bucket had to hold for a single request: its cost,
	// less what the limit lets it owe.
	Largest Tokens
	// Level is the last level of the region's bucket that the agent saw.
	Level Tokens
	// Burst is the burst of that bucket at that time: less than the lease says
	// when the region has lost the lease.
	Burst Tokens
	// Epoch is the epoch of the lease that the bucket had, 0 without a lease.
	Epoch Epoch
}

// Incarnation is one uninterrupted life of a region's Redis data.
type Incarnation struct {
	// ID is random and never used twice.
	ID string
	// Replaces is the incarnation that this agent itself saw die at its
	// configured address, empty when it saw none.
	Replaces string
}

// SyncRequest is one numbered message of an agent to the coordinator. It renews
// the region's session, confirms what the region applied and reports demand. With
// Seq 0 it only reports, beside a request that waits for its answer: it renews
// nothing and is not answered.
type SyncRequest struct {
	Seq         uint64
	Cluster     string // cluster id, empty before the first contact
	Region      string
	Agent       string // unique per process
	Incarnation Incarnation
	// Session is the session the region's Redis knows, 0 for none.
	Session SessionID
	// Drop asks to end Session at once and to open another: the agent does not
	// trust its clocks, so the deadline of the session may be wrong.
	Drop bool
	// Config is the version of the configuration that the agent decides by, and the
	// region has adopted.
	Config uint64
	// Leaving says that this agent is shutting down: nothing is renewed, and
	// assignments go to another agent.
	Leaving bool
	// Forgot says that the region's store has lost what it knew of loans and asks
	// for Lent: until then, or until all loans are over, the region does without
	// its standing shares.
	Forgot  bool
	Usage   []Usage
	Applied []Applied
}

// SyncResponse answers the SyncRequest with the same Seq, or is a push of
// assignments when Seq is 0. A push renews nothing.
type SyncResponse struct {
	Seq     uint64
	Cluster string
	// Session is the region's live session; TTL counts from before the request
	// was sent. Zero in a push.
	Session SessionID
	TTL     time.Duration
	// First says that the incarnation of the request is the first that the
	// region ever had, so its buckets start full.
	First bool
	// Agents is the number of agents of the region heard from lately, at least 1.
	Agents int
	// Config is the configuration to adopt, nil when the agent has it.
	Config *Config
	// Assignments are all that wait for this agent's confirmation. They are
	// repeated until they are confirmed.
	Assignments []Assignment
	// Lent answers Forgot; nil is no answer.
	Lent *Lent
	// Refusal says why there is no session; everything else is then empty.
	Refusal *Refusal
}

// Config is the configuration that regions adopt: the rule documents and the
// share table under one version.
type Config struct {
	Version uint64
	Sources []Source
	Shares  Shares
}

// Source is one rule document.
type Source struct {
	Name string // file name, for messages
	Text string // YAML
}

// RefusalCode says why a sync was refused.
type RefusalCode int

const (
	// RefusedUnknownRegion: the region is not registered at the coordinator.
	RefusedUnknownRegion RefusalCode = iota + 1
	// RefusedSecondStore: another incarnation of the region has a live session.
	RefusedSecondStore
	// RefusedWrongCluster: the agent belongs to another cluster.
	RefusedWrongCluster
	// RefusedBusy: the answer could not be given in time; ask again.
	RefusedBusy
)

// Refusal is the coordinator's reason for giving no session, in words for an operator.
type Refusal struct {
	Code    RefusalCode
	Message string
}
