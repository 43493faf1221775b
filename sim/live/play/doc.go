// Package play runs a scenario of package scenario on real processes: the demand,
// limits and faults that a run in virtual time has are done to a live.World, and
// what cannot be done to one is refused with its place in the file. Nothing that a
// scenario says is left out.
//
//	scenario ──► stage: times, rules, a World ──► live.World ──► tracks ──► Report
//	                 └──► conductor: faults ────────┘
//
// How the words of a scenario become real:
//
//	network delay, jitter     the links of agents to coordinators
//	network loss, late        packets that TCP sends again later, lines that stand for a while
//	network held              the part of connections that outlive a cut; the others break
//	log commit, jitter        the links of coordinators to each other, half each way
//	clocks drift_ppm          the clocks that agents read; stores and coordinators read
//	                          this machine's, so nothing differs by more than is said
//	elect, elections          the leader is killed; at random also stopped or isolated
//	loyal                     an isolated leader that one region still reaches
//	cut, partitions           links that hold what they should carry, one way or both
//	reset, resets             a redis-server that is killed and started again
//	outage, outages           a redis-server that is stopped (SIGSTOP)
//	sentinel, failover        a primary that is killed; Sentinels promote its replica, and
//	                          agents learn of it from them
//	lost_replies              a connection to Redis that breaks instead of answering
//	kill, kills               kill -9 of an agent, which starts again
//	steps                     the clocks that an agent reads are set
//	edit, edits               the operator's calls
//
// A machine has one clock that no scenario can stop, Raft takes no proposals from
// anybody, and TCP does not repeat what it carries: frozen, nonsense, lost, unknown
// and duplicate are refused.
//
// When everything has healed, the final load runs for three TTLs and then some: by
// then every region must get its fair share. Where one does not, it is measured
// again, twice at most, and the report says so: this machine may have been too busy.
// A scenario that does not heal by itself is healed at its end.
package play
