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
// A key of a window has nothing to divide but tokens that are spent once (window.go).
//
// # Loans
//
// A standing share that its region does not use is of no use to anybody (DESIGN.md
// 3.12). Where more is wanted than there is, idle regions lend theirs (loans.go): a
// loan is made longer when half of it is over, called back when its lender wants it and
// cannot be served otherwise or when its borrower has not got it, and given up when
// nobody needs it. Lenders say so only when
// all their agents know (bucket.Notice), so a loan takes some three seconds; all that one
// busy region of eight is missing of an ideal bucket in five minutes, with a standing
// share of 0.3, is 0.4 %. Regions that are not idle never lend.
//
// # Sliding windows
//
// Of a sliding window places are divided (sliding.go), by what each region will occupy.
// Places that a region keeps for what arrives unevenly are used by nobody: at 80/15/5 and
// 1.5x of 600 a minute that is 3 % (sim/testdata/sliding-skew.txt). A standard deviation
// for that instead of 0.7 of one lost half a percent more and gave the smaller regions a
// percent of what they ask for; giving away whatever is not occupied at the moment used 99 %,
// and denied a region that asked for less than its fair part a sixth of it, because places
// come back only as they move out of the window.
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
//	50 20 400 of 200                98.8    99.6       97.8    98.9
//	the same, a step after 8 s      92.5    99.0       88.0    96.4
//	80/15/5 at 1.5x                 99.5    99.8       99.2    99.6
//	80/15/5 at 3x                   99.8    99.9       99.6    99.9
//	all regions at 3x              100.0   100.0      100.0   100.0
//	10x flash in one region         98.1    99.3       97.3    98.3
//	follow the sun, 20 s, at 1.2x   96.4    98.9       92.7    95.3
//	follow the sun, 20 s, at 2x     98.2    99.5       95.8    96.7
//	20 a second, 80/15/5 at 1.5x    90.7    98.6       87.1    96.9
//
// Package sim/bench measures the same with the regions' production code in
// between, from a cold start, and beside other systems.
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
//     third of a percent; a longer memory gained steady load nothing.
//   - The level corrects the rate, gently: a quick correction loses 1 % to 4 % of a
//     steady load far away, by rate on its way; so it takes forty times as long as
//     an assignment does, one to four seconds. (An assignment was once timed from its
//     last repetition, so far away was taken for near: 0.7 % of a steady load.) Only
//     a full bucket, where rate is wasted, is corrected at once: that is what a
//     falling load needs. The same at the empty end gained the sun 0.2 % and
//     cost a steady load 0.3 %.
//   - Agents report beside a sync that waits for its answer. Without that, a report
//     or a confirmation waits up to a round trip for its turn: 2 % of the sun, and
//     10 % where the busy region is another one every 2 s.
//   - Denials say little beyond the arrivals that they are. Tripling the wish of a
//     region that is denied everything gave newcomers what they did not use.
//   - Where requests are so large that the regions' bursts do not hold them all,
//     regions take turns (lumps): fair parts that are all too small admitted a
//     quarter of what was possible.
//   - Guessing the level of a bucket that nobody reports, from its rate, changed
//     every plan a little and made a limit by the minute assign thirty times as often.
//
// What is left of the loss far away is nearly all rate on its way: 3 % of a sun
// that goes round in 20 s. It could only be less if fewer changes were made.
//
// It is pure: the caller passes the time, the leader's monotonic time since the
// term began.
package planner
