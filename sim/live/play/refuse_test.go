package play

import (
	"errors"
	"strings"
	"testing"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/scenario"
)

func TestWhatCannotBePlayedIsRefusedWithItsPlace(t *testing.T) {
	const head = "limit: {rate: 10}\nregions: [eu, us]\nduration: 60s\n"
	const load = "load: [{steady: 5}]\n"
	for _, tt := range []struct{ reason, text, want string }{
		{"TCP repeats nothing", head + load + "network: {duplicate: 0.1}\n", "x.yaml:5:11: not possible with real processes: a TCP"},
		{"Raft loses no proposal", head + load + "log: {lost: 0.1}\n", "x.yaml:5:7: "},
		{"Raft knows the outcome", head + load + "log: {commit: 1ms, unknown: 0.1}\n", "x.yaml:5:20: "},
		{"the machine's clock goes on", head + load + "faults: {outages: 5s, frozen: 0.5}\n", "x.yaml:5:23: not possible with real processes: a redis-server reads"},
		{"no line to a primary", head + load + "faults: {lost_replies: 0.5}\nlive: {sentinel: true}\n", "x.yaml:5:10: not possible with real processes: Sentinels"},
		{"windows by the clocks of the agents", "limit: {rate: 10, unit: minute, algorithm: fixed_window}\nregions: [eu, us]\nduration: 60s\n" + load, "x.yaml:1:1: not possible with real processes: nobody outside"},
		{"a real planner", head + load + "faults: {nonsense: 0.5}\n", "x.yaml:5:10: "},
		{"nobody to fail over to", head + load + "live: {events: [{at: 1s, do: failover, region: eu}]}\n", "x.yaml:5:17: a fail-over needs a second Redis"},
		{"a node that there is not", head + load + "live: {events: [{at: 1s, do: freeze, on: n5, for: 1s}]}\n", "there are 3 coordinators, and n5 is none of them"},
		{"too many processes", "limit: {rate: 10}\nregions: [{name: eu, agents: 80}]\nduration: 60s\n" + load, "x.yaml:2:1: they need 84 processes"},
		{"too much demand", head + "load: [{steady: 15000}]\n", "x.yaml:4:1: it may reach 30000 requests a second"},
		{"a region without weight", "limit: {rate: 10}\nregions: [eu, {name: us, weight: 0}]\nduration: 60s\n" + load, "needs a weight of at least 1"},
		{"a sliding window", "limit: {rate: 10, algorithm: sliding_window_log}\nregions: [eu, us]\nduration: 60s\n" + load, "x.yaml:1:1: not possible with real processes: a sliding_window_log is audited in virtual time only"},
		{"limits that requests bring", "rules: |\n  domain: d\n  descriptors: []\nkeys: [{descriptor: {a: b}, override: 5/second}]\nregions: [eu, us]\nduration: 60s\n" + load, "x.yaml:4:1: not possible with real processes: limits that requests bring"},
		{"debts", "limit: {rate: 10, max_debt: 5}\nregions: [eu, us]\nduration: 60s\n" + load, "x.yaml:1:1: not possible with real processes: debts are audited"},
		{"refunds", head + "load: [{steady: 5, afterwards: refund}]\n", "x.yaml:4:1: not possible with real processes: refunds and settlements"},
		{"no time to judge", head + load + "heal: 50s\n", "x.yaml:5:1: the load goes on for 10s after it"},
	} {
		s, err := scenario.Parse("x.yaml", tt.text)
		if err != nil {
			t.Fatalf("%s: %v", tt.reason, err)
		}
		_, err = Run(t.Context(), Options{Scenario: s})
		var problems rules.Problems
		if !errors.As(err, &problems) || len(problems) != 1 || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: have %v, want %q", tt.reason, err, tt.want)
		}
	}
}
