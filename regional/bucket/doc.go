// Package bucket is the arithmetic of a region's token buckets: the reference
// that the Redis scripts of package redisbucket must match to the micro-token.
//
// A region's store holds one record per key that was ever charged and one state
// for the region: its incarnation, its session with a deadline, the version of
// the configuration it adopted. Nothing else decides. Whether a bucket runs on a
// lease or on the region's standing share follows from the record, the state and
// the time of the store's own clock, in one step, so two agents of a region can
// never disagree:
//
//	                 same incarnation and session, before the deadline
//	record on lease ------------------------------------------------> lease
//	       |
//	       | otherwise (no lease, older session, deadline passed)
//	       v
//	standing share: level cut to its burst, then refilled at its rate only
//
// A standing share may be on loan to another region: the record says until when it
// is away, and it begins again empty. What a region borrows comes beside its lease
// and ends by itself.
//
// Of a hot key a take draws tokens ahead, by which whoever drew them admits requests
// without the store for a tenth of a second at most. The record counts them as long:
// the level and what is still usable of the drawn tokens are never more than the burst
// together, and grow at the rate only, since nothing is returned and what is not used is
// gone. So every bound that holds without draws holds with them: see draw.go.
//
// A bucket of a fixed window has no rate: its record is kept until the window is over,
// and not until it is full. A sliding window has no tokens to refill but places that are
// occupied: see Window.
//
// Invariants:
//
//   - A missing record is not a full bucket: its level is what the Standing says.
//   - A bucket's timestamp is its own high-water mark; time that goes backward
//     refills nothing, and time is never refilled twice.
//   - A take over several buckets charges all of them or none, and gives back to all
//     of them or none.
//   - Over any window what is charged less what is given back, each when it happens,
//     is at most burst + rate*window, and Debt more where asks have one: the level is
//     never above the burst, and never below -Debt by a take. Of a sliding window it is
//     at most what Window and Count say.
//   - A level below zero is carried wherever the record goes: it is paid by the refill
//     of whatever capacity is in force, or by a credit, and a record is not forgotten
//     before (for 20 years). A store that is lost forgets it.
//   - Many takes served in one step are what they would be one after another.
//   - Rounding favours the limit and never accumulates: the timestamp advances
//     only by the time that was turned into tokens.
//
// Store is the in-memory reference; the simulator runs on it.
package bucket
