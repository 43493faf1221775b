package rules

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

const metricDoc = `
domain: d
descriptors:
- {key: token, hash_value: true, value_to_metric: true, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: plain, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: own, value_to_metric: true, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: own, value: fixed, value_to_metric: true, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: own, value: "/a/*", value_to_metric: true, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: own, value: "/s/*", value_to_metric: true, share_threshold: true, rate_limit: {unit: second, requests_per_unit: 1}}
- key: above
  value_to_metric: true
  descriptors:
  - {key: below, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: all, detailed_metric: true, rate_limit: {unit: second, requests_per_unit: 1}}
- key: kind
  value: fixed
  descriptors:
  - {key: all, detailed_metric: true, rate_limit: {unit: second, requests_per_unit: 1}}
`

func metricSet(t testing.TB) *Set {
	t.Helper()
	set, err := Parse([]quota.Source{{Name: "rules.yaml", Text: metricDoc}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestMetricValue(t *testing.T) {
	set := metricSet(t)
	long := strings.Repeat("x", MaxMetricValue)
	for _, c := range []struct {
		why     string
		entries []Entry
		want    string
	}{
		{"nobody asked", []Entry{{"plain", "1"}}, ""},
		{"its own value", []Entry{{"own", "1"}}, "own=1"},
		{"a value that is hidden", []Entry{{"token", "hunter2"}}, "token=" + Digest("hunter2")},
		{"an empty one", []Entry{{"own", ""}}, "own="},
		{"the rule's ID has the value", []Entry{{"own", "fixed"}}, ""},
		{"a pattern has values", []Entry{{"own", "/a/1"}}, "own=/a/1"},
		{"a pattern that shares has one bucket and one series", []Entry{{"own", "/s/1"}}, ""},
		{"asked for above only", []Entry{{"above", "1"}, {"below", "2"}}, "above=1"},
		{"all entries", []Entry{{"above", "1"}, {"all", "2"}}, "above=1|all=2"},
		{"all entries that vary", []Entry{{"kind", "fixed"}, {"all", "2"}}, "all=2"},
		{"what separates is escaped", []Entry{{"above", "1|all=2%"}, {"all", "3"}}, "above=1%7Call%3D2%25|all=3"},
		{"lines and what does not print", []Entry{{"own", "a\nb\x00\u2028"}}, "own=a%0Ab%00%E2%80%A8"},
		{"other alphabets stay, bytes that are no text do not", []Entry{{"own", "é\xff"}}, "own=é%FF"},
		{"as long as may be", []Entry{{"own", long}}, "own=" + long},
		{"too long", []Entry{{"own", long + "y"}}, "own=" + long + "…"},
		{"too long, and not cut within a character", []Entry{{"own", long[1:] + "é"}}, "own=" + long[1:] + "…"},
	} {
		r := set.Match("d", c.entries)
		if r == nil {
			t.Fatalf("%s: no rule", c.why)
		}
		if have := string(r.AppendMetricValue(nil, c.entries)); have != c.want || r.MetricValues() != (c.want != "") {
			t.Errorf("%s: have %q (%v), want %q", c.why, have, r.MetricValues(), c.want)
		}
	}
}

func TestMetricValuePrintsIsShortAndUnambiguous(t *testing.T) {
	set := metricSet(t)
	value := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) {
		a := []Entry{{"above", value.Draw(t, "a1")}, {"all", value.Draw(t, "a2")}}
		b := []Entry{{"above", value.Draw(t, "b1")}, {"all", value.Draw(t, "b2")}}
		r := set.Match("d", a)
		x, y := string(r.AppendMetricValue(nil, a)), string(r.AppendMetricValue(nil, b))
		if !utf8.ValidString(x) || strings.ContainsFunc(x, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Fatalf("does not print: %q", x)
		}
		if len(x) > len("above=|all=")+2*(3*MaxMetricValue+len("…")) {
			t.Fatalf("%d bytes: %q", len(x), x)
		}
		short := true
		for _, e := range append(a, b...) {
			short = short && len(e.Value) <= MaxMetricValue
		}
		if same := a[0] == b[0] && a[1] == b[1]; short && same != (x == y) {
			t.Fatalf("%q and %q: %q, %q", a, b, x, y)
		}
	})
}

func TestDiffTellsWhichValuesMetricsShow(t *testing.T) {
	without, err := Parse([]quota.Source{{Name: "rules.yaml", Text: strings.Replace(metricDoc, "  value_to_metric: true\n", "", 1)}})
	if err != nil {
		t.Fatal(err)
	}
	with := metricSet(t)
	entries := []Entry{{"above", "1"}, {"below", "2"}}
	if had, has := without.Match("d", entries), with.Match("d", entries); had.SameMetric(has) || !has.SameMetric(has) {
		t.Error("a flag above a rule is not noticed")
	}
	if f := with.Match("d", entries).facts(); !slices.Contains(f, fact{"value_to_metric", "above"}) {
		t.Errorf("have %v", f)
	}
}
