// Package live builds a small world out of the real parts on one machine and
// lets a program or a test break it: coordinator nodes and agents as processes of
// their own, a Redis per region, a wide-area network between them, real load, and
// an auditor.
//
//	load ──gRPC──► agent ──► the region's Redis           one per region
//	  │              │
//	  │              └─ link per agent and coordinator ─┐   delayed, can be cut
//	  ▼                                                 ▼
//	auditor                   coordinator ◄─link─► coordinator ◄─link─► …
//
// Nodes are processes because a kill must be a kill: SIGKILL leaves no last
// report, no released lease and no handed-over leadership, and a stopped process
// (SIGSTOP) is what a frozen machine looks like. The program starts itself again
// for each of them, so it calls Main before anything else.
//
// The auditor (package check) sees what the load clients see, with one clock: when
// a request was sent and when its answer arrived. It knows nothing of leases.
//
// Everything listens on the loopback interface and ends with Close, or when the
// process that started it dies: a reaper then kills the group that all processes are
// in, those that are stopped as well.
package live
