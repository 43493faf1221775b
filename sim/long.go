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

// LongEvery is the distance of the seeds whose worlds are long.
const LongEvery = 20

const longName = "long"

// Draw draws the plan of a seed: a long world for every LongEvery-th one, else one
// of the swarm.
func Draw(seed uint64) Plan {
	if seed%LongEvery == 0 {
		return Long(seed)
	}
	return Swarm(seed)
}

// Long draws a world of 10 to 30 hours: 20 in the mean, so that 100,000 seeds have
// 100,000 hours. It is for what adds up, or takes its time: clocks that are as fast
// and as slow as they may be, limits per hour and per day, leases that become idle,
// accounts that are dropped and opened again, cuts that last for hours, thousands of
// renewals and terms. Everything runs at its usual pace, ticks, renewals and all;
// only the demand and what goes wrong come minutes apart.
func Long(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0xc2b2ae3d27d4eb4f))
	pick := func(values ...int) int { return values[r.IntN(len(values))] }
	const minute, hour = 60 * quota.Second, 3600 * quota.Second
	p := Plan{Name: longName, Faults: fault.DrawSparse(r), Duration: quota.Micros(10+r.IntN(21)) * hour}
	l := longLimit{unit: []string{"second", "minute", "hour", "day"}[r.IntN(4)], burst: pick(10, 40)}
	l.rate = map[string]int{"second": 1, "minute": pick(5, 30), "hour": pick(20, 100), "day": pick(50, 500)}[l.unit]
	names := []string{"ap", "eu", "us"}[:2+r.IntN(2)]
	agents := pick(1, 1, 1, 2)
	for _, n := range names {
		p.Regions = append(p.Regions, Region{Name: n, Weight: int64(1 + r.IntN(3)), Agents: agents})
	}
	p.Rules = l.document(pick(0, 1, 3, 8))
	for range 3 {
		p.Edited = append(p.Edited, l.document(r.IntN(9)))
	}
	for _, user := range []string{"ann", "bob"} {
		p.Keys = append(p.Keys, Key{Domain: "api", Entries: []rules.Entry{{Key: "user", Value: user}}})
	}
	quiet := time.Duration(pick(17, 43, 97)) * time.Minute
	storm := time.Duration(pick(2, 5, 10)) * time.Second
	little := float64(pick(0, 1, 4)) / 1000
	for _, n := range names {
		for k := range p.Keys {
			p.Load = append(p.Load, Load{
				Region: n, Key: k, Cost: 1, MostCost: uint32(pick(1, 3)),
				Curve: workload.Curve{
					Points: []workload.Point{{PerSecond: little}, {At: quiet, PerSecond: little}, {At: quiet, PerSecond: 8}, {At: quiet + storm, PerSecond: 8}},
					Period: quiet + storm,
				},
			})
		}
	}
	// What lasts for minutes to hours is too much for the faults at random times.
	for _, kinds := range [][2]Kind{{Cut, Mend}, {Outage, Back}} {
		for range r.IntN(3) {
			from := quota.Micros(r.Int64N(int64(p.Duration - 3*hour)))
			region := names[r.IntN(len(names))]
			until := from + minute + quota.Micros(r.Int64N(int64(2*hour)))
			p.Events = append(p.Events, Event{At: from, Kind: kinds[0], Region: region}, Event{At: until, Kind: kinds[1], Region: region})
		}
	}
	if l.unit == "second" && r.IntN(2) == 0 {
		p.Heal = p.Duration
		p.Duration += minute
		for _, n := range names {
			for k := range p.Keys {
				p.Final = append(p.Final, Load{Region: n, Key: k, Cost: 1, Curve: workload.Steady(float64(l.rate) * r.Float64() * 2)})
			}
		}
	}
	if l.unit == "minute" || l.unit == "hour" {
		return counted(p, seed, 2, windowed(l.unit))
	}
	return p
}

// longLimit is the limit of a long world; its standing share is edited.
type longLimit struct {
	rate  int
	unit  string
	burst int
}

func (l longLimit) document(standingTenths int) []quota.Source {
	return []quota.Source{{Name: "api.yaml", Text: fmt.Sprintf(`domain: api
descriptors:
  - key: user
    rate_limit:
      requests_per_unit: %d
      unit: %s
      quota: {burst: %d, standing_share: %g, on_store_failure: deny}
`, l.rate, l.unit, l.burst, float64(standingTenths)/10)}}
}
