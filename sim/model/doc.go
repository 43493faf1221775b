// Package model is a small model of the safety kernel, section 3 of the design,
// and an exploration of every state it can reach. It is not the production code
// but a second, independent statement of the same rules, small enough that two
// regions, one key and a few tokens can be tried in every order of events: what
// the random worlds of package sim sample, this enumerates.
//
//	           assign                   apply
//	ledger ─────────────▶ in flight ───────────▶ store ──▶ admit ──▶ the Bound's bucket
//	   ▲                                           │
//	   └───────────── confirm ◀── answer ◀─────────┘
//	leader: opens, renews and ends sessions; is replaced; is deposed and goes on
//
// In every state the level of one central token bucket is kept: it starts full,
// refills R a tick, and every admission takes one. That it never goes below
// zero is the Bound over every window. Besides, pool and reserved are the limit
// in both dimensions and never negative (I1), the pool's level stays within its
// burst (I3), a store has applied no epoch and holds no lease that the ledger
// does not count (I4), and no lease is in force whose session has ended (I5).
//
// # What is modelled
//
// The account: pool, level, lease, the assignment in flight and standing shares.
// Sessions with both deadlines, the leader's guard, marks of silence, the end of
// a session, a session opened for an incarnation that is gone, and one replaced
// by the agents that saw its data die. Assignments of every size up to one
// beyond the limit: the ledger refuses what is nonsense. Elections at any moment
// and deposed leaders that answer. Stores that lose their data. Messages
// are a set: delivered in any order, again, late, or never.
//
// # What is abstracted, and why that is sound
//
//   - Clocks have no drift. A region's deadline is shorter by 2*rho and delta
//     than the leader's; that margin is folded into the tick, and with no guard
//     both deadlines fall on the same tick, the tightest case.
//   - Time is what remains, epochs count from the last confirmed one, and
//     counters end where they stop to matter. So the space is finite although
//     time is not, and an exploration that ends has seen runs of every length.
//   - A region may have sent a sync at any time: sending changes nothing, so
//     the leader may answer one of every age. One older than a lifetime, and an
//     answer to it, could set no deadline that has not passed.
//   - An entry is proposed and committed in one step, because the ledger judges
//     it when it commits; the leader renews nothing between proposing the end of
//     a session and knowing the outcome. So are the check of a leader and its
//     answer, because the answer may then take any time.
//   - The pool refills with every tick. The ledger clock only ever runs behind,
//     and a ledger with fewer tokens can do nothing that one with more cannot.
//   - Of two ended sessions only the later one is followed, assignments of older
//     epochs are not kept and messages that all would refuse are dropped. In the
//     correct model none of them can be accepted.
//   - Dropping an account that is full and unheld changes no number.
//
// Not modelled: loans, edits of rules and of the share table, allowances,
// several keys or agents, a store that rolls back, two stores under one name,
// agents that drop a session they distrust, on_disconnect other than standing.
// They are for package sim.
//
// # Results
//
// Every space below was explored to its end and no state breaks an invariant.
// "1/t+2" is a limit of one token a tick with a burst of two.
//
//	limit  shares          TTL  besides                       found
//	1/t+1  none            1    resets                      16136 states, depth 23
//	1/t+2  none            1    resets                     122125 states, depth 27
//	1/t+2  0/t+1 and none  1    resets                      87596 states, depth 26
//	3/t+3  1/t+1 each      1    resets                      80908 states, depth 25
//	1/t+1  none            2                                74526 states, depth 24
//	1/t+2  none            2    resets                     866935 states, depth 27
//	1/t+1  none            2    resets, silence            708347 states, depth 27
//	2/t+2  1/t+1 and none  2    resets                     491980 states, depth 25
//	1/t+3  0/t+1 each      2    resets                     748388 states, depth 28
//	1/t+2  0/t+1 and none  2    guard 1, resets, silence  5808598 states, depth 32 *
//	1/t+1  none            3    resets, silence           4595713 states, depth 28 *
//	1/t+2  none            2    resets, silence           5567213 states, depth 29 *
//	2/t+3  0/t+1 each      2    resets                    2193509 states, depth 33 *
//	3/t+3  1/t+1 each      2    resets, silence           3410305 states, depth 29 *
//
// Those with an asterisk take minutes together and are explored with -wide.
//
// Each broken rule overspends. The columns are the steps until the first
// invariant breaks and until more is admitted than the Bound allows.
//
//	growBeforeShrink          7  16
//	creditAboveGrowth        20  20
//	refundAtExpiry           17  17
//	expiryFromReceive         5  15
//	noLeadershipCheck         6  16
//	newLeaderKeepsTimers      6  18
//	clockJumpsAtElection     14  14
//	lateApply                16  16
//	syncReplacesLiveSession   4  15
//	missingIsFull             3   3
//	noStandingDeducted        1   8
//	applyTwice                8   8
//	renewWhileSilent          7  19
//
// newLeaderKeepsTimers, syncReplacesLiveSession and renewWhileSilent let a lease
// outlive its session by less than a TTL. With a TTL of one tick and no standing
// share the Bound survives that: the lease is over when the pool has its first
// new token. They need a share that keeps a token of that tick, or two ticks.
package model
