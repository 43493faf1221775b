package bench

import "testing"

// Every workload runs on every system, keeps its promises and lets through what a
// limiter that works must.
func TestEveryWorkloadOnEverySystem(t *testing.T) {
	for _, w := range Workloads() {
		if testing.Short() && len(w.Plan.Keys) > 1 {
			continue
		}
		results, err := Run(w, 1)
		if err != nil {
			t.Error(err)
			continue
		}
		for i, r := range results {
			if r.System != Systems[i] || r.Workload != w.Name {
				t.Errorf("%s: have %s of %s, want %s", w.Name, r.System, r.Workload, Systems[i])
			}
			switch r.System {
			case "quorate", "static":
				if r.OvershootTokens != 0 || r.Utilization > 1 {
					t.Errorf("%s: %s overshoots by %v, utilization %v", w.Name, r.System, r.OvershootTokens, r.Utilization)
				}
			case "ideal":
				if r.OvershootTokens != 0 || r.Utilization != 1 {
					t.Errorf("%s: the ideal overshoots by %v, utilization %v", w.Name, r.OvershootTokens, r.Utilization)
				}
			}
		}
	}
}
