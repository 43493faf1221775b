// Package enforce makes one decision: it turns a request into rules, the rules
// into buckets, asks the region's store once, and turns the answer into a
// status per descriptor with the reason for it.
//
//	request ──► rules.Match ──► counts ──► Store.Take ──► statuses
//	                               │            │
//	    zero, too large, denied ◄──┘            ├─► stale: refresh, once more
//	    just now (without store)                ├─► nothing held: wait for a lease, once more
//	                                            └─► store away: the failure ladder
//
// A descriptor that brings a limit of its own (an override) is counted under that
// alone, in a bucket of its own (rules.Set.Overridden).
//
// A key that is asked for all the time has an allowance (allowance.go): tokens that this
// agent drew ahead from the store's bucket, which pay for a request without Store.Take
// where every bucket of it has one. What was found for such a request is remembered for
// a second (repeat.go), so that the next one is not even planned.
//
// It also owns the failure ladder: what happens to each rule while the store is
// away, and the debt that is charged to the store when it is back.
//
// The delays of shaped limits are computed from what the store answers; delay.go says
// what leaves then, and how much at worst.
//
// Invariant: what enforce admits was either taken from the store in one
// all-or-nothing step, by itself or ahead of it and then used in time, or drawn from
// a local bucket that holds this agent's part of the region's standing share and owes
// it to the store; the only exceptions
// are the policies that ask for them, on_disconnect: allow and
// on_store_failure: allow. A store call whose outcome is unknown counts as spent
// and is never sent again.
package enforce
