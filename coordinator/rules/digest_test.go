package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

// K97: nothing that the rules say about a request has the value that they hide.
func TestK97HiddenValuesAreInNoKeyNameOrTrace(t *testing.T) {
	const secret = "hunter2"
	text := `
domain: d
descriptors:
- {key: path, value: "*", descriptors: [{key: token, hash_value: true, rate_limit: {unit: day, requests_per_unit: 1}}]}
- key: token
  hash_value: true
  rate_limits: [{name: s, unit: second, requests_per_unit: 1}, {name: d, unit: day, requests_per_unit: 9}]
- {key: token, value: "h*x", hash_value: true, rate_limit: {unit: day, requests_per_unit: 1}}
`
	for _, own := range []string{"", "- {key: token, value: hunter2, hash_value: true, rate_limit: {unit: day, requests_per_unit: 2}}\n"} {
		set := load(t, text+own)
		var seen strings.Builder
		for _, entries := range [][]Entry{
			{{"token", secret}}, {{"token", secret + "x"}}, {{"path", "/"}, {"token", secret}},
			{{"token", secret}, {"path", "/"}}, {{"user", "u"}, {"token", secret}}, {{"path", "/"}, {"token", secret}, {"token", secret}},
		} {
			r, lines := set.Explain("d", entries)
			fmt.Fprintln(&seen, strings.Join(lines, "\n"))
			if r == nil {
				continue
			}
			fmt.Fprintln(&seen, r.ID, r.facts())
			for i := range r.Limits {
				k := r.Key("d", entries, i)
				d, err := DecodeKey(k)
				fmt.Fprintln(&seen, k, d, err)
			}
		}
		fmt.Fprintln(&seen, Diff(nil, set), Diff(set, nil))
		if strings.Contains(seen.String(), secret) {
			t.Errorf("with %q the secret is in\n%s", own, seen.String())
		}
		if digest := Digest(secret); strings.Count(seen.String(), digest) < 4 {
			t.Errorf("with %q the digest %s should be in keys and traces\n%s", own, digest, seen.String())
		}
	}
}

// A key is looked up where its values are counted, not where they were.
func TestLimitOfHiddenValues(t *testing.T) {
	set := load(t, `
domain: d
descriptors:
- {key: k, value: open, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: k, value: own, hash_value: true, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: k, value: "a*", hash_value: true, rate_limit: {unit: day, requests_per_unit: 3}}
- {key: k, value: "b*", rate_limit: {unit: day, requests_per_unit: 4}}
- {key: k, hash_value: true, rate_limit: {unit: day, requests_per_unit: 5}}
- {key: plain, rate_limit: {unit: day, requests_per_unit: 6}}
`)
	hidden := func(before, value string) quota.Key { return quota.Key("d|" + before + "=" + Digest(value)) }
	for _, tt := range []struct {
		reason string
		key    quota.Key
		want   string
	}{
		{"any value", hidden("k=", "x"), "d/k"},
		{"a value of its own descriptor", hidden("k=", "own"), "d/k==" + Digest("own")},
		{"a value that fits a pattern", hidden("k=a*", "abc"), "d/k=a*"},
		{"the pattern's own text", hidden("k=a*", "a*"), "d/k=a*"},
		{"the pattern's own text is not counted without the pattern", hidden("k=", "a*"), ""},
		{"a value that is counted as it is", hidden("k=", "open"), ""},
		{"its own descriptor comes before a pattern", hidden("k=a*", "own"), ""},
		{"the pattern hides nothing", hidden("k=b*", "bcd"), ""},
		{"there is no such pattern", hidden("k=c*", "cde"), ""},
		{"the descriptor hides nothing", hidden("plain=", "x"), ""},
		{"a plain value where all are hidden", "d|k=x", ""},
		{"a plain value of its own descriptor", "d|k=own", ""},
		{"a plain value that fits a pattern", "d|k=abc", ""},
	} {
		have := ""
		if r, _ := set.LimitOf(tt.key); r != nil {
			have = r.ID
		}
		if have != tt.want {
			t.Errorf("%s: %s is counted by %q, want %q", tt.reason, tt.key, have, tt.want)
		}
	}
}

func TestRuleIDsOfHiddenValuesAreUnique(t *testing.T) {
	set := load(t, fmt.Sprintf(`
domain: d
descriptors:
- {key: k, value: own, hash_value: true, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: k, value: "=%s", rate_limit: {unit: day, requests_per_unit: 1}}
`, Digest("own")))
	if a, b := set.Rules()[0].ID, set.Rules()[1].ID; a == b {
		t.Errorf("two rules are called %s", a)
	}
}
