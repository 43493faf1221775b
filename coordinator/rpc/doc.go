// Package rpc serves the coordinator's gRPC services: Lease for the agents and
// Admin for operators. It translates, and decides nothing about quota.
//
//	agent ─ Sync ─▶ one request at a time ─▶ Leader.Sync ─▶ answer
//	        ◀─────── pushes, newest per key ◀── Server.Push
//
// Every request of a stream is answered within a deadline, or the stream is
// abandoned: the agent then knows that nothing late can come. A reader that is
// too slow gets the newest assignments only; whatever a full queue drops, the
// next answer repeats.
//
// Only the leader serves. A follower answers FAILED_PRECONDITION with a
// LeaderHint in the status details. This package is the only place where errors
// become status codes.
package rpc
