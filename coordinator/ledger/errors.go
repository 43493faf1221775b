package ledger

import "errors"

// What the ledger answers to an operation it refuses. A refusal changes nothing.
var (
	// ErrOldTerm refuses a whole batch: its leader has been deposed.
	ErrOldTerm = errors.New("batch of an older term")
	// ErrFounded: the cluster has an id already.
	ErrFounded = errors.New("cluster is founded already")
	// ErrUnknownRegion: the region is not registered.
	ErrUnknownRegion = errors.New("region is not registered")
	// ErrSession: the session is not the region's live one.
	ErrSession = errors.New("not the live session of the region")
	// ErrSessionLive: the region has a session of another incarnation.
	ErrSessionLive = errors.New("region has a live session")
	// ErrInFlight: an assignment of the account to the region is in flight.
	ErrInFlight = errors.New("assignment in flight")
	// ErrNotInFlight: there is no such assignment or offer in flight.
	ErrNotInFlight = errors.New("not in flight")
	// ErrEpoch: the proposal was made from an older state of the lease.
	ErrEpoch = errors.New("epoch has moved")
	// ErrNoRule: no rule of the configuration in force counts the key.
	ErrNoRule = errors.New("no rule counts this key")
	// ErrBelowShare: the lease would be smaller than the standing share.
	ErrBelowShare = errors.New("lease below the standing share")
	// ErrNoRoom: the pool has not the capacity that the growth needs.
	ErrNoRoom = errors.New("pool has no room for the growth")
	// ErrCredit: the credit exceeds the pool's level or the growth of burst.
	ErrCredit = errors.New("credit exceeds level or growth")
	// ErrLeased: a region that holds a lease cannot lend its standing share.
	ErrLeased = errors.New("region holds a lease")
	// ErrNoLoan: there is nothing to lend, or no such loan for this region.
	ErrNoLoan = errors.New("no such loan")
	// ErrLent: somebody borrows it, and the loan's time is not over.
	ErrLent = errors.New("loan is not over")
	// ErrInvalid: an amount is out of range.
	ErrInvalid = errors.New("amount out of range")
	// ErrNotIdle: the account holds leases, or its pool is not full and its window,
	// if it has one, not over.
	ErrNotIdle = errors.New("account is in use")
	// ErrVersion: the version moved since the edit was prepared.
	ErrVersion = errors.New("version has moved")
	// ErrRules: the rule documents do not parse.
	ErrRules = errors.New("rule documents are invalid")
	// ErrNotDrained: the region may still be using its standing shares.
	ErrNotDrained = errors.New("region is not drained")
	// ErrUnknownOp: the operation is not one this version knows.
	ErrUnknownOp = errors.New("unknown operation")
)
