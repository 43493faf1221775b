package regional

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/memory"
)

// mixDoc has a rule for every option that has a say in metrics or in what is counted,
// and one with none.
const mixDoc = `domain: api
descriptors:
  - {key: plain, rate_limit: {unit: day, requests_per_unit: 4, quota: {standing_share: 1}}}
  - {key: named, rate_limit: {name: a name, unit: day, requests_per_unit: 4, quota: {standing_share: 1}}}
  - {key: detailed, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 4, quota: {standing_share: 1}}}
  - {key: valued, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 4, quota: {standing_share: 1}}}
  - {key: pattern, value: "*", share_threshold: true, rate_limit: {unit: day, requests_per_unit: 4, quota: {standing_share: 1}}}
  - {key: all, value: "v*", share_threshold: true, value_to_metric: true, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 4, quota: {standing_share: 1}}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 4, quota: {standing_share: 1}}}
  - {key: quota, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 4, quota: {standing_share: 1}}}
  - key: two
    rate_limits:
      - {name: long, unit: year, requests_per_unit: 4, quota: {standing_share: 1}}
      - {name: longer, unit: year, unit_multiplier: 2, requests_per_unit: 4, quota: {standing_share: 1}}
`

// measured is an agent that is alone with doc, and its metrics.
func measured(t *testing.T, doc string) (*Agent, *prometheus.Registry) {
	t.Helper()
	store, err := memory.WithRules("here", doc)
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	a, err := Open(t.Context(), Config{Region: "here", Alone: true, Store: store, Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a, reg
}

func hits(t *testing.T, a *Agent, n uint64, key, value string) enforce.Decision {
	t.Helper()
	dec, err := a.Decide(t.Context(), enforce.Request{Domain: "api", Descriptors: []enforce.Descriptor{
		{Entries: []rules.Entry{{Key: key, Value: value}}, Hits: &n},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return dec
}

// counters returns the value of every series of the given families.
func counters(t *testing.T, reg *prometheus.Registry, names ...string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, f := range families {
		if len(names) > 0 && !slices.Contains(names, f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "quorate_")
			for _, l := range m.GetLabel() {
				name += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

var mixKeys = []string{"plain", "named", "detailed", "valued", "pattern", "all", "shadow", "quota", "two"}

// K47: no option of a rule changes the name of a series, its own or another rule's.
func TestK47OptionsDoNotRenameSeries(t *testing.T) {
	a, reg := measured(t, mixDoc)
	for _, k := range mixKeys {
		hits(t, a, 1, k, "value")
	}
	want := `decisions_total decision=ok reason=standing_share rule=api/all=v* value=
decisions_total decision=ok reason=standing_share rule=api/detailed value=detailed=value
decisions_total decision=ok reason=standing_share rule=api/named value=
decisions_total decision=ok reason=standing_share rule=api/pattern=* value=
decisions_total decision=ok reason=standing_share rule=api/plain value=
decisions_total decision=ok reason=standing_share rule=api/quota value=
decisions_total decision=ok reason=standing_share rule=api/shadow value=
decisions_total decision=ok reason=standing_share rule=api/two value=
decisions_total decision=ok reason=standing_share rule=api/valued value=valued=value
limit_tokens_per_second limit= rule=api/all=v*
limit_tokens_per_second limit= rule=api/detailed
limit_tokens_per_second limit= rule=api/named
limit_tokens_per_second limit= rule=api/pattern=*
limit_tokens_per_second limit= rule=api/plain
limit_tokens_per_second limit= rule=api/quota
limit_tokens_per_second limit= rule=api/shadow
limit_tokens_per_second limit= rule=api/valued
limit_tokens_per_second limit=long rule=api/two
limit_tokens_per_second limit=longer rule=api/two`
	have := strings.Join(slices.Sorted(maps.Keys(counters(t, reg, "quorate_decisions_total", "quorate_limit_tokens_per_second"))), "\n")
	if have != want {
		t.Errorf("have\n%s\nwant\n%s", have, want)
	}
}

// K91: however many values requests bring, the series are bounded: rules that tell
// values apart do so for the first maxValues.
func TestK91SeriesDoNotGrowWithValues(t *testing.T) {
	a, reg := measured(t, mixDoc)
	meet := func(from, to int) {
		for i := from; i < to; i++ {
			for _, k := range mixKeys {
				for _, n := range []uint64{0, 1, 4, 5} { // looked at, admitted, denied, never admitted
					hits(t, a, n, k, fmt.Sprintf("v%d", i))
				}
			}
			hits(t, a, 1, fmt.Sprintf("unknown%d", i), "v")
		}
	}
	meet(0, 1)
	first := counters(t, reg)
	meet(1, maxValues+1)
	before := counters(t, reg)
	meet(maxValues+1, 5*maxValues)
	after := counters(t, reg)
	if len(first) < 2*len(mixKeys) || len(after) != len(before) {
		t.Errorf("%d series after 1 value of each key, %d after %d, %d after %d", len(first), len(before), maxValues+1, len(after), 5*maxValues)
	}
}

// K92: the counters say what the store did: every decision is in one of them, and what
// they call admitted is what the bucket has lost.
func TestK92CountersAndBucketAgree(t *testing.T) {
	a, reg := measured(t, mixDoc)
	for _, k := range []string{"plain", "quota"} {
		for range 10 {
			hits(t, a, 1, k, "v")
		}
	}
	for _, n := range []uint64{3, 2, 3, 1} { // 3, denied, denied, 1
		hits(t, a, n, "named", "v")
	}
	for _, tc := range []struct {
		rule     string
		ok, over float64
	}{{"api/plain", 4, 6}, {"api/quota", 4, 6}, {"api/named", 2, 2}} {
		sum := map[string]float64{}
		for name, n := range counters(t, reg, "quorate_decisions_total") {
			if slices.Contains(strings.Fields(name), "rule="+tc.rule) {
				sum[strings.Fields(name)[1]] += n
			}
		}
		if len(sum) != 2 || sum["decision=ok"] != tc.ok || sum["decision=over"] != tc.over {
			t.Errorf("%s: have %v, want %v ok, %v over", tc.rule, sum, tc.ok, tc.over)
		}
		if left := hits(t, a, 0, strings.TrimPrefix(tc.rule, "api/"), "v").Statuses[0].Remaining; left != 0 {
			t.Errorf("%s: all 4 were counted, %d are left", tc.rule, left)
		}
	}
}
