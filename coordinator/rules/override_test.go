package rules

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

func overrides() *rapid.Generator[Override] {
	return rapid.Custom(func(t *rapid.T) Override {
		o, err := NewOverride(
			rapid.OneOf(rapid.SampledFrom([]uint32{0, 1, 10, math.MaxUint32}), rapid.Uint32()).Draw(t, "requests"),
			Unit(rapid.IntRange(int(UnitSecond), int(UnitWeek)).Draw(t, "unit")))
		if err != nil {
			t.Fatal(err)
		}
		return o
	})
}

func override(t fataler, text string) Override {
	t.Helper()
	o, err := ParseOverride(text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return o
}

func TestOverrideTexts(t *testing.T) {
	for text, want := range map[string]Override{
		"10/minute":         {10, 60 * quota.Second},
		"0/second":          {0, quota.Second},
		"4294967295/year":   {math.MaxUint32, 365 * 86400 * quota.Second},
		"1/month":           {1, 30 * 86400 * quota.Second},
		"1/week":            {1, 7 * 86400 * quota.Second},
		"4294967296/second": {}, "-1/second": {}, "+1/second": {}, "01/second": {}, "1.5/second": {}, "1e3/second": {},
		"1/unknown": {}, "1/seconds": {}, "1/SECOND": {}, "1/": {}, "/second": {}, "1": {}, "": {}, "1/second/2": {}, " 1/second": {},
	} {
		have, err := ParseOverride(text)
		if have != want || errors.Is(err, ErrOverride) != want.IsZero() {
			t.Errorf("%q: have %+v, %v, want %+v", text, have, err, want)
		}
		if err == nil && have.String() != text {
			t.Errorf("%q is said as %q", text, have)
		}
	}
	if _, err := ParseOverride("1/minut"); err == nil || !strings.Contains(err.Error(), "did you mean `minute`?") {
		t.Errorf("a slip of the hand: have %v", err)
	}
	for _, u := range []Unit{UnitUnknown, UnitWeek + 1, 255} {
		if _, err := NewOverride(1, u); !errors.Is(err, ErrOverride) {
			t.Errorf("unit %d: have %v, want ErrOverride", u, err)
		}
	}
}

func TestOtherSpellingsOfOverridesAreRefused(t *testing.T) {
	for text, reason := range map[string]string{
		"d|k=v##override+60":                     "the requests are missing",
		"d|k=v##override+60+":                    "the requests are missing",
		"d|k=v##override++10":                    "the length is missing",
		"d|k=v##override+60+010":                 "zeros in front",
		"d|k=v##override+060+10":                 "zeros in front",
		"d|k=v##override+60+-1":                  "less than nothing",
		"d|k=v##override+-60+1":                  "a length below zero",
		"d|k=v##override+0+1":                    "a length of zero",
		"d|k=v##override+61+1":                   "61 s are no unit",
		"d|k=v##override+60+4294967296":          "more requests than a limit can have",
		"d|k=v##override+99999999999999999999+1": "a length that overflows",
		"d|k=v##override+60+10+1":                "more than that",
		"d|k=v##Override+60+10":                  "the name is in lower case",
		"d|k=v##override+60+10#":                 "it comes last",
		"d|k=v#override+60+10":                   "a limit may be called so, but then it is a limit's name",
	} {
		d, err := DecodeKey(quota.Key(text))
		if err == nil && !d.Override.IsZero() {
			t.Errorf("%s (%s): have %+v, want an error", text, reason, d)
		}
	}
}

const overrideDocument = `
domain: api
descriptors:
- {key: user, rate_limit: {unit: minute, requests_per_unit: 5, name: per-user, quota: {algorithm: fixed_window, standing_share: 0.5, on_disconnect: hold, on_store_failure: allow, cold_start_wait: 1s, weights: {eu: 3}}}}
- {key: fixed, allow_override: false, rate_limit: {unit: second, requests_per_unit: 5}}
- {key: free, shadow_mode: true, rate_limit: {unlimited: true}}
- {key: many, rate_limits: [{name: a, unit: second, requests_per_unit: 5, quota: {on_disconnect: deny}}, {name: b, unit: day, requests_per_unit: 9}]}
- {key: shaped, rate_limit: {unit: second, requests_per_unit: 5, quota: {algorithm: leaky_bucket, shape: true, max_debt: 100, settle: true, burst: 2}}}
- {key: path, value: /files/*, share_threshold: true, rate_limit: {unit: second, requests_per_unit: 5}}
- {key: token, hash_value: true, rate_limit: {unit: second, requests_per_unit: 5}}
- {key: nothing}
---
domain: closed
allow_override: false
descriptors:
- {key: user, rate_limit: {unit: second, requests_per_unit: 5}}
- {key: open, allow_override: true, rate_limit: {unit: second, requests_per_unit: 5}}
`

func TestOverridden(t *testing.T) {
	set := load(t, overrideDocument)
	digest := "==" + Digest("secret")
	for _, tt := range []struct{ reason, domain, entries, rule, key string }{
		{"in the place of a rule's limit", "api", "user=a", "api/user", "api|user=a##override+60+10"},
		{"in the place of all limits of a rule", "api", "many=a", "api/many", "api|many=a##override+60+10"},
		{"where a rule is unlimited", "api", "free=a", "api/free", "api|free=a##override+60+10"},
		{"no rule", "api", "other=a", "api#override", "api|other=a##override+60+10"},
		{"a descriptor without a limit", "api", "nothing=a", "api#override", "api|nothing=a##override+60+10"},
		{"a longer descriptor than any rule", "api", "user=a deep=b", "api#override", "api|user=a|deep=b##override+60+10"},
		{"values that share a bucket", "api", "path=/files/a", "api/path=/files/*", "api|path=/files/*##override+60+10"},
		{"values that would if a rule matched", "api", "path=/files/a x=y", "api#override", "api|path=/files/a|x=y##override+60+10"},
		{"K97 a hidden value", "api", "token=secret", "api/token", "api|token" + digest + "##override+60+10"},
		{"K97 a hidden value of no rule", "api", "token=secret x=y", "api#override", "api|token" + digest + "|x=y##override+60+10"},
		{"K97 a hidden value where it does not belong", "api", "user=a token=secret", "api#override", "api|user=a|token" + digest + "##override+60+10"},
		{"a rule that is not to be overridden", "api", "fixed=a", "", ""},
		{"a domain that is not to be overridden", "closed", "user=a", "", ""},
		{"nor where no rule matches", "closed", "other=a", "", ""},
		{"a rule that may be all the same", "closed", "open=a", "closed/open", "closed|open=a##override+60+10"},
		{"an unknown domain", "none", "user=a", "", ""},
		{"no entries", "api", "", "", ""},
	} {
		r, l, k := set.Overridden(tt.domain, entriesOf(tt.entries), override(t, "10/minute"))
		have := ""
		if r != nil {
			have = r.ID
		}
		if have != tt.rule || string(k) != tt.key || (l == nil) != (r == nil) {
			t.Errorf("%s: have %q, %v, %s, want %q, %s", tt.reason, have, l, k, tt.rule, tt.key)
			continue
		}
		if l == nil {
			continue
		}
		if want := (quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(10), Per: 60 * quota.Second}, Burst: quota.Whole(10)}); l.Capacity != want || l.Standing != 0 || l.Window != 0 || l.Windowed() || l.Name != "" || l.String() != "10 per minute" {
			t.Errorf("%s: have %+v", tt.reason, l)
		}
	}
	if r, l, k := set.Overridden("api", entriesOf("user=a"), Override{}); r != nil || l != nil || k != "" {
		t.Errorf("no override: have %v, %v, %s", r, l, k)
	}
}

