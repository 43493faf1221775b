package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/workload"
)

// A key without standing shares is served from its first request on, if its first
// lease comes within cold_start_wait.
func TestTheFirstRequestOfAKeyWaitsForItsLease(t *testing.T) {
	for _, tt := range []struct {
		reason           string
		oneWay           quota.Micros
		admitted, waited bool
	}{
		{"the coordinator is near", 20_000, true, true},
		{"farther away than the wait is long", 200_000, false, true},
	} {
		p := Swarm(1)
		p.Faults = p.Faults.Calm()
		p.Faults.DriftPPM, p.Faults.Network.Delay, p.Faults.Log.Commit = 0, tt.oneWay, 5000
		p.Rules, p.Heal, p.Final, p.Duration = document(swarmLimit{20, "requests_per_unit: 20", "burst: 40"}, 0, "deny"), 0, nil, 20*quota.Second
		// One burst of requests, after the regions have their sessions.
		p.Load = []Load{{Region: p.Regions[0].Name, Cost: 1, Curve: workload.Curve{Points: []workload.Point{
			{At: 0}, {At: 10 * time.Second}, {At: 10 * time.Second, PerSecond: 40}, {At: 10*time.Second + 200*time.Millisecond, PerSecond: 40}, {At: 10*time.Second + 200*time.Millisecond},
		}}}}
		r, err := Run(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		k := r.Keys[0]
		if k.Offered == 0 {
			t.Fatalf("%s: nobody asked", tt.reason)
		}
		if have := k.Admitted == k.Offered; have != tt.admitted {
			t.Errorf("%s: admitted %v of %v", tt.reason, k.Admitted, k.Offered)
		}
		if have := r.Counts["requests that waited for a first lease"] > 0; have != tt.waited {
			t.Errorf("%s: waited: have %v, want %v", tt.reason, have, tt.waited)
		}
	}
}
