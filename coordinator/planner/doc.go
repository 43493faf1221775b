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
//	meter, demand   what a region wants, rate and burst apart, from what it asked for
//	table           who sits there: shares, leases, assignments in flight
//	divide          what each should have, by water-filling over all at once
//	decide          which changes are worth it now: shrink where others starve,
//	                grow from what is free
//
// # Where efficiency is lost, and what was tried
//
// While somebody starves, three things are lost: rate that flows into a full
// bucket, tokens that lie in a bucket that does not need them, and rate on its way
// from one region to another, which serves nobody for a round trip and two commits
// or so. In percent of an ideal central bucket (TestEfficiency, standing shares of
// a tenth, bursts of a second of rate):
//
//	                                   5 ms           150 ms + 40 ms
//	                               before   now       before   now
//	50 20 400 of 200                98.8    99.4       97.8    98.7
//	the same, a step after 8 s      92.5    99.0       88.0    95.7
//	80/15/5 at 1.5x                 99.5    99.7       99.2    99.5
//	80/15/5 at 3x                   99.8    99.9       99.6    99.7
//	all regions at 3x              100.0   100.0      100.0   100.0
//	10x flash in one region         98.1    99.4       97.3    98.2
//	follow the sun, 20 s, at 1.2x   96.4    99.0       92.7    94.2
//	follow the sun, 20 s, at 2x     98.2    99.6       95.8    96.7
//	20 a second, 80/15/5 at 1.5x    90.7    98.4       87.1    96.1
//
// Before, a lease was one number: rate and burst in proportion. Demand was a slow
// mean that a fast one corrected by two standard deviations, so after a step down
// a region kept rate for seconds. What won, each step measured:
//
//   - Rate and burst are divided apart. Burst is small where tokens would lie, and
//     large where a bucket is always empty: there it costs nothing, and a falling
//     load finds room. Taking the empty room as well, and not only the tokens, cost
//     the sun 2 %.
//   - Counts and time are forgotten together, and a surprise forgets all that was
//     before (arrivals). Half a standard deviation more in each box cost the sun a
//     third of a percent; a shorter memory for busy regions gained nothing.
//   - The level corrects the rate, slowly in the middle of a bucket and twice as
//     fast at its ends. A linear correction loses 1 % of a moving load, a quick one
//     1 % to 4 % of a steady load far away, by rate on its way; so it takes forty
//     times as long as an assignment does, one to four seconds.
//   - Denials say little beyond the arrivals that they are. Tripling the wish of a
//     region that is denied everything gave newcomers what they did not use.
//
// What is left of the loss far away is nearly all rate on its way: 4 % of a sun
// that goes round in 20 s. It could only be less if fewer changes were made.
//
// It is pure: the caller passes the time, the leader's monotonic time since the
// term began.
package planner
