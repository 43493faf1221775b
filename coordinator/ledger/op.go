package ledger

import "github.com/quorate/quorate/coordinator/quota"

// Batch is one log entry: what a leader proposes in one round.
type Batch struct {
	// Term is the Raft term the proposing leader leads.
	Term uint64
	// At is the leader's monotonic time since its term began.
	At  quota.Micros
	Ops []Op
}

// Op is one operation of a batch. Operations are applied in order and
// independently: one that is refused changes nothing and does not stop the rest.
type Op interface{ op() }

// Found names the cluster and sets the first share table. It is refused once
// the cluster has an id.
type Found struct {
	Cluster string
	Shares  quota.Shares
}

// Lead publishes where the leader of the batch's term serves gRPC.
type Lead struct{ Node, Address string }

// OpenSession gives a region without a session a new one. With Replaces, it
// first ends the session of that incarnation: its agent saw the old data die.
type OpenSession struct {
	Region, Incarnation string
	Replaces            string
}

// EndSession ends a region's session: capacity returns, tokens do not.
type EndSession struct {
	Region  string
	Session quota.SessionID
}

// MarkSilent marks a session that has not been heard of, or clears the mark.
type MarkSilent struct {
	Region  string
	Session quota.SessionID
	Silent  bool
}

// Assign changes a region's lease. It opens the account when there is none.
type Assign struct {
	Region  string
	Session quota.SessionID
	Key     quota.Key
	// Prev is the epoch of the region's last assignment for Key that the
	// proposer knows of, 0 for none: a repeated proposal does not match any more.
	Prev quota.Epoch
	// Lease is the new total, standing share included; ignored with Release.
	Lease   quota.Capacity
	Credit  quota.Tokens
	Release bool
}

// Confirm ends an assignment in flight with the region's answer.
type Confirm struct {
	Region      string
	Session     quota.SessionID
	Key         quota.Key
	Epoch       quota.Epoch
	Surrendered quota.Tokens
}

// Drop forgets an account that equals one that never was.
type Drop struct{ Key quota.Key }

// SetRules replaces the rule documents, with IfVersion only those of that version.
type SetRules struct {
	Sources   []quota.Source
	IfVersion *uint64
}

// AddRegion registers a region, or changes the weight of one.
type AddRegion struct {
	Region string
	Weight int64
}

// DrainRegion takes a region's weight away; its standing shares end once it has
// confirmed.
type DrainRegion struct{ Region string }

// RemoveRegion unregisters a drained region. Force asserts that no agent of it
// runs any more, so nothing needs to be confirmed.
type RemoveRegion struct {
	Region string
	Force  bool
}

// Offer lets a region adopt the newest configuration.
type Offer struct {
	Region  string
	Version uint64
}

// Adopted confirms that a region has adopted the configuration offered.
type Adopted struct {
	Region  string
	Version uint64
}

func (Found) op()        {}
func (Lead) op()         {}
func (OpenSession) op()  {}
func (EndSession) op()   {}
func (MarkSilent) op()   {}
func (Assign) op()       {}
func (Confirm) op()      {}
func (Drop) op()         {}
func (SetRules) op()     {}
func (AddRegion) op()    {}
func (DrainRegion) op()  {}
func (RemoveRegion) op() {}
func (Offer) op()        {}
func (Adopted) op()      {}
