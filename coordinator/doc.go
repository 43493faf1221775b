// Package coordinator assembles one coordinator node: New(Config), Run(ctx).
//
//	agents, operators          other nodes             files
//	       │ gRPC                  │ Raft                │ --rules
//	    rpc.Server            raftnode.Node           rulesDir
//	       │      Propose, Verify  │     ▲ SetRules      │
//	       ▼           ┌───────────┴─────┴───────────────┘
//	     term ─────────┤                   fsm.FSM ── ledger
//	  (planner.Term)   └─ rounds ──────────▶ Apply
//
// A node that leads serves one term at a time: a barrier, an entry that says
// where it serves, then rounds. A round asks the planner what to propose, commits
// it as one entry, and tells the planner what came of it. Renewals of sessions
// need no entry, but a leadership check that began after the request arrived.
//
// Whatever ends a component ends the node: Run returns after everything has
// stopped, and a supervisor starts the process again.
package coordinator
