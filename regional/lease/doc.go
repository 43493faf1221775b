// Package lease is the region's side of sessions and leases: what to say to the
// coordinator next, what its answers allow, and what the region owns without it.
//
// All leases of a region live on its session. The keeper counts the session's
// life from before it sends a sync, so the coordinator, which counts from after
// its leadership check, always waits longer:
//
//	agent        t_send ─────────── TTL*(1-2*rho) - delta ──► leases end
//	                 \            / answer, at most 2 s old
//	coordinator       check ───────────── TTL + guard ──────────────► session ends
//
// Time is measured by the fastest of three clocks. When they disagree, or the
// store's clock disagrees with them, the deadline in the store may be wrong: the
// keeper drops the session and asks for another.
//
// An Adoption is the configuration the region has adopted, with what its
// standing shares are worth for a key that has no record.
//
// Invariant: a deadline is only ever set from the store's time before a sync was
// sent, for the session that the answer of that very sync names, and never from
// an answer that came late, twice or over clocks that jumped.
package lease
