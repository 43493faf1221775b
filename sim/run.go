package sim

import (
	"encoding/hex"
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// Report is what a run found.
type Report struct {
	Plan string `json:"plan"`
	Seed uint64 `json:"seed"`
	// SimSeconds is the virtual time that passed.
	SimSeconds float64           `json:"sim_seconds"`
	Keys       []KeyReport       `json:"keys"`
	Violations []Violation       `json:"violations"`
	Entries    int               `json:"log_entries"`
	Messages   int               `json:"messages"`
	Events     uint64            `json:"events"`
	Counts     Counts            `json:"counts"`
	Hash       string            `json:"hash"` // of the ledger at the end, and so of the run
	Cells      map[string][]Cell `json:"-"`
	Leases     []LeaseChange     `json:"-"` // with Plan.KeepLeases
}

// Counts say how often something happened.
type Counts map[string]int

// KeyReport is what became of one key.
type KeyReport struct {
	Key      quota.Key    `json:"key"`
	Offered  quota.Tokens `json:"offered_micro"`
	Admitted quota.Tokens `json:"admitted_micro"`
	Denied   quota.Tokens `json:"denied_micro"`
	Ideal    quota.Tokens `json:"ideal_micro"`
	// DeniedWhileThere is what of Denied one central bucket could have admitted, on
	// top of what was.
	DeniedWhileThere quota.Tokens `json:"denied_while_available_micro"`
	// GivenBack is what was given back of Admitted; Uncharged is what of Offered was
	// settled and could not be charged.
	GivenBack quota.Tokens `json:"given_back_micro,omitempty"`
	Uncharged quota.Tokens `json:"uncharged_micro,omitempty"`
	// Overshoot is the worst over every window, 0 when the Bound was kept.
	Overshoot quota.Tokens `json:"overshoot_micro"`
	// Regions is what of Admitted each region admitted; Limit is what it was for.
	Regions map[string]quota.Tokens `json:"regions_micro"`
	Limit   quota.Limit             `json:"-"`
	// MaxDebt is how far below zero a region's bucket may be.
	MaxDebt quota.Tokens `json:"-"`
	// Windows is what was admitted in each window of a limit that counts in windows, in
	// their order; the other figures are sums over them.
	Windows []quota.Tokens `json:"windows_micro,omitempty"`
}

// Utilization is what was admitted of what one central bucket would have
// admitted of the same requests; 1 when that is nothing.
func (k KeyReport) Utilization() float64 {
	if k.Ideal == 0 {
		return 1
	}
	return float64(k.Admitted) / float64(k.Ideal)
}

// Broken reports whether any promise was broken.
func (r Report) Broken() bool { return len(r.Violations) > 0 }

// Run runs a plan. The same plan and seed give the same report. These promises
// are checked, beside the ledger's invariants:
//
//	Bound     no window has more than B + R*W, with what the clocks' rates differ, and
//	          R for the microsecond in which they are read; of a sliding log no window
//	          of its length has more than its limit, and of a counter e times that;
//	          what is given back is taken off, and max_debt of each region comes on top
//	Worst     the same where an assumption was broken on purpose: no more beyond
//	          than the leases of the regions where it was
//	Lease     nothing is admitted on a lease or a share that the ledger does not
//	          count for the region at that moment; not where a clock stood still
//	Tokens    what could be spent at once, in pools, buckets and on the way, is never
//	          more than what one central bucket would still have
//	Debt      no take leaves a bucket below -max_debt, only settlements take of one that
//	          is not above zero, and they are charged down to there
//	Edit      a region is taken to have adopted rules when no agent that its leader knows
//	          decides by older ones
//	Liveness  after healing, every region gets 95 % of its fair share within three TTLs;
//	          a window that begins after them admits 90 % of what is asked for, but for
//	          the standing shares of regions that may not ask. What a region owed then
//	          it pays of its share
func Run(p Plan, seed uint64) (Report, error) { return Trace(p, seed, nil) }

// Trace is Run and tells what happens, line by line.
func Trace(p Plan, seed uint64, trace func(at quota.Micros, line string)) (Report, error) {
	w, err := newWorld(p, seed)
	if err != nil {
		return Report{}, err
	}
	w.trace = trace
	w.loop.Run(w.plan.Duration)
	return w.report(), nil
}

func (w *World) report() Report {
	r := Report{
		Plan: w.plan.Name, Seed: w.seed, SimSeconds: float64(w.plan.Duration) / float64(quota.Second),
		Entries: w.entries, Messages: w.messages, Events: w.loop.Events(), Cells: w.audit.cells, Leases: w.audit.leases,
	}
	for i, t := range w.audit.keys {
		k := KeyReport{
			Key: w.keys[i].key, Offered: t.offered, Denied: t.denied,
			Regions: t.admitted, Limit: w.keys[i].limit, MaxDebt: w.keys[i].first.MaxDebt, GivenBack: t.givenBack, Uncharged: t.uncharged,
		}
		t.sum(&k, w.indebtedness(i))
		switch allowed := w.allowed(i); {
		case k.Overshoot > allowed && allowed == 0:
			w.violate("Bound", "%v tokens more of %s than its bound in some window", k.Overshoot, k.Key)
		case k.Overshoot > allowed:
			w.violate("Worst", "%v tokens more of %s than its bound in some window, and %v is the most that the broken assumptions allow", k.Overshoot, k.Key, allowed)
		case k.Overshoot > 0:
			w.count("overshoot within the worst case")
		}
		r.Keys = append(r.Keys, k)
		if w.healed {
			w.checkLiveness(i)
		}
	}
	w.checkReplicas()
	for what, n := range map[string]int{
		"messages lost": w.net.Lost, "messages repeated": w.net.Repeated, "messages cut off": w.net.Blocked,
		"proposals lost": w.log.LostOnes, "outcomes unknown": w.log.UnknownOnes, "proposals of the deposed": w.log.Stale,
	} {
		if n > 0 {
			w.counts[what] += n
		}
	}
	r.Violations, r.Counts = w.audit.violations, w.counts
	hash := w.truth.Hash()
	r.Hash = hex.EncodeToString(hash[:8])
	return r
}

// allowed is the Worst case: what may be admitted beyond the Bound because clocks
// stood still, each a lease and what it earns in a TTL.
func (w *World) allowed(k int) quota.Tokens {
	frozen := quota.Tokens(w.counts["store clocks frozen"])
	if frozen == 0 {
		return 0
	}
	limit := w.keys[k].limit
	if w.keys[k].first.Windowed() {
		return 0 // what a session held counts as spent, and nothing is refilled
	}
	return frozen * (limit.Burst + limit.Rate.In(quota.MicrosOf(w.plan.Timing.TTL)).Tokens)
}

// checkReplicas compares the ledger of the last leader with the truth.
func (w *World) checkReplicas() {
	l := w.leaders[len(w.leaders)-1]
	if l.memory == nil {
		return
	}
	_, _ = l.catchUp(w.log.Len()) // what entries were refused says nothing here
	if have, want := l.ledger.Hash(), w.truth.Hash(); have != want {
		w.violate("I8", "two ledgers differ at index %d", w.truth.Index())
	}
}

// measureFrom is when regions must have their fair share: three TTLs after the
// world has healed.
func (w *World) measureFrom() quota.Micros {
	return w.plan.Heal + 3*quota.MicrosOf(w.plan.Timing.TTL)
}

// checkLiveness compares what each region admitted at the end with its fair share
// of the limit, by the demand of the final load.
func (w *World) checkLiveness(k int) {
	if w.keys[k].first.Windowed() {
		w.checkWindows(k)
		return
	}
	span := float64(w.plan.Duration-w.measureFrom()) / float64(quota.Second)
	if span <= 0 {
		return
	}
	wants := make([]float64, len(w.regions))
	weights := make([]float64, len(w.regions))
	cost := 1.0
	for _, l := range w.plan.Final {
		if l.Key != k {
			continue
		}
		cost = max(cost, float64(l.Cost), float64(l.MostCost))
		i := slices.IndexFunc(w.regions, func(r *region) bool { return r.name == l.Region })
		wants[i] += l.Curve.At(0) * float64(max(l.Cost, 1)+max(l.MostCost, l.Cost, 1)) / 2
	}
	limit, shares := w.keys[k].limit, w.truth.Current().Shares
	taken := make([]float64, len(wants))
	for i, r := range w.regions {
		weight, _ := limit.WeightOf(r.name, shares)
		weights[i] = float64(weight)
		// A standing share that nobody asks for is not given to others.
		taken[i] = max(crowded(limit, wants[i]), limit.Steady(limit.StandingShare(r.name, shares)).PerSecond())
	}
	fair := waterFill(limit.Steady(limit.Capacity).PerSecond(), taken, weights)
	for i, r := range w.regions {
		have := float64(w.audit.keys[k].final[r.name]+w.audit.keys[k].paid[r.name]) / float64(quota.Token)
		want := min(fair[i], wants[i]) * span
		// Arrivals are random, and tokens come whole.
		slack := 4*math.Sqrt(want*cost) + 2*cost
		if want > 0 && have < 0.95*want*evenly(limit, fair[i])-slack {
			w.violate("Liveness", "%s admitted %.0f of %s in the last %.0f s; its fair share is %.0f", r.name, have, w.keys[k].key, span, want)
		}
	}
}

// FairShares returns what each region should get of the first key's limit, in
// tokens a second, by the plan's load at a time: see Divide.
func FairShares(p Plan, at time.Duration) map[string]float64 {
	w, err := newWorld(p, 0)
	if err != nil {
		return nil
	}
	wants := map[string]float64{}
	for _, l := range p.Load {
		if l.Key == 0 {
			wants[l.Region] += l.Curve.At(at) * float64(max(l.Cost, 1)+max(l.MostCost, l.Cost, 1)) / 2
		}
	}
	return Divide(w.keys[0].limit, p.shares(), wants)
}

// Divide returns what each region of a share table should get of a limit, in tokens
// a second, by what each wants: weighted max-min fairness, in which standing shares
// that nobody asks for are not given to others.
func Divide(limit quota.Limit, shares quota.Shares, wants map[string]float64) map[string]float64 {
	taken, weights := make([]float64, len(shares)), make([]float64, len(shares))
	for i, s := range shares {
		weight, _ := limit.WeightOf(s.Region, shares)
		weights[i] = float64(weight)
		taken[i] = max(wants[s.Region], limit.Steady(limit.StandingShare(s.Region, shares)).PerSecond())
	}
	fair := map[string]float64{}
	for i, got := range waterFill(limit.Steady(limit.Capacity).PerSecond(), taken, weights) {
		fair[shares[i].Region] = got
	}
	return fair
}

// waterFill divides a rate by weighted max-min fairness: nobody gets more than it
// wants, and what is left goes to the others by weight. It is written apart from
// package fairshare, which it judges.
func waterFill(rate float64, wants, weights []float64) []float64 {
	got := make([]float64, len(wants))
	for range wants {
		total := 0.0
		for i := range wants {
			if got[i] < wants[i] {
				total += weights[i]
			}
		}
		if rate <= 1e-9 || total == 0 {
			break
		}
		// The level at which the first of them has enough.
		level := rate / total
		for i := range wants {
			if got[i] < wants[i] && weights[i] > 0 {
				level = min(level, (wants[i]-got[i])/weights[i])
			}
		}
		for i := range wants {
			if got[i] < wants[i] {
				got[i] += level * weights[i]
				rate -= level * weights[i]
				if wants[i]-got[i] < 1e-9 {
					got[i] = wants[i]
				}
			}
		}
	}
	return got
}
