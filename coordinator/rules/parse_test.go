package rules

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"

	"github.com/quorate/quorate/coordinator/quota"
)

func sample(t fataler) string {
	text, err := os.ReadFile("testdata/sample.yaml")
	if err != nil {
		t.Fatalf("read sample: %v", err)
	}
	return string(text)
}

func TestSampleSaysWhatItSays(t *testing.T) {
	set := load(t, sample(t))
	if have, want := set.Domains(), []string{"closed", "shop"}; !slices.Equal(have, want) {
		t.Errorf("domains: have %v, want %v", have, want)
	}
	careful := quota.Limit{
		Capacity: quota.Capacity{Rate: quota.Rate{Tokens: 100 * quota.Token, Per: 60 * quota.Second}, Burst: 20 * quota.Token},
		Standing: 250_000, Weights: map[string]int64{"eu-west": 3, "us-east": 1, "lab": 0},
	}
	plain := func(n, per int64) quota.Limit {
		tokens := quota.Whole(uint64(n))
		return quota.Limit{Capacity: quota.Capacity{Rate: quota.Rate{Tokens: tokens, Per: quota.Micros(per) * quota.Second}, Burst: tokens}, Standing: DefaultStanding}
	}
	daily := careful
	daily.Capacity = plain(250, 86400).Capacity
	partner := plain(50, 1)
	partner.Burst = quota.Whole(10)
	want := []Rule{
		{ID: "shop/remote_address", Domain: "shop", Name: "per-address", Limits: []Limit{
			{Limit: careful, RequestsPerUnit: 100, Unit: UnitMinute, Multiplier: 1, MaxDebt: 50 * quota.Token, ColdStartWait: 100 * time.Millisecond},
		}},
		{ID: "shop/remote_address|path=/login", Domain: "shop", Replaces: []string{"per-address", "per-user"}, Limits: []Limit{
			{Limit: plain(5, 10), RequestsPerUnit: 5, Unit: UnitSecond, Multiplier: 10, ColdStartWait: DefaultColdStartWait},
		}},
		{ID: "shop/user", Domain: "shop", Metadata: map[string]any{"plan": "free", "retries": int64(3), "tags": []any{"a", "b"}}, Limits: []Limit{
			{Limit: plain(10, 1), Name: "burst", RequestsPerUnit: 10, Unit: UnitSecond, Multiplier: 1, ColdStartWait: DefaultColdStartWait},
			{Limit: daily, Name: "daily", RequestsPerUnit: 250, Unit: UnitDay, Multiplier: 1, MaxDebt: 50 * quota.Token, ColdStartWait: 100 * time.Millisecond, OnDisconnect: OnDisconnectDeny},
		}},
		{ID: "shop/path=/files/*", Domain: "shop", ShareThreshold: true, ValueToMetric: true, Limits: []Limit{
			{Limit: plain(4294967295, 3600), RequestsPerUnit: 4294967295, Unit: UnitHour, Multiplier: 1, ColdStartWait: DefaultColdStartWait},
		}},
		{ID: "shop/path=*.json", Domain: "shop", Shadow: true, QuotaMode: true, DetailedMetric: true, DenialLogValues: true, Limits: []Limit{
			{Limit: plain(7, 7*86400), RequestsPerUnit: 7, Unit: UnitWeek, Multiplier: 1, ColdStartWait: DefaultColdStartWait},
		}},
		{ID: "shop/api_token", Domain: "shop", HashValue: true, NoOverride: true, Limits: []Limit{
			{Limit: plain(1000, 86400), RequestsPerUnit: 1000, Unit: UnitDay, Multiplier: 1, ColdStartWait: DefaultColdStartWait},
		}},
		{ID: "shop/partner", Domain: "shop", Limits: []Limit{
			{Limit: partner, RequestsPerUnit: 50, Unit: UnitSecond, Multiplier: 1, Algorithm: LeakyBucket, Shape: true, ColdStartWait: DefaultColdStartWait},
		}},
		{ID: "shop/account", Domain: "shop", Limits: []Limit{{
			Limit: quota.Limit{
				Capacity: quota.Capacity{Rate: quota.Rate{Per: 90 * 86400 * quota.Second}, Burst: quota.Whole(1000000)}, Standing: DefaultStanding,
			},
			RequestsPerUnit: 1000000, Unit: UnitMonth, Multiplier: 3, ColdStartWait: DefaultColdStartWait,
			Algorithm: FixedWindow, TimeZone: "Europe/Berlin",
		}}},
		{ID: "shop/login", Domain: "shop", Limits: []Limit{{
			Limit: quota.Limit{
				Capacity: quota.Capacity{Rate: quota.Rate{Per: 60 * quota.Second}, Burst: quota.Whole(100)},
				Standing: DefaultStanding, Window: 60 * quota.Second,
			},
			RequestsPerUnit: 100, Unit: UnitMinute, Multiplier: 1, ColdStartWait: DefaultColdStartWait, Algorithm: SlidingWindowLog,
		}}},
		{ID: "shop/internal=true", Domain: "shop", Unlimited: true},
		{ID: "closed/anyone", Domain: "closed", Limits: []Limit{
			{Limit: plain(0, 1), Unit: UnitSecond, Multiplier: 1, ColdStartWait: DefaultColdStartWait},
		}},
	}
	if have := len(set.Rules()); have != len(want) {
		t.Fatalf("rules: have %d, want %d", have, len(want))
	}
	for i, r := range set.Rules() {
		have := *r
		have.node, have.counting, have.metric, have.File, have.Line = nil, nil, nil, "", 0
		have.Limits = slices.Clone(have.Limits)
		for i := range have.Limits {
			have.Limits[i].windows = nil
		}
		if !reflect.DeepEqual(have, want[i]) {
			t.Errorf("rule %d:\nhave %+v\nwant %+v", i, have, want[i])
		}
	}
}

