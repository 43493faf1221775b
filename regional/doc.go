// Package regional assembles one agent of a region: the front ends, the
// decision, the region's store and the sync loop to the coordinator.
//
//	Envoy ──gRPC──► envoyrls ─┐                  ┌─► redisbucket ──► the region's Redis
//	                          ├─► enforce.Decide ┤
//	client ─HTTP──► httpapi ──┘        │         └─► (away: local buckets)
//	                                   ▼ demand
//	                                 uplink ◄──gRPC stream──► coordinator
//	                                   │
//	                                   └─► sessions, leases, rules ──► the region's Redis
//
// Any number of agents share one region's Redis; none is special. An agent is
// ready once it has rules, from the coordinator or as the region's Redis kept
// them, and its Redis has answered once. It stays ready when either goes away
// later: then the failure ladder of each rule decides.
//
// An application can have an agent in its own process (Open), without ports: it asks
// Agent.Decide, a Limiter or a Keyed, or leaves that to the packages httplimit and
// grpclimit.
package regional
