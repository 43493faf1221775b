package enforce

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/demand"
)

// Errors of the Store port.
var (
	// ErrStale: the region has another incarnation or another configuration
	// than the take named; nothing was charged. Read the region's state and ask again.
	ErrStale = errors.New("region state is newer than this agent's view of it")
	// ErrStoreDown: the store cannot be reached; whether anything was charged is unknown.
	ErrStoreDown = errors.New("regional store is not reachable")
)

// Errors of Decide. They are the caller's mistake or a service that is not
// ready; everything else is a Decision.
var (
	ErrEmptyDomain   = errors.New("rate limit domain must not be empty")
	ErrNoDescriptors = errors.New("rate limit descriptor list must not be empty")
	// ErrNoConfig: no rules were adopted yet, neither from the coordinator nor
	// from the region's store.
	ErrNoConfig = errors.New("no rate limit configuration loaded yet")
)

// Store is the region's buckets.
//
// It is safe for concurrent use. A call returns by the deadline of its context
// and is executed at most once: an error other than ErrStale leaves the outcome
// unknown, and the caller counts it as spent.
type Store interface {
	// Take asks all buckets of t in one atomic step: all are charged or none.
	// The verdicts are in the order of the asks, also when it was not admitted.
	// The store must not keep t.Asks when it returns without an error.
	Take(ctx context.Context, t Take) (TakeResult, error)
	// Charge takes tokens that were admitted while the store was away. A level
	// may go below zero. The store refuses it with ErrStale unless incarnation is
	// its own: the standing shares say what a missing record of that one holds.
	Charge(ctx context.Context, incarnation string, charges []bucket.Charge) error
}

// Take is one atomic step over the buckets of a request. The store refuses it
// with ErrStale unless Incarnation and Config are its own.
type Take struct {
	Incarnation string
	Config      uint64
	Asks        []bucket.Ask
}

// TakeResult is the answer to a Take.
type TakeResult struct {
	Now      quota.Micros // the store's clock, which every verdict refers to
	Admitted bool
	Verdicts []bucket.Verdict
}

// Leases lets the first request of a key wait for the key's first lease.
type Leases interface {
	// Await returns nil as soon as an assignment for k was applied after the
	// call, and an error when max has passed or ctx has ended.
	Await(ctx context.Context, k quota.Key, max time.Duration) error
}

// Demand is told what was asked for. Observe reports whether the coordinator
// should hear of it at once.
type Demand interface {
	Observe(o demand.Observation) (urgent bool)
}
