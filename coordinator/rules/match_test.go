package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

// entries reads "key=value key2" the way a test writes it.
func entriesOf(text string) []Entry {
	var entries []Entry
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		entries = append(entries, Entry{key, value})
	}
	return entries
}

const matchDocument = `
domain: web
descriptors:
- {key: path, value: /a, rate_limit: &one {unit: second, requests_per_unit: 1}}
- {key: path, value: "/a*", rate_limit: *one}
- {key: path, value: "/*/b", rate_limit: *one}
- {key: path, value: "*.png", rate_limit: *one}
- {key: path, rate_limit: *one}
- key: a
  value: x
  descriptors:
  - {key: b, value: goo*, rate_limit: *one}
- key: a
  descriptors:
  - {key: b, rate_limit: *one}
  - {key: c, rate_limit: *one}
- {key: host, value: "*.example.com", rate_limit: *one}
- key: user
  rate_limit: *one
  descriptors:
  - {key: deep, rate_limit: *one}
- {key: exempt, value: nobody}
- {key: exempt, rate_limit: *one}
- {key: open, rate_limit: {unlimited: true}}
`

func TestMatch(t *testing.T) {
	set := load(t, matchDocument)
	for _, tt := range []struct{ reason, domain, entries, want string }{
		{"an exact value comes before a pattern that fits", "web", "path=/a", "web/path=/a"},
		{"a pattern with a trailing star", "web", "path=/abc", "web/path=/a*"},
		{"the first of two patterns in file order", "web", "path=/a/b", "web/path=/a*"},
		{"a star in the middle", "web", "path=/x/b", "web/path=/*/b"},
		{"a leading star", "web", "path=x.png", "web/path=*.png"},
		{"a star stands for nothing as well", "web", "path=.png", "web/path=*.png"},
		{"prefix and suffix do not overlap", "web", "path=/b", "web/path"},
		{"key only comes last", "web", "path=x", "web/path"},
		{"an empty value matches key only", "web", "path", "web/path"},
		{"K45 a nested pattern", "web", "a=x b=google", "web/a=x|b=goo*"},
		{"K45 a leading star in a host name", "web", "host=www.example.com", "web/host=*.example.com"},
		{"no backtracking: a=x is taken, so a's own c is out of reach", "web", "a=x c=1", ""},
		{"the generic branch", "web", "a=y c=1", "web/a|c"},
		{"a rule never applies to a longer descriptor", "web", "path=/a more=1", ""},
		{"nor to a shorter one", "web", "a=x", ""},
		{"a rule with rules below it", "web", "user=u", "web/user"},
		{"and those below it", "web", "user=u deep=1", "web/user|deep"},
		{"a descriptor without limit exempts its value", "web", "exempt=nobody", ""},
		{"but no other", "web", "exempt=somebody", "web/exempt"},
		{"an unlimited rule is a rule", "web", "open=1", "web/open"},
		{"an unknown key", "web", "nothing=1", ""},
		{"the order of entries counts", "web", "b=google a=x", ""},
		{"no entries", "web", "", ""},
		{"an unknown domain", "other", "path=/a", ""},
	} {
		have := ""
		if r := set.Match(tt.domain, entriesOf(tt.entries)); r != nil {
			have = r.ID
		}
		if have != tt.want {
			t.Errorf("%s: %q in %s: have %q, want %q", tt.reason, tt.entries, tt.domain, have, tt.want)
		}
	}
}

func TestTheZeroSetHasNoRules(t *testing.T) {
	for _, set := range []*Set{nil, {}} {
		if set.Match("d", entriesOf("a=b")) != nil || set.HasDomain("d") || len(set.Domains()) > 0 || len(set.Rules()) > 0 {
			t.Errorf("set %v has rules", set)
		}
		if r, l := set.LimitOf("d|a=b"); r != nil || l != nil {
			t.Errorf("set %v has a limit", set)
		}
		if r, lines := set.Explain("d", nil); r != nil || len(lines) == 0 {
			t.Errorf("set %v explains %v", set, r)
		}
	}
}

func TestOverlap(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"a*", "*b", true}, {"a*", "b*", false}, {"*a", "*b", false}, {"*", "x", true}, {"*x*", "*y*", true},
		{"a*c", "ab*", true}, {"a*c", "abd", false}, {"", "*", true}, {"", "a*", false}, {"**", "", true}, {"a*b*c", "a*d*c", true},
	} {
		if have := overlap(tt.a, tt.b); have != tt.want {
			t.Errorf("%s and %s: have %v, want %v", tt.a, tt.b, have, tt.want)
		}
		if have := overlap(tt.b, tt.a); have != tt.want {
			t.Errorf("%s and %s: have %v, want %v", tt.b, tt.a, have, tt.want)
		}
	}
}

// large has thousands of rules, so that nothing that grows with them can hide.
func large(t fataler) (*Set, []Entry) {
	var b strings.Builder
	b.WriteString("domain: large\ndescriptors:\n")
	for i := range 2000 {
		fmt.Fprintf(&b, "- {key: tenant, value: t%d, descriptors: [{key: path, value: '/v1/*/items', rate_limit: {unit: second, requests_per_unit: 1}}, {key: path, rate_limit: {unit: second, requests_per_unit: 1}}]}\n", i)
	}
	return load(t, b.String()), []Entry{{"tenant", "t1234"}, {"path", "/v1/orders/items"}}
}

func TestTheHotPathDoesNotAllocate(t *testing.T) {
	set, entries := large(t)
	var r *Rule
	if have := testing.AllocsPerRun(100, func() { r = set.Match("large", entries) }); have != 0 || r == nil {
		t.Errorf("match: have %v allocations and rule %v, want none", have, r)
	}
	var k quota.Key
	if have := testing.AllocsPerRun(100, func() { k = r.Key("large", entries, 0) }); have > 1 {
		t.Errorf("key: have %v allocations, want the key itself only", have)
	}
	buf := make([]byte, 0, 256)
	if have := testing.AllocsPerRun(100, func() { buf = r.AppendKey(buf[:0], "large", entries, 0) }); have != 0 || string(buf) != string(k) {
		t.Errorf("append key: have %v allocations and %s, want none and %s", have, buf, k)
	}
	if have := testing.AllocsPerRun(100, func() { set.LimitOf(k) }); have != 0 {
		t.Errorf("limit of a key without escapes: have %v allocations, want none", have)
	}
}

func BenchmarkMatch(b *testing.B) {
	set, entries := large(b)
	b.ReportAllocs()
	for b.Loop() {
		set.Match("large", entries)
	}
}

func BenchmarkKey(b *testing.B) {
	set, entries := large(b)
	r := set.Match("large", entries)
	b.ReportAllocs()
	for b.Loop() {
		r.Key("large", entries, 0)
	}
}

func BenchmarkKeyHidden(b *testing.B) {
	set := load(b, "domain: d\ndescriptors: [{key: k, hash_value: true, rate_limit: {unit: second, requests_per_unit: 1}}]")
	entries := []Entry{{"k", "a token of some length"}}
	r := set.Match("d", entries)
	b.ReportAllocs()
	for b.Loop() {
		r.Key("d", entries, 0)
	}
}

func BenchmarkLimitOf(b *testing.B) {
	set, entries := large(b)
	k := set.Match("large", entries).Key("large", entries, 0)
	b.ReportAllocs()
	for b.Loop() {
		set.LimitOf(k)
	}
}
