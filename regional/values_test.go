package regional

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/lease"
)

const valuedDoc = `
domain: shop
descriptors:
- {key: user, rate_limit: {unit: second, requests_per_unit: 1000, quota: {standing_share: 1}}}
- {key: path, value_to_metric: true, rate_limit: {unit: second, requests_per_unit: 1000, quota: {standing_share: 1}}}
`

// labels returns the values of the label value of a rule's decisions, sorted; an
// empty one is a series without the label.
func labels(t *testing.T, registry *prometheus.Registry, rule string) (all []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "quorate_decisions_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			has := map[string]string{}
			for _, l := range m.GetLabel() {
				has[l.GetName()] = l.GetValue()
			}
			if has["rule"] == rule {
				all = append(all, has["value"])
			}
		}
	}
	slices.Sort(all)
	return all
}

func parsed(t *testing.T, doc string) *rules.Set {
	t.Helper()
	set, err := rules.Parse([]quota.Source{{Name: "rules.yaml", Text: doc}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestValuesInMetricsAreBounded(t *testing.T) {
	a, _, registry := telling(t, valuedDoc, 0)
	for i := range 3 * maxValues {
		n := strconv.Itoa(i)
		decideFor(t, a, Entry{Key: "user", Value: n}, Entry{Key: "path", Value: n + "\n\xff"})
	}
	if have := labels(t, registry, "shop/user"); !slices.Equal(have, []string{""}) {
		t.Errorf("nobody asked for values of users: have %q", have)
	}
	have := labels(t, registry, "shop/path")
	if len(have) != maxValues+1 || !slices.Contains(have, otherValues) || !slices.Contains(have, "path=0%0A%FF") {
		t.Errorf("have %d: %q", len(have), have)
	}
	if n := counted(t, registry, "shop/path"); n != 3*maxValues {
		t.Errorf("want %d decisions, have %v", 3*maxValues, n)
	}
	decideFor(t, a, Entry{Key: "path", Value: otherValues})
	if again := labels(t, registry, "shop/path"); !slices.Equal(again, have) {
		t.Errorf("have %q", again)
	}
}

func TestValuesAreSharedByConcurrentDecisions(t *testing.T) {
	r := parsed(t, valuedDoc).Rules()[1]
	var v values
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 2 * maxValues {
				text := strconv.Itoa(i)
				if have := v.of(r, []rules.Entry{{Key: "path", Value: text}}); have != "path="+text && have != otherValues {
					t.Errorf("have %q", have)
				}
			}
		})
	}
	wg.Wait()
	if have := len(v.byRule[r.ID].seen); have != maxValues {
		t.Errorf("want %d values, have %d", maxValues, have)
	}
}

func TestValuesOfChangedRulesAreForgotten(t *testing.T) {
	edit := func(from, to string) string { return strings.Replace(valuedDoc, from, to, 1) }
	for _, c := range []struct {
		why, doc string
		kept     bool
	}{
		{"nothing changed", valuedDoc, true},
		{"another limit", edit("path, value_to_metric: true, rate_limit: {unit: second", "path, value_to_metric: true, rate_limit: {unit: hour"), true},
		{"values are not asked for any more", edit("value_to_metric: true, ", ""), false},
		{"the rule is gone", edit("key: path", "key: way"), false},
	} {
		registry := prometheus.NewRegistry()
		m := newMetrics(registry, "test", func() float64 { return 0 })
		before := parsed(t, valuedDoc)
		m.adopted(&lease.Adoption{Set: before})
		r := before.Rules()[1]
		label := m.values.of(r, []rules.Entry{{Key: "path", Value: "1"}})
		m.decisions.WithLabelValues(r.ID, label, "ok", "within_lease").Inc()

		m.adopted(&lease.Adoption{Set: parsed(t, c.doc)})
		want := []string(nil)
		if c.kept {
			want = []string{"path=1"}
		}
		if have := labels(t, registry, r.ID); !slices.Equal(have, want) || (m.values.byRule[r.ID] != nil) != c.kept {
			t.Errorf("%s: have %q, want %q", c.why, have, want)
		}
	}
}

// A decision of a rule without values does not pay for those with them, and one
// with a value that is known allocates nothing for it.
func TestKnownValuesCostNoAllocation(t *testing.T) {
	set := parsed(t, valuedDoc)
	var v values
	for i, r := range set.Rules() {
		entries := []rules.Entry{{Key: fmt.Sprint("k", i), Value: "1"}}
		v.of(r, entries)
		if n := testing.AllocsPerRun(100, func() { v.of(r, entries) }); n != 0 {
			t.Errorf("%s: %v allocations", r.ID, n)
		}
	}
}
