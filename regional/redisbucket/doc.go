// Package redisbucket keeps a region's buckets in the region's Redis: the store
// port of package enforce, and what the sync loop needs of the region's state.
//
// A decision is one script call at most: decisions that arrive while the server
// works on others share the next call (see lane). One script is one file in
// scripts/. The arithmetic is that of package bucket, to the micro-token; a test
// compares the two on random histories.
//
//	<prefix>state           hash: incarnation, session, deadline, versions
//	<prefix>config          the adopted configuration, as its adopter encoded it
//	<prefix>config:prev     the one before it
//	<prefix>b:{<key>}       hash: level, at, inc; and with a lease
//	                        lease = "session epoch rate per burst surrendered released"
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
//
// Between two identity checks (CheckEvery) an open connection can meet a server
// that was demoted, synchronised and promoted again; the scripts then run on data
// that is older by what the other server did not have.
package redisbucket
