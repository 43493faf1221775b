// Package planner is what a leader remembers for one term and what it decides:
// who is alive, what every region wants, and which operations to propose next.
//
//	syncs ──▶ Receive ──▶ sessions, demand book ──▶ Next ──▶ log ──▶ Done
//	  ▲                                                      │
//	  └── Answer (after a leadership check), Push ◀── ledger ┘
//
// Nothing in it is replicated and nothing in it is trusted: the ledger refuses
// whatever would break the Bound, so a wrong plan costs efficiency only. There is
// one thing that the Bound does rest on here, because renewals are not logged:
//
//	A session is renewed only from a leadership check that began after the sync
//	arrived, and never again once its end was proposed, or while a silent mark
//	stands or may stand in the log. So when the ledger ends a session, no region
//	still counts on it.
//
// A plan for one key is made in steps that know nothing of each other:
//
//	meter, demand   what a region wants, from what it asked for
//	table           who sits there: shares, leases, assignments in flight
//	divide          what each should have, by water-filling over all at once
//	decide          which changes are worth it now: shrink where others starve,
//	                grow from what is free
//
// It is pure: the caller passes the time, the leader's monotonic time since the
// term began.
package planner
