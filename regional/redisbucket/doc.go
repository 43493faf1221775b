// Package redisbucket keeps a region's buckets in the region's Redis: the store
// port of package enforce, and what the sync loop needs of the region's state.
//
// A decision is one script call at most, in a cluster one for each partition that
// its keys are in: decisions that arrive while the server works on others share the
// next call (see lane). One script is one file in scripts/. The arithmetic is that
// of package bucket, to the micro-token; a test compares the two on random
// histories.
//
//	<prefix>state           hash: incarnation, session, deadline, versions
//	<prefix>config          the adopted configuration, as its adopter encoded it
//	<prefix>config:prev     the one before it
//	<prefix>b:{<key>}       hash: level, at, inc; and with a lease
//	                        lease = "session epoch rate per burst surrendered released"
//	                        and what it is for: a loan, or of a sliding window what is
//	                        admitted by (released is 2 while the lease is leaving);
//	                        and where tokens were drawn ahead drawn = "tokens until"
//
// A region's Redis is a single server, a primary that sentinels watch, or a
// cluster (see Schemes). What follows is true of all of them.
//
// Invariants:
//
//   - Every connection is identified before its first use: a replica is refused,
//     and a server whose run_id or replication id is not the one the data was
//     written under begins a new incarnation (DESIGN.md 3.6).
//   - A script is sent once. Its outcome is unknown when the reply does not come,
//     and unknown counts as spent. Only NOSCRIPT, which executed nothing, is sent
//     again.
//   - Time is the server's TIME; no caller can pass one.
//   - Every key a script touches is passed in KEYS.
//   - Tokens that a take draws ahead are in the record until they are gone: its level and
//     what is still usable of them are never more than the burst together, and grow at the
//     rate only (draw.go of package bucket). Of requests that share a call one draws for
//     all. What was drawn for one who has gone is lost.
//
// Between two identity checks (CheckEvery) an open connection can meet a server
// that was demoted, synchronised and promoted again; the scripts then run on data
// that is older by what the other server did not have.
//
// # Sentinels
//
// The primary is asked for at every new connection. One that was demoted is given
// up with all connections to it; a new one is another incarnation, since what its
// predecessor acknowledged last may be missing. While a network is cut in two, the
// predecessor may go on beside it: that is the Worst case of the README, and
// min-replicas-to-write in the server's configuration is against it.
//
// # Clusters
//
// A script reaches the keys of one slot, and a decision needs the region's state
// and the bucket in one step. One slot for everything would be one node for
// everything. So a region is in 64 partitions, each with a hash tag of its own:
//
//	<prefix>{<tag>}state    as above, and node, of
//	<prefix>{<tag>}b:<key>  the buckets of the keys whose hash is that partition's: as
//	                        above, and refunded, the time of the last refund
//	<prefix>{0}config...    the configuration, in partition 0 alone (its tag may be another number)
//
// The state is copied, and the copies need no consensus, because of this:
//
//   - Each partition has an incarnation of its own. It ends when the partition's
//     node is another one (a replica took over, the slot moved), or lives another
//     life (run_id, replication id). Node is compared inside every script (CLUSTER
//     MYID), the life at every new connection and by the periodic check.
//   - The region's incarnation is a hash of them all. Nobody chooses it: whoever
//     reads the partitions knows it. It never comes back, as theirs do not.
//   - State seals every partition into the incarnation that it read, by a
//     compare-and-set on `of`, before it returns. Sealing ends the session that the
//     partition had. Every other script names the region's incarnation and is
//     refused where the partition is sealed into another one. So when State has
//     returned a new incarnation, no partition decides on a lease of the old one,
//     none can be renewed or applied, however late the message is; that is what
//     lets an agent name the old one as replaced (DESIGN.md 3.6).
//   - Renew and Drop write to all partitions. The region has a session only where
//     all of them have the same; what some missed is less than it could be.
//   - Adopt writes the configuration, then its version everywhere. It returns, and
//     State reports the version, when no partition decides by an older one.
//   - Clocks of two nodes are never compared. State reads partition 0 before and
//     after all others, which bounds how far each node's clock is from it. A
//     deadline is written with the lower bound, a time at which something began to
//     refill with the upper one. A bound that changes by more than a quarter of a
//     second for no reason is a clock that jumped: the session is given up.
//
// Each partition has a lane of its own (see lane): requests that wait for one
// partition share its next script call, and a node that is away makes nobody wait
// who asks another one.
//
// In a cluster nothing is drawn ahead. A partition has an incarnation of its own, which
// may end while agents are connected to all others and notice nothing: when the region's
// next incarnation begins, nobody knows how long they go on with what they have drawn of
// that partition.
//
// A request that counts keys in several partitions (all limits of one descriptor
// are in one) charges them one after the other, each in its lane. If one denies, the
// others get back what they were charged, by a script that refuses when the
// incarnation, the configuration or the lease's epoch is another one, and that gives
// back nothing that the bucket gained only because it was charged (refund.lua). So
// the level and all that may still be given back behave like one bucket of the same
// rate and burst, and the bound holds. A refund goes ahead of whatever the same
// agent asks next, and nobody waits for it. What cannot be given back is lost, the
// safe side.
//
// What it costs: a primary that is away takes the region's state with it until a
// replica has taken over, so leases end with the session, while the other
// primaries' partitions go on deciding by standing shares. A slot with a partition
// that moves is a new incarnation, so resharding is for quiet hours. A renewal is
// 64 small calls, some milliseconds of all nodes together every few seconds.
package redisbucket
