package sim

import (
	"cmp"
	"slices"
)

// state is a kind of thing that a run counts.
type state int

const (
	fired   state = iota + 1 // a fault that was done to it
	reached                  // something that it came to
)

// states are the counts that a long sweep must see: what is counted and not in
// it is as good, but nobody misses it.
var states = map[string]state{
	"elections":                         fired,
	"regions loyal to a deposed leader": fired,
	"partitions":                        fired,
	"store resets":                      fired,
	"stores rolled back":                fired,
	"store outages":                     fired,
	"store clocks frozen":               fired,
	"store calls failed":                fired,
	"store replies lost":                fired,
	"agents killed":                     fired,
	"agent clocks upset":                fired,
	"edits":                             fired,
	"proposals lost":                    fired,
	"outcomes unknown":                  fired,
	"proposals of the deposed":          fired,
	"messages lost":                     fired,
	"messages repeated":                 fired,
	"messages cut off":                  fired,

	"draws ahead":                                                   reached,
	"admitted by tokens drawn ahead":                                reached,
	"assignments that waited for drawn tokens":                      reached,
	"shares lent":                                                   reached,
	"loans borrowed":                                                reached,
	"loans ended":                                                   reached,
	"loans taken over by a new incarnation":                         reached,
	"assignments applied":                                           reached,
	"assignments applied again":                                     reached,
	"assignments that the store refused":                            reached,
	"credits that travelled":                                        reached,
	"surrenders":                                                    reached,
	"releases":                                                      reached,
	"configurations adopted":                                        reached,
	"renewals that the store refused":                               reached,
	"sessions ended":                                                reached,
	"sessions marked silent":                                        reached,
	"sessions cleared of a mark":                                    reached,
	"sessions replaced by a new incarnation":                        reached,
	"sessions dropped by their region":                              reached,
	"accounts dropped":                                              reached,
	"leadership checks that failed":                                 reached,
	"syncs refused: busy":                                           reached,
	"syncs refused: second store":                                   reached,
	"syncs without an answer":                                       reached,
	"answers that were late, repeated or not asked for":             reached,
	"stale takes":                                                   reached,
	"local debts charged":                                           reached,
	"admitted without the store":                                    reached,
	"admitted of an override":                                       reached,
	"refunds":                                                       reached,
	"refunds that were lost, or a part of them":                     reached,
	"settlements that charged":                                      reached,
	"settlements that left something uncharged":                     reached,
	"debts made":                                                    reached,
	"debts lost with their store":                                   reached,
	"requests without a decision":                                   reached,
	"requests that waited for a first lease":                        reached,
	"first leases in time":                                          reached,
	"denied: lease_empty":                                           reached,
	"denied: global_exhausted":                                      reached,
	"denied: coordinator_unreachable":                               reached,
	"denied: store_degraded":                                        reached,
	"refused: ledger.Assign assignment in flight":                   reached,
	"refused: ledger.Assign credit exceeds level or growth":         reached,
	"refused: ledger.Assign epoch has moved":                        reached,
	"refused: ledger.Assign lease below the standing share":         reached,
	"refused: ledger.Assign not the live session of the region":     reached,
	"refused: ledger.Assign pool has no room for the growth":        reached,
	"refused: ledger.Confirm not in flight":                         reached,
	"refused: ledger.Confirm not the live session of the region":    reached,
	"refused: ledger.Drop account is in use":                        reached,
	"refused: ledger.EndSession not the live session of the region": reached,
	"refused: ledger.Offer pool has no room for the growth":         reached,
	"refused: ledger.OpenSession region has a live session":         reached,
	"leases and loans used after their end":                         reached,
	"overshoot within the worst case":                               reached,
}

func (s *Sweep) sort() {
	slices.Sort(s.Unreached)
	slices.SortFunc(s.Failed, func(a, b Report) int { return cmp.Compare(a.Seed, b.Seed) })
}

// IsFault reports whether a count says how often something was done to a run.
func IsFault(what string) bool { return states[what] == fired }