func TestAnOverrideKeepsThePoliciesOfItsRule(t *testing.T) {
	set := load(t, overrideDocument)
	limit := func(entries, o string) *Limit {
		_, l, _ := set.Overridden("api", entriesOf(entries), override(t, o))
		return l
	}
	if l := limit("user=a", "7/hour"); l.OnDisconnect != OnDisconnectHold || l.OnStoreFailure != OnStoreFailureAllow || l.ColdStartWait != time.Second || l.Weights["eu"] != 3 || l.Algorithm != TokenBucket {
		t.Errorf("of a fixed window: have %+v", l)
	}
	if l := limit("many=a", "7/hour"); l.OnDisconnect != OnDisconnectDeny {
		t.Errorf("of the first of several limits: have %+v", l)
	}
	if l := limit("shaped=a", "7/hour"); l.Algorithm != LeakyBucket || !l.Shape || !l.Settle || l.MaxDebt != quota.Whole(100) || l.Burst != quota.Whole(7) {
		t.Errorf("of a shaped limit: have %+v", l)
	}
	if l := limit("shaped=a", "1/day"); l.MaxDebt != quota.Whole(30) {
		t.Errorf("a debt that the override pays back in 30 days: have %v", l.MaxDebt)
	}
	if l := limit("shaped=a", "0/day"); l.MaxDebt != 0 || l.Settle || l.Burst != 0 {
		t.Errorf("nothing pays no debt: have %+v", l)
	}
	if l := limit("other=a", "7/hour"); l.OnDisconnect != OnDisconnectStanding || l.ColdStartWait != DefaultColdStartWait {
		t.Errorf("of no rule: have %+v", l)
	}
}

// The coordinator finds for the key of an override the rule and the limit that the
// region found for the request, and no key has a limit that no request has.
func TestLimitOfUndoesOverridden(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := randomTree(t)
		set := load(t, root.document())
		keys := map[quota.Key]string{}
		for range 10 {
			entries, o := randomEntries(t), overrides().Draw(t, "override")
			r, l, k := set.Overridden(root.key, entries, o)
			matched := set.Match(root.key, entries)
			switch {
			case len(entries) == 0 || matched != nil && matched.NoOverride:
				if r != nil {
					t.Fatalf("%q: have %s, want none", entries, r.ID)
				}
				continue
			case matched != nil && r != matched || matched == nil && r.ID != set.domains[root.key].unmatched.ID:
				t.Fatalf("%q: have %v, want %v", entries, r, matched)
			}
			rule, limit := set.LimitOf(k)
			if rule != r || limit == nil || limit.String() != l.String() || limit.Capacity != l.Capacity {
				t.Fatalf("%q is counted by %s under %s, whose limit is %v of %v", entries, r.ID, k, limit, rule)
			}
			d, err := DecodeKey(k)
			if err != nil || d.Override != o || d.Key() != k || len(d.Parts) != len(entries) {
				t.Fatalf("key %s decodes to %+v, %v", k, d, err)
			}
			if matched == nil {
				continue
			}
			for i := range matched.Limits {
				if own := matched.Key(root.key, entries, i); own == k {
					t.Fatalf("%q with and without an override have the key %s", entries, k)
				}
			}
			keys[k] = r.ID
		}
		for k, id := range keys {
			if r, _ := set.LimitOf(k); r.ID != id {
				t.Fatalf("%s is counted by %s, want %s", k, r.ID, id)
			}
		}
	})
}
