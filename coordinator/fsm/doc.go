// Package fsm puts the ledger behind hashicorp/raft: it decodes log entries,
// applies them, and writes and reads snapshots.
//
//	          Apply (one entry)                 View (readers)
//	raft ─────────────────────▶ ledger under a lock ◀───────── leader, rpc
//	          Snapshot                    │
//	     ◀──────────────── immutable copy ┘ ─▶ records ─▶ hash at the end
//	          Restore
//	     ─────────────────▶ decode all, check the hashes, then swap
//
// What it guarantees (I8 of package ledger): an index has one state, on every
// node and also after snapshot and tail. It publishes the index of the last
// entry together with the hash of the state, so that nodes can be compared. An
// entry it does not understand stops the node, since going on would make the
// node differ from the others; a snapshot it does not understand to the last
// byte changes nothing.
//
// The bytes are those of proto/ledger/v1, the disk contract: Encode and Decode
// are the only code that knows them.
package fsm
