// Package ledger is the replicated state of the coordinator: who holds how much
// of every limit. It is the safety kernel. Everything above it — planner,
// leader, network, regions — may be arbitrarily wrong, late or repeated, and
// the Bound still holds, because the ledger refuses what would break it.
//
// A ledger is a pure state machine: Apply takes one log entry and changes the
// state, the same way on every node. It knows no wall clock (time comes with
// the entries, see below), no floats, no randomness, and no result depends on
// map order.
//
//	        Assign (credit, growth)              Apply (script)
//	pool ───────────────────────────▶ in flight ───────────────▶ region
//	 ▲                                                             │
//	 └──────────── Confirm (freed capacity, surrendered) ◀─────────┘
//
// # Invariants
//
// The checkers, alerts and the README use the same numbers.
//
//	I1 Capacity. For every account: pool + sum over regions of reserved = limit,
//	   in rate and in burst, where reserved is the larger of the lease, the
//	   assignment in flight and the standing shares the region may be using,
//	   and holds a credit in flight beside such a share, which may be full. A
//	   standing share on loan is counted whole beside the lease, whoever uses it,
//	   from the lender's confirmation until the loan's time is over on a clock
//	   that counts longer than the borrower's, see Loan.
//	   No assignment and no configuration offer makes a pool negative; only
//	   lowering a limit does, and then nothing grows until it is not.
//	I2 Credit. Tokens travel only with the capacity that bounds them: the credit
//	   of an assignment is at most the growth of the region's reserved burst and
//	   at most the pool's level.
//	I3 Pool. 0 <= level <= max(0, pool burst); the level grows at most at the
//	   pool's rate on the ledger clock, and by surrendered tokens of at most the
//	   burst that a confirmation frees. Of a sliding window nothing grows: level
//	   and returns are the pool's burst, and a return is counted when nobody can be
//	   using it any more, see Return.
//	I4 Stop and wait. At most one assignment per account and region, and at most
//	   one configuration per region, is in flight.
//	I5 Sessions. A region has at most one session; every lease belongs to it. The
//	   end of a session returns its capacity and no tokens.
//	I6 Clock. The ledger clock never goes back and stands still across a change
//	   of term. An entry of an older term than the last is refused whole.
//	I7 Never seen. An account is dropped only when no lease is held and its pool
//	   is full: then it equals an account that never was; or when nobody can be in
//	   the window that its key names any more (window.go). Where standing shares
//	   have shrunk, an account opens with a pool that starts at what the shares
//	   left and fills from there.
//	I8 Identity. State is a function of the entries applied: equal index, equal
//	   hash, on every node, also after snapshot and tail.
//
// The safety argument is section 3 of the design; in one sentence: spendable
// tokens plus those in flight are at most B and grow at most at R.
package ledger
