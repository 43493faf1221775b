package rules

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDiff(t *testing.T) {
	const limit = "rate_limit: {unit: minute, requests_per_unit: 10}"
	doc := func(descriptors ...string) string {
		return "domain: d\ndescriptors:\n" + strings.Join(descriptors, "\n") + "\n"
	}
	for _, tt := range []struct {
		reason, old, new string
		want             []string
	}{
		{"nothing", doc("- {key: a, " + limit + "}"), doc("- {key: a, " + limit + "}"), nil},
		{"order, spelling and defaults that are written out", doc("- {key: a, "+limit+"}", "- {key: b, "+limit+"}"),
			doc("- {key: b, "+limit+"}", "- rate_limit: {requests_per_unit: 10, quota: {burst: 10, standing_share: 0.10}, unit: MINUTE}", "  key: 'a'"), nil},
		{"a new rule, a removed one", doc("- {key: a, " + limit + "}"), doc("- {key: b, shadow_mode: true, " + limit + "}"),
			[]string{"removed d/a: 10 per minute", "added d/b: 10 per minute; shadow_mode"}},
		{"rate and burst", doc("- {key: a, " + limit + "}"), doc("- {key: a, rate_limit: {unit: second, requests_per_unit: 5, unit_multiplier: 30, quota: {standing_share: 0, max_debt: 7, settle: true, weights: {eu: 2}}}}"),
			[]string{"changed d/a: limit 10 per minute → 5 per 30 seconds; burst 10 → 5; max_debt none → 7; settle none → true; standing_share 0.1 → 0; weight of eu none → 2"}},
		{"flags, names and metadata", doc("- {key: a, " + limit + "}"), doc("- {key: a, quota_mode: true, metadata: {b: 1, a: [x]}, rate_limit: {name: n, unit: minute, requests_per_unit: 10, replaces: [{name: z}, {name: y}]}}"),
			[]string{"changed d/a: name none → n; replaces none → y, z; quota_mode none → true; metadata none → map[a:[x] b:1]"}},
		{"limits by name", doc("- {key: a, rate_limits: [{name: s, unit: second, requests_per_unit: 1}, {name: m, unit: minute, requests_per_unit: 2}]}"),
			doc("- {key: a, rate_limits: [{name: m, unit: minute, requests_per_unit: 3, quota: {burst: 2}}, {name: s, unit: second, requests_per_unit: 1}]}"),
			[]string{"changed d/a: m: limit 2 per minute → 3 per minute"}},
		{"a leaky bucket, and a shaped one", doc("- {key: a, "+limit+"}", "- {key: b, rate_limit: {unit: minute, requests_per_unit: 10, quota: {algorithm: leaky_bucket, shape: true}}}"),
			doc("- {key: a, rate_limit: {unit: minute, requests_per_unit: 10, quota: {algorithm: leaky_bucket}}}", "- {key: b, rate_limit: {unit: minute, requests_per_unit: 10, quota: {algorithm: leaky_bucket, shape: false}}}"),
			[]string{"changed d/a: algorithm token_bucket → leaky_bucket", "changed d/b: shape true → none"}},
		{"a new shaped rule", doc("- {key: z, " + limit + "}"), doc("- {key: z, "+limit+"}", "- {key: a, rate_limit: {unit: minute, requests_per_unit: 10, quota: {algorithm: leaky_bucket, shape: true}}}", "- {key: b, rate_limits: [{name: s, unit: second, requests_per_unit: 1, quota: {algorithm: leaky_bucket}}]}"),
			[]string{"added d/a: 10 per minute; algorithm leaky_bucket; shape", "added d/b: s: 1 per second; s: algorithm leaky_bucket"}},
		{"sharing further up the path", doc("- {key: a, value: x*, descriptors: [{key: b, " + limit + "}]}"), doc("- {key: a, value: x*, share_threshold: true, descriptors: [{key: b, " + limit + "}]}"),
			[]string{"changed d/a=x*|b: share_threshold none → x*"}},
		{"a value that is exempt from the rule beside it", doc("- {key: a, " + limit + "}"), doc("- {key: a, "+limit+"}", "- {key: a, value: x}"),
			[]string{"added d/a=x: no limit, so what it matches is not limited"}},
		{"patterns that cannot both fit may trade places", doc("- {key: a, value: x*, "+limit+"}", "- {key: a, value: y*, "+limit+"}"), doc("- {key: a, value: y*, "+limit+"}", "- {key: a, value: x*, "+limit+"}"), nil},
		{"patterns that can may not", doc("- {key: a, value: x*, "+limit+"}", "- {key: a, value: '*y', "+limit+"}"), doc("- {key: a, value: '*y', "+limit+"}", "- {key: a, value: x*, "+limit+"}"),
			[]string{"changed d/a=*y: is now found before d/a=x*"}},
		{"another domain", doc("- {key: a, " + limit + "}"), "domain: e\n", []string{"removed d/a: 10 per minute", "added e: a domain without rules"}},
		{"K91 limits of requests are ignored", doc("- {key: a, "+limit+"}", "- {key: b, "+limit+"}"), doc("- {key: a, allow_override: false, "+limit+"}", "- {key: b, "+limit+"}", "- {key: c, allow_override: false, "+limit+"}"),
			[]string{"changed d/a: allow_override none → false", "added d/c: 10 per minute; allow_override false"}},
		{"limits of requests that no rule matches are ignored", doc("- {key: a, " + limit + "}"), "allow_override: false\n" + doc("- {key: a, allow_override: true, "+limit+"}"),
			[]string{"added d#override: the limits of requests that no rule matches are ignored"}},
		{"an unlimited rule", doc("- {key: a, " + limit + "}"), doc("- {key: a, rate_limit: {unlimited: true}}"),
			[]string{"changed d/a: unlimited none → true; limit 10 per minute → none; burst 10 → none; standing_share 0.1 → none; algorithm token_bucket → none; on_disconnect standing → none; on_store_failure local → none; cold_start_wait 250ms → none"}},
	} {
		var have []string
		for _, c := range Diff(load(t, tt.old), load(t, tt.new)) {
			have = append(have, c.Kind.String()+" "+c.RuleID+": "+c.Detail)
		}
		if !slices.Equal(have, tt.want) {
			t.Errorf("%s:\nhave %q\nwant %q", tt.reason, have, tt.want)
		}
	}
	if have := Diff(nil, load(t, doc("- {key: a, "+limit+"}"))); len(have) != 1 || have[0].Kind != Added {
		t.Errorf("from nothing: have %v, want one added rule", have)
	}
}

// A set differs from itself in nothing, and from every other reading of its
// document neither.
func TestASetDoesNotDifferFromItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := randomTree(t).document()
		if have := Diff(load(t, text), load(t, text)); len(have) > 0 {
			t.Fatalf("have %v", have)
		}
	})
}
