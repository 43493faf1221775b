package scenario

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/fault"
	"github.com/quorate/quorate/sim/netsim"
	"github.com/quorate/quorate/sim/replog"
	"github.com/quorate/quorate/sim/workload"
)

// good has every key of the grammar beside `rules` and `keys`.
const good = `
name: all of it
about: |
  What it shows.
seed: 7
limit: {rate: 100, unit: second, unit_multiplier: 2, burst: 50, standing_share: 0.2, weights: {eu: 3},
        on_disconnect: hold, on_store_failure: local, cold_start_wait: 0s}
regions:
  - eu
  - {name: us, weight: 2, agents: 3}
network: {delay: 75ms, jitter: 5ms, loss: 0.1, duplicate: 0.2}
log: {commit: 40ms, jitter: 1ms, lost: 0.3, unknown: 0.4}
clocks: {drift_ppm: 4900}
faults: {elections: 30s, partitions: 15s, resets: 20s, outages: 10s, frozen: 0.5, lost_replies: 0.1,
         kills: 11s, steps: 12s, edits: 13s, nonsense: 0.25}
settle: 3s
duration: 90s
load:
  - {region: eu, steady: 30/minute, cost: [1, 9]}
  - {region: [us, eu], step: {from: 1, to: 2, at: 20s}, cost: 4}
  - {region: us, flash: {base: 1, peak: 9, at: 5s, for: 2s}, every: 10s, key: tenant=acme}
  - {follow_the_sun: {night: 1, noon: 2, day: 24s}}
  - {region: eu, points: [[0s, 1], [1m, 2.5]], every: 1m}
events:
  - {at: 10s, do: cut, region: eu}
  - {at: 20s, do: elect}
edits:
  - {standing_share: 0.5}
heal: 30s
final: [{steady: 1}]
`

func TestEveryKeyIsRead(t *testing.T) {
	s, err := Parse("good.yaml", good)
	if err != nil {
		t.Fatal(err)
	}
	if s.About != "What it shows." || s.Seed != 7 || s.Plan.Name != "all of it" {
		t.Errorf("have about %q, seed %d, name %q", s.About, s.Seed, s.Plan.Name)
	}
	p, sec := s.Plan, quota.Second
	if want := []sim.Region{{Name: "eu", Weight: 1, Agents: 1}, {Name: "us", Weight: 2, Agents: 3}}; !reflect.DeepEqual(p.Regions, want) {
		t.Errorf("regions: have %v, want %v", p.Regions, want)
	}
	want := fault.Plan{
		Network:  netsim.Faults{Delay: 75_000, Jitter: 5_000, Loss: 0.1, Duplicate: 0.2},
		Log:      replog.Faults{Commit: 40_000, CommitJitter: 1_000, Lost: 0.3, Unknown: 0.4},
		DriftPPM: 4900, Elections: 30 * sec, Partitions: 15 * sec, Resets: 20 * sec, Outages: 10 * sec, Frozen: 0.5,
		LostReplies: 0.1, Kills: 11 * sec, Steps: 12 * sec, Edits: 13 * sec, Nonsense: 0.25,
	}
	if p.Faults != want {
		t.Errorf("faults: have %+v, want %+v", p.Faults, want)
	}
	// Times of the file count from the start of the load, those of a plan from 0.
	if p.Start != 3*sec || p.Duration != 93*sec || p.Heal != 33*sec {
		t.Errorf("times: have start %v, duration %v, heal %v", p.Start, p.Duration, p.Heal)
	}
	if want := []sim.Event{{At: 13 * sec, Kind: sim.Cut, Region: "eu"}, {At: 23 * sec, Kind: sim.Elect}}; !reflect.DeepEqual(p.Events, want) {
		t.Errorf("events: have %v, want %v", p.Events, want)
	}
	sun := workload.FollowTheSun(2, 1, 2, 24*time.Second)
	flash := workload.Flash(1, 9, 5*time.Second, 2*time.Second)
	flash.Period = 10 * time.Second
	loads := []sim.Load{
		{Region: "eu", Curve: workload.Steady(0.5), Cost: 1, MostCost: 9},
		{Region: "us", Curve: workload.Step(1, 2, 20*time.Second), Cost: 4},
		{Region: "eu", Curve: workload.Step(1, 2, 20*time.Second), Cost: 4},
		{Region: "us", Curve: flash, Cost: 1},
		{Region: "eu", Curve: sun[0], Cost: 1},
		{Region: "us", Curve: sun[1], Cost: 1},
		{Region: "eu", Curve: workload.Curve{Points: []workload.Point{{At: 0, PerSecond: 1}, {At: time.Minute, PerSecond: 2.5}}, Period: time.Minute}, Cost: 1},
	}
	if !reflect.DeepEqual(p.Load, loads) {
		t.Errorf("load: have %+v, want %+v", p.Load, loads)
	}
	if want := []sim.Load{{Region: "eu", Curve: workload.Steady(1), Cost: 1}, {Region: "us", Curve: workload.Steady(1), Cost: 1}}; !reflect.DeepEqual(p.Final, want) {
		t.Errorf("final: have %+v, want %+v", p.Final, want)
	}
	for i, standing := range []int64{200_000, 500_000} {
		set, err := rules.Parse(append(p.Edited[:1:1], p.Rules)[1-i])
		if err != nil {
			t.Fatal(err)
		}
		limit := set.Match(p.Keys[0].Domain, p.Keys[0].Entries).Limits[0]
		capacity := quota.Capacity{Rate: quota.Rate{Tokens: 100 * quota.Token, Per: 2 * sec}, Burst: 50 * quota.Token}
		if limit.Capacity != capacity || limit.Standing != standing || limit.Weights["eu"] != 3 || limit.OnDisconnect != rules.OnDisconnectHold {
			t.Errorf("document %d: have %+v", i, limit)
		}
	}
	if _, err := sim.Run(p, s.Seed); err != nil {
		t.Errorf("the plan is refused: %v", err)
	}
}

