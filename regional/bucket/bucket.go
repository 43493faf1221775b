package bucket

import "github.com/quorate/quorate/coordinator/quota"

const (
	// MaxPeriod is the longest period of a rate: 2^49 microseconds, about 17.8
	// years. Up to it the scripts' exact division stays within doubles.
	MaxPeriod quota.Micros = 1 << 49
	// Forever stands for a wait that never ends. It still fits a time.Duration.
	Forever quota.Micros = 1<<53 - 1
	// Debt is the lowest level a bucket can have.
	Debt = -quota.MaxTokens
	// Notice is how long after a share was lent it takes the region to say so: by
	// then every agent that reads the region's state at all has read it, and knows
	// what is lent if the store is lost.
	Notice = 2 * quota.Second
)

// Mode is what a region that cannot reach the coordinator does with a key: the
// rule's on_disconnect.
type Mode uint8

const (
	// ModeStanding falls back to the standing share.
	ModeStanding Mode = iota
	// ModeHold keeps the last lease: the Worst case bound applies.
	ModeHold
	// ModeDeny denies everything.
	ModeDeny
	// ModeAllow admits everything and charges nothing.
	ModeAllow
)

// Standing is the standing share of one key, and what is known about a bucket
// that has no record.
type Standing struct {
	quota.Capacity
	// Base and From give the level of a missing record:
	// min(Burst, Base + rate*(now-From)), and Base until then. From is Since where
	// that is later.
	Base quota.Tokens
	From quota.Micros
	// Since is also the time, on the store's clock, from which Capacity is known
	// to be the share: a record that is older has at most Base then and accrues from
	// Since only, because the share may have been smaller before.
	Since quota.Micros
	// Lasts, when not 0, is how long a record is needed, from now: for a bucket of a
	// fixed window, which is never full again. Else it is needed until it is full.
	Lasts quota.Micros
	// Window says that the bucket is a sliding window, as long as the period of
	// Capacity. Only Base of its places were free at Since then, and the others from a
	// window later; From has no meaning.
	Window Window
	// Config is the configuration that this is of, where an assignment is applied. What
	// a share was before is told right only by the one in force.
	Config uint64
}

// Began is From, or Since where that is later.
func (st Standing) Began() quota.Micros { return max(st.From, st.Since) }

// Ask is what one bucket is asked for in a take.
type Ask struct {
	Key      quota.Key
	Cost     quota.Tokens // 0 looks and charges nothing; below 0 gives back
	Standing Standing
	Mode     Mode
	// Debt is how far below zero a cost may take the level, from a level above it.
	Debt quota.Tokens
	// Settle says that Cost was spent already: it is charged whatever the level is,
	// down to -Debt.
	Settle bool
	// Ahead is how much to draw ahead, beside Cost: 0 is nothing. It is all, a part or
	// nothing of it that is drawn, and nothing where no request is admitted that is served
	// with it.
	Ahead quota.Tokens
}

// Charge is what was admitted for a key while the store was away.
type Charge struct {
	Key      quota.Key
	Tokens   quota.Tokens
	Standing Standing
}

// ApplyAsk is one assignment to apply, with the key's standing share.
type ApplyAsk struct {
	Assignment quota.Assignment
	Standing   Standing
	// LoanUntil is when the assignment's loan ends, on the store's clock.
	LoanUntil quota.Micros
}

// LendAsk is one key of which the region's standing share is on loan already.
type LendAsk struct {
	Key   quota.Key
	Share quota.Capacity // none where it is not known yet
}

// Region is the state of a region that decides whether leases are in force.
type Region struct {
	Incarnation string
	// Session is the session the leases live on, 0 for none. It never goes back
	// below MinSession.
	Session, MinSession quota.SessionID
	// Deadline is when the leases end unless they are renewed, on the store's clock.
	Deadline quota.Micros
	// Config is the version of the adopted configuration, 0 for none.
	Config uint64
}