// The sample is the reference of the grammar, so no key may be missing from it.
func TestSampleHasEveryKey(t *testing.T) {
	used := map[string]bool{}
	dec := yaml.NewDecoder(strings.NewReader(sample(t)))
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		for i, c := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 {
				used[c.Value] = true
			}
			visit(c)
		}
	}
	for {
		var doc yaml.Node
		if dec.Decode(&doc) != nil {
			break
		}
		visit(&doc)
	}
	for _, keys := range [][]string{documentKeys, descriptorKeys, limitKeys, quotaKeys, replacesKeys} {
		for _, k := range keys {
			if !used[k] {
				t.Errorf("the sample does not use %s", k)
			}
		}
	}
}

// limitWith parses one limit with the given lines in its rate_limit.
func limitWith(t *testing.T, fields string) Limit {
	t.Helper()
	set := load(t, "domain: d\ndescriptors: [{key: k, rate_limit: {"+fields+"}}]")
	return set.Rules()[0].Limits[0]
}

func TestK17K18BurstIsOneUnitsRequestsUnlessSaid(t *testing.T) {
	for _, tt := range []struct {
		reason, fields string
		burst, rate    quota.Tokens
		per            quota.Micros
	}{
		{"K18 six per minute admit six at once", "unit: minute, requests_per_unit: 6", 6 * quota.Token, 6 * quota.Token, 60 * quota.Second},
		{"K17 the burst can be smaller", "unit: minute, requests_per_unit: 15, quota: {burst: 1}", quota.Token, 15 * quota.Token, 60 * quota.Second},
		{"or larger", "unit: minute, requests_per_unit: 1, quota: {burst: 4294967295}", quota.Whole(quota.MaxWhole), quota.Token, 60 * quota.Second},
		{"the order of keys does not matter", "quota: {burst: 2}, requests_per_unit: 1, unit_multiplier: 3, unit: second", 2 * quota.Token, quota.Token, 3 * quota.Second},
		{"K08 zero denies everything", "unit: second, requests_per_unit: 0", 0, 0, quota.Second},
		{"and says so with a burst of zero, too", "unit: second, requests_per_unit: 0, quota: {burst: 0}", 0, 0, quota.Second},
		{"a month has 30 days", "unit: month, requests_per_unit: 1", quota.Token, quota.Token, 30 * 86400 * quota.Second},
		{"K28 a year has 365 days", "unit: year, requests_per_unit: 1", quota.Token, quota.Token, 365 * 86400 * quota.Second},
		{"ten years are the longest period", "unit: year, requests_per_unit: 1, unit_multiplier: 10", quota.Token, quota.Token, 3650 * 86400 * quota.Second},
		{"units in capitals, as envoyproxy/ratelimit takes them", "unit: HOUR, requests_per_unit: 1_000", 1000 * quota.Token, 1000 * quota.Token, 3600 * quota.Second},
	} {
		l := limitWith(t, tt.fields)
		if l.Burst != tt.burst || l.Rate != (quota.Rate{Tokens: tt.rate, Per: tt.per}) {
			t.Errorf("%s: have %v, want %v per %v, burst %v", tt.reason, l.Capacity, tt.rate, tt.per, tt.burst)
		}
	}
}