func TestRulesAndKeys(t *testing.T) {
	s, err := Parse("dir/two keys.yaml", `
rules: |
  domain: api
  descriptors:
    - {key: user, rate_limit: {unit: second, requests_per_unit: 5}}
edits:
  - |
    domain: api
    descriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: 5, quota: {standing_share: 0}}}]
keys:
  - {descriptor: {user: ann}}
  - {domain: api, descriptor: {user: u}, name: crowd, count: 3}
regions: [eu, us]
duration: 40s
heal: 5s
load:
  - {region: eu, key: crowd, step: {from: 1, to: 4, at: 3s}}
  - {region: us, steady: 1}
`)
	if err != nil {
		t.Fatal(err)
	}
	p := s.Plan
	var keys []string
	for _, k := range p.Keys {
		keys = append(keys, k.Domain+"/"+keyName(k.Entries))
	}
	if have, want := strings.Join(keys, " "), "api/user=ann api/user=u-1 api/user=u-2 api/user=u-3"; have != want {
		t.Errorf("keys: have %s, want %s", have, want)
	}
	// Without final, the demand of the moment of healing goes on.
	final := []sim.Load{
		{Region: "eu", Key: 1, Keys: 3, Cost: 1, Curve: workload.Steady(4)},
		{Region: "us", Key: 0, Cost: 1, Curve: workload.Steady(1)},
		{Region: "us", Key: 1, Keys: 3, Cost: 1, Curve: workload.Steady(1)},
	}
	if !reflect.DeepEqual(p.Final, final) {
		t.Errorf("final: have %+v, want %+v", p.Final, final)
	}
	if p.Name != "two keys" || s.Seed != 1 || p.Rules[0].Name != "api.yaml" || len(p.Edited) != 1 {
		t.Errorf("have name %q, seed %d, rules %v, edits %v", p.Name, s.Seed, p.Rules, p.Edited)
	}
	if _, err := sim.Run(p, 1); err != nil {
		t.Errorf("the plan is refused: %v", err)
	}
}

// All problems of a file are named at once, in its order, each with its line.
func TestAllProblemsAtOnce(t *testing.T) {
	_, err := Parse("bad.yaml", `limit: {rate: 0x, brust: 3}
regions: [eu, eu]
duration: 90
load:
  - {region: mars, steady: -1}
events:
  - {at: 5s, do: cot, region: eu}
`)
	var have rules.Problems
	if !errors.As(err, &have) {
		t.Fatalf("have %v, want problems", err)
	}
	want := []string{
		"bad.yaml:1:15: `rate` must be", "bad.yaml:1:19: unknown key `brust`; did you mean `burst`?",
		"bad.yaml:2:15: there are two regions `eu`", "bad.yaml:3:11: `duration` must be a duration with its unit",
		"bad.yaml:5:14: `load[0].region` must be one of eu, not `mars`", "bad.yaml:5:28: `load[0].steady` must be requests a second",
		"bad.yaml:7:18: `events[0].do` must be one of",
	}
	for i, w := range want {
		if i >= len(have) || !strings.HasPrefix(have[i].String(), w) {
			t.Fatalf("have\n%v\nwant %q as number %d", err, w, i+1)
		}
	}
}

