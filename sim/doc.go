// Package sim runs the production ledger, planner, lease, demand, enforce and
// bucket packages in one goroutine over virtual time, with a simulated log,
// network, regional stores and clocks, and proves the Bound on what they admit.
//
//	workload ──► agent: enforce ──► store: bucket        check: auditor
//	               │  lease, demand                        ▲   ▲
//	             netsim                            admissions  every entry
//	               │                                           │
//	             leader: planner, ledger ──► replog ──► truth: ledger
//
// A Plan describes a run: regions, rules, load, faults. The same plan and seed
// give the same run, event by event. Swarm draws plans from seeds; package
// scenario reads one from a file. Run returns a Report of what was admitted, what went
// wrong, and which promise was broken, if any.
//
// What replaces the adapters is kept as small as it can be, and where it decides
// anything it says which production code it stands for.
package sim