// State is a Region as read at one moment, with the history that the standing
// shares of missing records depend on.
type State struct {
	// Now is the store's clock: its time, or its high-water mark when that is later.
	Now quota.Micros
	Region
	// Since is when the incarnation began.
	Since quota.Micros
	// First says that this is the first incarnation the region ever had.
	First bool
	// ConfigSince is when Config was adopted.
	ConfigSince quota.Micros
	// Prev is the version adopted before Config, 0 for none, and PrevSince when
	// that one was adopted.
	Prev      uint64
	PrevSince quota.Micros
	// LentKnown says that the coordinator has told this incarnation what the region
	// has on loan; Lent counts the changes of that.
	LentKnown bool
	Lent      uint64
}

// Adopted is one adopted configuration as the store keeps it: the caller's own
// encoding in Blob.
type Adopted struct {
	Version uint64 // 0 for none
	Since   quota.Micros
	Blob    []byte
}

// Record is a bucket as it is stored.
type Record struct {
	Level quota.Tokens
	// At is the time up to which Level includes the refill; it never goes back.
	At quota.Micros
	// Lease is the last lease applied in Session; zero when Released or never.
	Lease quota.Capacity
	// Loan is what the session may use beside Lease until LoanUntil.
	Loan      quota.Capacity
	LoanUntil quota.Micros
	// Aim is what the region admits by of the lease of a sliding window, which is larger
	// while more is occupied. Leaving says that the lease is what a release has left: the
	// ledger may count no more than the standing share already, so the region admits by no
	// more than that.
	Aim     quota.Tokens
	Leaving bool
	// Away is until when the standing share is on loan to another region, whatever
	// becomes of the session; 0 for never.
	Away quota.Micros
	// Drawn is what was drawn ahead in the slot that ends at DrawnUntil, used or not, in
	// whatever session.
	Drawn      quota.Tokens
	DrawnUntil quota.Micros
	Epoch      quota.Epoch
	Session    quota.SessionID
	Released   bool
	// Surrendered is the answer to the assignment of Epoch, for repeats.
	Surrendered quota.Tokens
	Incarnation string
}

// Holding is what a bucket ran on at a take.
type Holding uint8

const (
	// OnLease: a lease is in force.
	OnLease Holding = iota + 1
	// OnStanding: no lease is in force, the standing share counts.
	OnStanding
	// OnNothing: no lease is in force and there is no standing share.
	OnNothing
	// OnHold: the session's deadline has passed and ModeHold keeps its lease.
	OnHold
	// Denied: the region is disconnected and ModeDeny denies.
	Denied
	// Allowed: the region is disconnected and ModeAllow admits.
	Allowed
)

// String names the holding for logs and explanations.
func (h Holding) String() string {
	switch h {
	case OnLease:
		return "lease"
	case OnStanding:
		return "standing"
	case OnNothing:
		return "nothing"
	case OnHold:
		return "hold"
	case Denied:
		return "denied"
	case Allowed:
		return "allowed"
	}
	return "unknown"
}

// Verdict is what one bucket says to its Ask.
type Verdict struct {
	// Admitted says that this bucket had enough, or was only looked at. The take
	// as a whole is admitted when all its buckets are.
	Admitted bool
	Holding  Holding
	// Level is the level now: after the charge when the take was admitted.
	Level quota.Tokens
	// Unspent is the part of the elapsed time that has not become tokens yet.
	Unspent quota.Micros
	// Capacity is what is in force.
	Capacity quota.Capacity
	// Epoch is the epoch of the lease in force, 0 without one.
	Epoch quota.Epoch
	// Retry is the time until the bucket admits the cost, 0 when it does, Forever
	// when it never will with this capacity.
	Retry quota.Micros
	// Never says that the cost is larger than the burst in force and the Debt.
	Never bool
	// Uncharged is the part of a cost to Settle that the Debt leaves no room for.
	Uncharged quota.Tokens
	// Full is the time until the bucket is full, Forever when it never is.
	Full quota.Micros
	// Fresh is that of Balance.
	Fresh quota.Micros
	// Grant is what was drawn ahead; Level still has it.
	Grant Grant
}