func TestStandingShareIsExact(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1_000_000, "0.0": 0, "1.0": 1_000_000, "1.": 1_000_000, ".5": 500_000, "0.1": 100_000,
		"0.000001": 1, "0.999999": 999_999, "0.1234560000": 123_456,
	} {
		if have := limitWith(t, "unit: second, requests_per_unit: 1, quota: {standing_share: "+text+"}").Standing; have != want {
			t.Errorf("standing_share %s: have %d ppm, want %d", text, have, want)
		}
	}
	if have := limitWith(t, "unit: second, requests_per_unit: 1").Standing; have != 100_000 {
		t.Errorf("default standing_share: have %d ppm, want 100000", have)
	}
}

func TestScalarsThatYAMLTakesForSomethingElse(t *testing.T) {
	set := load(t, `
domain: 7
descriptors:
- {key: 007, value: yes, rate_limit: {unit: second, requests_per_unit: 1, name: 2026-01-01}, shadow_mode: on}
- {key: k, value: "null", rate_limit: {unlimited: yes, name: ""}, metadata: {1: ~, 2.5: [true, 1.5, {}], when: 2026-01-01}}
- {key: empty, value: , rate_limit: {unit: second, requests_per_unit: 1, quota: {cold_start_wait: 0}}, metadata: , descriptors: }
`)
	r := set.Match("7", []Entry{{"007", "yes"}})
	if r == nil || r.Name != "2026-01-01" || !r.Shadow {
		t.Errorf("have %+v, want the texts as they were written", r)
	}
	r = set.Match("7", []Entry{{"k", "null"}})
	want := map[string]any{"1": nil, "2.5": []any{true, 1.5, map[string]any{}}, "when": "2026-01-01"}
	if r == nil || !r.Unlimited || !reflect.DeepEqual(r.Metadata, want) {
		t.Errorf("have %+v, want metadata %v", r, want)
	}
	if r = set.Match("7", []Entry{{"empty", "x"}}); r == nil || r.Limits[0].ColdStartWait != 0 {
		t.Errorf("have %+v, want the rule without value", r)
	}
}

func TestMergeKeysAndAliases(t *testing.T) {
	set := load(t, `
domain: d
descriptors:
- &base
  key: a
  shadow_mode: true
  rate_limit: &limit {unit: second, requests_per_unit: 1, quota: {burst: 5}}
- <<: *base
  key: b
- {<<: [{key: c}, *base], shadow_mode: false}
- {key: d, rate_limit: {<<: *limit, requests_per_unit: 9}, descriptors: [*base]}
`)
	var have []string
	for _, r := range set.Rules() {
		have = append(have, fmt.Sprint(r.ID, " ", r.Shadow, " ", r.Limits[0].RequestsPerUnit, " ", r.Limits[0].Burst))
	}
	want := []string{"d/a true 1 5", "d/b true 1 5", "d/c false 1 5", "d/d false 9 5", "d/d|a true 1 5"}
	if !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
}

// K32: several windows on one descriptor are one rule with several limits.
func TestK32TwoWindowsOnOneDescriptor(t *testing.T) {
	set := load(t, "domain: d\ndescriptors: [{key: k, rate_limits: [{name: s, unit: second, requests_per_unit: 10}, {name: d, unit: day, requests_per_unit: 250}]}]")
	e := []Entry{{"k", "v"}}
	r := set.Match("d", e)
	if r == nil || len(r.Limits) != 2 || r.Key("d", e, 0) == r.Key("d", e, 1) {
		t.Fatalf("have %+v, want two limits with a key each", r)
	}
	if r.Limits[0].Burst != 10*quota.Token || r.Limits[1].Burst != 250*quota.Token {
		t.Errorf("have %v and %v", r.Limits[0].Capacity, r.Limits[1].Capacity)
	}
}

