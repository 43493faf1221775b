package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/fault"
	"github.com/quorate/quorate/sim/workload"
)

// Swarm draws a plan from a seed: a small limit, few regions, storms after quiet
// times, since a token too many shows only when every bucket has had time to fill
// and all regions then take what they can at once; and a random set of faults.
// Half of the runs heal after a minute.
func Swarm(seed uint64) Plan { return amended(overridden(swarm(seed), seed), seed) }

// swarm is Swarm without limits that requests bring, and without refunds and settlements.
func swarm(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0xda942042e4dd58b5))
	pick := func(values ...int) int { return values[r.IntN(len(values))] }
	p := Plan{
		Name: "swarm", Faults: fault.Draw(r),
		Duration: 60 * quota.Second,
	}
	if r.IntN(8) == 0 {
		// Some break the assumption that clocks run: the Worst case is theirs.
		p.Faults.Outages, p.Faults.Frozen = 10*quota.Second, 0.5
	}
	rate := pick(1, 4, 20)
	names := []string{"ap", "eu", "us", "sa"}[:2+r.IntN(3)]
	agents := 1 + r.IntN(2)
	onStoreFailure := "deny"
	if agents == 1 && p.Faults.Kills == 0 {
		// An agent that alone loses a store that others reach, or dies with what it
		// owes to it, is ahead by its part of the standing share.
		onStoreFailure = []string{"deny", "local"}[r.IntN(2)]
	}
	for _, n := range names {
		p.Regions = append(p.Regions, Region{Name: n, Weight: int64(1 + r.IntN(3)), Agents: agents})
	}
	limit := slidingLimit(seed, rate)
	p.Allowances = drawsAhead(seed)
	storming, most := 50.0, []int{1, 3, 15}
	if p.Allowances {
		limit, storming, most = busyLimit(seed), 300, []int{1, 1, 2}
	}
	p.Rules = document(limit, 0.3, onStoreFailure)
	for range 3 {
		p.Edited = append(p.Edited, document(limit, float64(r.IntN(9))/10, onStoreFailure))
	}
	for _, user := range []string{"ann", "bob"} {
		p.Keys = append(p.Keys, Key{Domain: "api", Entries: []rules.Entry{{Key: "user", Value: user}}})
	}
	// The same storms everywhere, but where nobody asks: such shares are lent. Which
	// these are is drawn apart, so that other worlds stay what they are.
	idle := rand.New(rand.NewPCG(seed, 0x10a2))
	some := idle.IntN(3) == 0
	asks := func() bool { return !some || idle.IntN(2) == 0 }
	quiet := time.Duration(pick(1, 5, 15)) * time.Second
	storm := time.Duration(pick(1, 4)) * time.Second / 2
	for _, n := range names {
		for k := range p.Keys {
			load := Load{
				Region: n, Key: k, Cost: 1, MostCost: uint32(pick(most...)),
				Curve: workload.Curve{
					Points: []workload.Point{{PerSecond: 2}, {At: quiet, PerSecond: 2}, {At: quiet, PerSecond: storming}, {At: quiet + storm, PerSecond: storming}},
					Period: quiet + storm,
				},
			}
			if asks() {
				p.Load = append(p.Load, load)
			}
		}
	}
	if r.IntN(2) == 0 {
		p.Heal, p.Duration = 60*quota.Second, 120*quota.Second
		for _, n := range names {
			for k := range p.Keys {
				if final := limit.rate * r.Float64() * 2; asks() {
					p.Final = append(p.Final, Load{Region: n, Key: k, Cost: 1, Curve: workload.Steady(final)})
				}
			}
		}
	}
	return counted(p, seed, 6, windowed("minute"))
}

// swarmLimit is the limit of a random world. It never changes.
type swarmLimit struct {
	rate  float64 // a second, in the long run
	rules string  // its part of the rule
	quota string  // and of the quota block
}

// slidingLimit draws a bucket, or now and then a sliding window: as short as a storm or
// longer than a session. That is drawn apart, so that other worlds stay what they are.
func slidingLimit(seed uint64, rate int) swarmLimit {
	r := rand.New(rand.NewPCG(seed, 0x51d1))
	if r.IntN(4) > 0 {
		return swarmLimit{float64(rate), fmt.Sprintf("requests_per_unit: %d", rate), "burst: 40"}
	}
	seconds := []int{1, 4, 15}[r.IntN(3)]
	algorithm := []string{"log", "log", "counter"}[r.IntN(3)]
	return swarmLimit{
		40 / float64(seconds), fmt.Sprintf("requests_per_unit: 40\n      unit_multiplier: %d", seconds), "algorithm: sliding_window_" + algorithm,
	}
}

// drawsAhead says in which worlds agents draw tokens ahead. That and their limit is drawn
// apart, so that other worlds stay what they are.
func drawsAhead(seed uint64) bool { return rand.New(rand.NewPCG(seed, 0xa13b)).IntN(6) == 0 }

// busyLimit draws a bucket of which it pays to draw ahead: storms ask for tokens many times
// in a tenth of a second, and find the bucket full.
func busyLimit(seed uint64) swarmLimit {
	r := rand.New(rand.NewPCG(seed, 0xb057))
	rate := []int{60, 200, 600}[r.IntN(3)]
	return swarmLimit{float64(rate), fmt.Sprintf("requests_per_unit: %d", rate), fmt.Sprintf("burst: %d", rate)}
}

// document is the rule under test. Its limit never changes; the standing share does.
func document(limit swarmLimit, standing float64, onStoreFailure string) []quota.Source {
	return []quota.Source{{Name: "api.yaml", Text: fmt.Sprintf(`domain: api
descriptors:
  - key: user
    rate_limit:
      %s
      unit: second
      quota: {%s, standing_share: %g, on_store_failure: %s}
`, limit.rules, limit.quota, standing, onStoreFailure)}}
}
