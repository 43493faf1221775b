// Package raftnode is the life of one hashicorp/raft node: its stores on disk,
// its connections to the other nodes, how it first joins a cluster, and how it
// ends.
//
//	Open ─ stores, listener, bootstrap or resume ─▶ raft runs
//	Run  ─ until ctx ends, or the first fatal error ─▶ transfer, shut down, close
//
//	Propose ─▶ applied | ErrNotApplied | ErrUnknown   (always within a deadline)
//	Verify  ─▶ this node led at some moment after the call
//	Barrier ─▶ everything committed before is applied here
//
// What the package adds to raft, and why:
//
//   - Every future is waited for with a deadline of our own; raft's cover only
//     the way into a queue. After it the outcome is unknown, never failed.
//   - Heartbeats do not take raft's fast path past the main loop: through it a
//     deposed leader could write an entry in its successor's term.
//   - raft's VerifyLeader counts an answer to a message that was sent before the
//     call. Verify also wants a quorum of answers to messages sent after it.
//   - A node that cannot write its log, or that leads and cannot commit, ends:
//     raft would keep its followers waiting for ever.
//   - Leadership is transferred only on the way out: a transfer that gets stuck
//     refuses all later writes.
package raftnode