func TestWhatIsTooMuchIsRefused(t *testing.T) {
	nested := func(levels int) string {
		var b strings.Builder
		b.WriteString("domain: d\n")
		for i := range levels {
			fmt.Fprintf(&b, "%sdescriptors:\n%s- key: k\n", strings.Repeat(" ", 2*i), strings.Repeat(" ", 2*i))
		}
		return b.String()
	}
	laughs := "domain: d\ndescriptors:\n- key: k\n  metadata:\n    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 20 {
		laughs += fmt.Sprintf("    a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	many := "domain: d\ndescriptors: [{key: k, rate_limits: ["
	for i := range MaxLimits + 1 {
		many += fmt.Sprintf("{name: n%d, unit: second, requests_per_unit: 1},", i)
	}
	load(t, nested(MaxDepth))
	for _, tt := range []struct{ reason, text, want string }{
		{"more than the log wants to carry", "domain: d\n#" + strings.Repeat("x", MaxBytes), "larger than 4 MiB"},
		{"descriptors nested too deep", nested(MaxDepth + 1), "nested deeper than 32"},
		{"metadata nested too deep", "domain: d\ndescriptors: [{key: k, metadata: {a: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}}]", "nested deeper than 32"},
		{"nested deeper than the YAML parser goes", "domain: " + strings.Repeat("[", 1<<20), "not valid YAML"},
		{"a few aliases that expand to 10^21 values", laughs, "aliases of this file expand"},
		{"more limits than a request should pay for", many + "]}]", "at most 16"},
		{"bytes that are no UTF-8", "domain: d\n# ok\n  # é\xff", "rules.yaml:3:6: the text is not valid UTF-8"},
		{"UTF-16", "\xff\xfed\x00", "not valid UTF-8"},
		{"control characters", "domain: \x01", "control characters"},
	} {
		_, err := Parse([]quota.Source{{Name: "rules.yaml", Text: tt.text}})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: have %v, want %q in it", tt.reason, err, tt.want)
		}
	}
	half := strings.Repeat("#", MaxBytes/2) + "\n"
	if _, err := Parse([]quota.Source{{Name: "a", Text: half}, {Name: "b", Text: half}}); err == nil || !strings.HasPrefix(err.Error(), "b: with this document") {
		t.Errorf("two halves and a bit: have %v, want an error about b", err)
	}
	if _, err := Parse([]quota.Source{{Name: "a", Text: "domain: a"}, {Name: "a", Text: "domain: b"}}); err == nil || !strings.Contains(err.Error(), "two documents are called") {
		t.Errorf("two documents of one name: have %v", err)
	}
}

// A long list of problems is complete as a value and short as a text.
func TestProblemsArePrintedUpToALimit(t *testing.T) {
	text := "domain: d\ndescriptors:\n" + strings.Repeat("- {}\n", 150)
	_, err := Parse([]quota.Source{{Name: "f", Text: text}})
	var p Problems
	if !errors.As(err, &p) || len(p) != 150 || p[149].Line != 152 || p[149].Key != "descriptors[149]" {
		t.Fatalf("have %d problems, want 150 with line and key", len(p))
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 101 || lines[100] != "… and 50 more problems" {
		t.Errorf("have %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestNoDocumentsAreNoRules(t *testing.T) {
	if set, err := Parse(nil); err != nil || len(set.Rules()) != 0 || len(set.Domains()) != 0 {
		t.Errorf("have %v, %v", set, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample(f))
	archives, _ := filepath.Glob("testdata/problems/*.txtar")
	for _, name := range archives {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatalf("read archive: %v", err)
		}
		for _, file := range archive.Files {
			f.Add(string(file.Data))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		sources := []quota.Source{{Name: "f", Text: text}}
		set, err := Parse(sources)
		again, errAgain := Parse(sources)
		if (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() {
			t.Fatalf("two readings differ: %v, %v", err, errAgain)
		}
		if err != nil {
			if len(err.(Problems)) == 0 || err.Error() == "" {
				t.Fatal("an error without a problem")
			}
			return
		}
		if changes := Diff(set, again); len(changes) > 0 {
			t.Fatalf("two readings differ: %v", changes)
		}
		for _, r := range set.Rules() {
			for i, l := range r.Limits {
				if l.Rate.Per <= 0 || l.Burst < 0 || l.Burst > quota.MaxTokens || l.Standing < 0 || l.Standing > quota.PPM || l.Multiplier < 1 {
					t.Fatalf("limit %d of %s is out of range: %+v", i, r.ID, l)
				}
				if _, err := DecodeKey(r.Sample(i)); err != nil {
					t.Fatalf("sample of %s: %v", r.ID, err)
				}
			}
		}
	})
}
