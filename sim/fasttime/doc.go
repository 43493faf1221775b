// Package fasttime holds scenario tests of the whole system in virtual time: real
// hashicorp/raft on three coordinator nodes with their files on disk, and real
// agents, each assembled by the production packages coordinator and regional,
// inside testing/synctest bubbles. Minutes of failures take a second or two.
//
//	load ──► regional.Agent ──gRPC──► coordinator.Node ──Raft── coordinator.Node
//	              │                        │
//	          bucket.Store              bbolt, snapshots
//
// A goroutine that waits for a socket would stop virtual time, so three things
// are not real: the network (in memory; each link can be cut and has a delay),
// the region's Redis (package bucket's reference behind a mutex) and the clocks.
// Everything else is what the binaries run.
//
// One test, TestRandomLeaderIsolationOverTCP, has the same world in real time over
// TCP through package netproxy, a few seconds of it.
//
// Every test ends with the same verdict: an auditor that sees only admissions,
// with the bubble's clock, must find admitted <= B + R*W in every window, with no
// allowance. Where a policy of a rule gives up the Bound on purpose, the test
// says by how much.
//
// FASTTIME_LOG=1 prints what nodes and agents log, in virtual time. `make
// isolation` isolates leaders for longer, in virtual time and over TCP.
//
// The schedules of goroutines are not replayable: a failure here is real, but
// its seed is lost. Package sim, whose runs can be replayed, complements it.
package fasttime