func TestProblems(t *testing.T) {
	const base = "limit: {rate: 10}\nregions: [eu, us]\nduration: 60s\nload: [{steady: 1}]\n"
	without := func(line string) string {
		var kept []string
		for l := range strings.Lines(base) {
			if !strings.HasPrefix(l, line) {
				kept = append(kept, l)
			}
		}
		return strings.Join(kept, "")
	}
	document := "rules: |\n  domain: d\n  descriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 5}}]\n"
	for _, tt := range []struct{ reason, text, want string }{
		{"nothing", "", "empty"},
		{"not YAML", "limit: [", "f.yaml:1: not a scenario"},
		{"two documents", base + "---\n" + base, "single YAML document"},
		{"a list", "- 1", "a scenario must be a mapping"},
		{"no limit", without("limit"), "`limit` is missing"},
		{"no regions", without("regions"), "`regions` is missing"},
		{"no duration", without("duration"), "`duration` is missing"},
		{"no load", without("load"), "`load` is missing"},
		{"no time", without("duration") + "duration: 0s\n", "f.yaml:4:11: `duration` must be longer"},
		{"an unknown key", base + "duraton: 1s\n", "f.yaml:5:1: unknown key `duraton`; did you mean `duration`?"},
		{"an unknown key below", base + "network: {speed: 3}\n", "unknown key `speed`; known here: delay, duplicate, held, jitter, late, loss"},
		{"a key twice", base + "seed: 1\nseed: 2\n", "f.yaml:6:1: the key `seed` appears twice; it is already on line 5"},
		{"a time without a unit", base + "network: {delay: 75}\n", "`network.delay` must be a duration with its unit"},
		{"a probability above 1", base + "network: {loss: 2}\n", "`network.loss` must be a fraction from 0 to 1"},
		{"not a number", base + "network: {loss: .nan}\n", "`network.loss` must be a fraction"},
		{"clocks beyond the assumption", base + "clocks: {drift_ppm: 6000}\n", "from 0 to 4950"},
		{"frozen without outages", base + "faults: {frozen: 0.5}\n", "`frozen` is the part of `outages`"},
		{"a rate that is none", strings.Replace(base, "rate: 10", "rate: ten", 1), "f.yaml:1:15: `rate` must be a whole number"},
		{"a unit that is none", strings.Replace(base, "rate: 10", "rate: 10, unit: fortnight", 1), "f.yaml:1:25: `unit` must be one of"},
		{"a limit without rate", strings.Replace(base, "rate: 10", "burst: 10", 1), "`rate` of the limit is missing"},
		{"a weight of nobody", strings.Replace(base, "rate: 10", "rate: 10, weights: {uk: 1}", 1), "there is no region `uk`; did you mean `us`?"},
		{"an edit of the rate", base + "edits: [{rate: 5}]\n", "an edit cannot change rate, burst and max_debt, or how they are counted"},
		{"limit and rules", base + document, "`limit` and `rules` say the same"},
		{"limit and keys", base + "keys: [{descriptor: {k: v}}]\n", "`keys` belong to `rules`"},
		{"rules without keys", without("limit") + document, "`rules` need `keys`"},
		{"a key that no rule limits", without("limit") + document + "keys: [{descriptor: {x: y}}]\n", "no rule limits x=y of the domain d"},
		{"an override that is none", without("limit") + document + "keys: [{descriptor: {k: v}, override: 5/fortnight}]\n", "`5/fortnight` has the unit `fortnight`: give one of second, minute"},
		{"an override of nothing", without("limit") + document + "keys: [{descriptor: {k: v}, override: }]\n", "`keys[0].override` must be text"},
		{"an override that does not count", without("limit") + "rules: |\n  domain: d\n  allow_override: false\n  descriptors: []\nkeys: [{descriptor: {k: v}, override: 5/hour}]\n", "say `allow_override: true` in the rules"},
		{"an edit that takes an override away", without("limit") + document + "keys: [{descriptor: {k: v}, override: 5/hour}]\nedits:\n  - |\n    domain: d\n    allow_override: false\n    descriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 5}}]\n", "an edit cannot change rate, burst and max_debt, or how they are counted"},
		{"a key without descriptor", without("limit") + document + "keys: [{domain: d}]\n", "`descriptor` of the key is missing"},
		{"two keys of a name", without("limit") + document + "keys: [{descriptor: {k: v}}, {descriptor: {k: v}}]\n", "there are two keys `k=v`"},
		{"rules that do not parse", without("limit") + "rules: |\n  domain: d\n  descriptor: []\nkeys: [{descriptor: {k: v}}]\n", "f.yaml:6: in the rule document: unknown key `descriptor`"},
		{"a document that edits the rate", without("limit") + document + "keys: [{descriptor: {k: v}}]\nedits:\n  - |\n    domain: d\n    descriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 6}}]\n", "an edit cannot change rate, burst and max_debt, or how they are counted"},
		{"a region without name", strings.Replace(base, "[eu, us]", "[{weight: 1}]", 1), "`name` of the region is missing"},
		{"no regions at all", strings.Replace(base, "[eu, us]", "[]", 1), "at least one region"},
		{"a region without agents", strings.Replace(base, "eu, us", "{name: eu, agents: 0}", 1), "from 1 to 100"},
		{"a load of nothing", strings.Replace(base, "steady: 1", "cost: 1", 1), "exactly one of steady, step"},
		{"a load of two", strings.Replace(base, "steady: 1", "steady: 1, points: [[0s, 1]]", 1), "here are 2"},
		{"a load of an unknown key", strings.Replace(base, "steady: 1", "steady: 1, key: bob", 1), "`load[0].key` must be one of tenant=acme"},
		{"an unknown unit of demand", strings.Replace(base, "steady: 1", "steady: 1/week", 1), "`load[0].steady` must be requests a second"},
		{"a step without its time", strings.Replace(base, "steady: 1", "step: {from: 1, to: 2}", 1), "`load[0].step` needs `at`"},
		{"points out of order", strings.Replace(base, "steady: 1", "points: [[2s, 1], [1s, 1]]", 1), "in the order of time"},
		{"a point that is none", strings.Replace(base, "steady: 1", "points: [2s]", 1), "`load[0].points[0]` must be [time, demand]"},
		{"a period that is too short", strings.Replace(base, "steady: 1", "points: [[0s, 1], [5s, 1]], every: 2s", 1), "period 2s is shorter"},
		{"a steady load that repeats", strings.Replace(base, "steady: 1", "steady: 1, every: 2s", 1), "`every` repeats flash and points only"},
		{"a day of nothing", strings.Replace(base, "steady: 1", "follow_the_sun: {night: 1, noon: 2, day: 0s}", 1), "`day` must be longer"},
		{"costs upside down", strings.Replace(base, "steady: 1", "steady: 1, cost: [5, 2]", 1), "`load[0].cost[1]` must be a whole number from 5"},
		{"nothing to do afterwards", strings.Replace(base, "steady: 1", "steady: 1, afterwards: regret", 1), "`load[0].afterwards` must be one of refund, settle"},
		{"an edit of the debt", base + "edits: [{max_debt: 5}]\n", "an edit cannot change rate, burst and max_debt"},
		{"an event without time", base + "events: [{do: elect}]\n", "`at` of the event is missing"},
		{"an event of nothing", base + "events: [{at: 1s}]\n", "`do` of the event is missing"},
		{"an event nowhere", base + "events: [{at: 1s, do: cut}]\n", "`region` is missing: where to cut"},
		{"an event of no region", base + "events: [{at: 1s, do: elect, region: eu}]\n", "`elect` happens to no region"},
		{"an event after the end", base + "events: [{at: 70s, do: elect}]\n", "nothing happens after 1m0s"},
		{"an event after healing", base + "heal: 10s\nevents: [{at: 10s, do: elect}]\n", "nothing happens after 10s"},
		{"healing after the end", base + "heal: 60s\n", "`heal` must be after the start and before the end"},
		{"a final load and no healing", base + "final: [{steady: 1}]\n", "`final` is the load after `heal`"},
	} {
		_, err := Parse("f.yaml", tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "f.yaml:") {
			t.Errorf("%s: have %v, want %q", tt.reason, err, tt.want)
		}
	}
}
