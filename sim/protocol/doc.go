// Package protocol holds a random test of the lease protocol: the production
// ledger, the leader's term, the agents' keepers and the regional buckets over
// a lost, repeated, delayed and reordered network, with leader changes,
// partitions, session expiry, drifting clocks, store resets, configuration
// edits — and a planner that proposes nonsense. Whatever it proposes, no window
// may admit more than the Bound (DESIGN.md 3).
//
// The tests are the package; there is nothing to import.
package protocol
