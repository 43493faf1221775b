package sim

import (
	"math/rand/v2"

	"github.com/quorate/quorate/coordinator/rules"
)

// overridden lets the requests for the last key bring a limit of their own, in every
// fifth of the worlds: in the place of the rule's, or where no rule matches. Which worlds
// these are is drawn apart, so that the others stay what they are. A limit by the second
// has some tokens of burst for each region: with next to none the planner takes turns, and
// Liveness asks for more than that gives.
func overridden(p Plan, seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0x550))
	if r.IntN(5) != 0 {
		return p
	}
	limits := []string{"20/second", "40/second", "60/second", "5/minute", "30/minute", "20/hour"}
	k := &p.Keys[len(p.Keys)-1]
	k.Override, _ = rules.ParseOverride(limits[r.IntN(len(limits))])
	if r.IntN(2) == 0 {
		k.Entries = []rules.Entry{{Key: "guest", Value: k.Entries[0].Value}}
	}
	return p
}
