// Package fault says what goes wrong in a simulated run, and how often.
//
// A Plan is drawn from a seed in swarm style: each seed leaves most faults out and
// makes the others strong, so that every pair of faults meets without a third one
// that hides it. What is drawn is plain data: it is printed before a run and can
// be written down as a scenario.
package fault

import (
	"math/rand/v2"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/netsim"
	"github.com/quorate/quorate/sim/replog"
)

// Plan is what goes wrong. The zero Plan is a perfect world. A time is the mean
// distance between two faults of a kind, 0 for never.
type Plan struct {
	Network netsim.Faults `json:"network"`
	Log     replog.Faults `json:"log"`
	// DriftPPM is by how much the clock of a machine is fast or slow at most.
	DriftPPM int64 `json:"drift_ppm"`
	// Elections depose the leader. Loyal is the probability that one region goes on
	// asking the deposed one for a while, which does not notice: both are on the
	// same side of a partition, or its machine was paused.
	Elections quota.Micros `json:"elections"`
	Loyal     float64      `json:"loyal"`
	// Partitions cut a region off, both ways or one way.
	Partitions quota.Micros `json:"partitions"`
	// Resets restart a region's store, empty or with an older state.
	Resets quota.Micros `json:"resets"`
	// Outages make a region's store unreachable for a while; Frozen is the
	// probability that its clock stands meanwhile, as a paused machine's does: that
	// breaks an assumption of the Bound.
	Outages quota.Micros `json:"outages"`
	Frozen  float64      `json:"frozen"`
	// LostReplies is the probability that the store executes a call and its
	// answer is lost.
	LostReplies float64 `json:"lost_replies"`
	// Kills end an agent's process without warning; it starts again.
	Kills quota.Micros `json:"kills"`
	// Steps set the wall clock of an agent, or suspend its machine.
	Steps quota.Micros `json:"steps"`
	// Edits change standing shares and weights; the limits stay.
	Edits quota.Micros `json:"edits"`
	// Nonsense is the part of rounds in which the leader also proposes what no
	// planner would.
	Nonsense float64 `json:"nonsense"`
}

// maxDriftPPM keeps the clocks of any two machines within rho = 1 % of each other.
const maxDriftPPM = 4_900

// Draw draws a plan that keeps every assumption of the Bound.
func Draw(r *rand.Rand) Plan {
	const ms = quota.Second / 1000
	pick := func(values ...quota.Micros) quota.Micros { return values[r.IntN(len(values))] }
	sometimes := func(most float64) float64 { return r.Float64() * most * float64(r.IntN(2)) }
	return Plan{
		Network: netsim.Faults{
			Delay: pick(0, 1, 20, 75) * ms, Jitter: pick(0, 2, 80, 400, 1500, 2500) * ms,
			Loss: sometimes(0.3), Duplicate: sometimes(0.3), Late: sometimes(0.1), Held: sometimes(1),
		},
		Log: replog.Faults{
			Commit: pick(0, 1, 5) * ms, CommitJitter: pick(0, 1, 40, 300) * ms,
			Lost: sometimes(0.2), Unknown: sometimes(0.2),
		},
		DriftPPM:    int64(pick(0, maxDriftPPM)),
		Elections:   pick(0, 0, 3, 8, 30) * quota.Second,
		Loyal:       sometimes(1),
		Partitions:  pick(0, 0, 5, 15) * quota.Second,
		Resets:      pick(0, 0, 10, 20) * quota.Second,
		Outages:     pick(0, 0, 0, 10) * quota.Second,
		LostReplies: sometimes(0.1),
		Kills:       pick(0, 0, 10) * quota.Second,
		Steps:       pick(0, 0, 0, 15) * quota.Second,
		Edits:       pick(0, 0, 5, 15) * quota.Second,
		Nonsense:    float64(r.IntN(3)) / 2,
	}
}

// DrawSparse draws a plan for a world of many hours: the faults of Draw, minutes to
// hours apart, so that what one of them has left behind meets the quiet after it. It
// keeps every assumption of the Bound.
func DrawSparse(r *rand.Rand) Plan {
	const ms, minute = quota.Second / 1000, 60 * quota.Second
	pick := func(values ...quota.Micros) quota.Micros { return values[r.IntN(len(values))] }
	sometimes := func(most float64) float64 { return r.Float64() * most * float64(r.IntN(2)) }
	return Plan{
		Network: netsim.Faults{
			Delay: pick(0, 1, 20, 75) * ms, Jitter: pick(0, 2, 80, 400, 1500) * ms,
			Loss: sometimes(0.1), Duplicate: sometimes(0.1), Late: sometimes(0.02), Held: sometimes(1),
		},
		Log: replog.Faults{
			Commit: pick(0, 1, 5) * ms, CommitJitter: pick(0, 1, 40, 300) * ms,
			Lost: sometimes(0.05), Unknown: sometimes(0.05),
		},
		DriftPPM:    int64(pick(0, maxDriftPPM, maxDriftPPM, maxDriftPPM)),
		Elections:   pick(0, 0, 20, 120) * minute,
		Loyal:       sometimes(1),
		Partitions:  pick(0, 0, 20, 60) * minute,
		Resets:      pick(0, 0, 60, 240) * minute,
		Outages:     pick(0, 0, 30, 120) * minute,
		LostReplies: sometimes(0.1),
		Kills:       pick(0, 0, 60) * minute,
		Steps:       pick(0, 0, 60) * minute,
		Edits:       pick(0, 0, 20, 120) * minute,
		Nonsense:    sometimes(0.01),
	}
}

// Calm returns the plan of a world that has healed: the network and the log as
// fast as they were, and nothing lost any more.
func (p Plan) Calm() Plan {
	c := Plan{DriftPPM: p.DriftPPM}
	c.Network.Delay = p.Network.Delay
	c.Log.Commit = p.Log.Commit
	return c
}
