// Package uplink is the sync loop of one agent: it carries what package lease
// wants to say to the coordinator, and what the coordinator answers into the
// region's store.
//
//	             due, urgent, changed, pushed
//	                       │
//	store.State ──► Keeper.Request ──► stream ──► answer within Timing.Answer
//	     ▲                                             │
//	     └── Renew, Adopt, Apply ◄── Keeper.Response ◄─┘
//
// One goroutine runs the loop and owns the keeper; each stream has a reader
// goroutine that ends with it. All coordinator nodes are configured; a follower
// answers with the leader's address.
//
// Invariant: the store's time is read before a request is sent and nothing is
// taken from an answer but through the keeper. Losing any message, or this
// process at any point, costs at most time: assignments are repeated until they
// are confirmed, and usage that was not delivered is reported again.
package uplink
