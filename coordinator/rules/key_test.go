package rules

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// hostile draws texts that a requester might choose to get into the bucket of
// somebody else.
func hostile() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{
			"", "a", "a=b", "a|b", "a#b", "a%7Cb", "%", "%%", "%2", "{}", "{a}", "}{", "*", "a*", "%2A", "=", "|", "#", "\n", "\r\n", " ", "\x00", "\x7f", "\xff", "é", "日本", "\u2028", "|k=v", "#limit",
			strings.Repeat("x", 4096), strings.Repeat("|", 4096), strings.Repeat("é", 2048),
		}),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.StringOfN(rapid.SampledFrom([]rune("a=|#%*{}2AC7")), 0, 8, -1),
	)
}

func identities() *rapid.Generator[Identity] {
	return rapid.Custom(func(t *rapid.T) Identity {
		return Identity{
			Domain: hostile().Draw(t, "domain"),
			Parts: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Part {
				p := Part{Key: hostile().Draw(t, "key"), Value: hostile().Draw(t, "value")}
				p.Pattern = strings.Contains(p.Value, "*") && rapid.Bool().Draw(t, "pattern")
				if rapid.Bool().Draw(t, "hidden") {
					p.Digest = Digest(hostile().Draw(t, "secret"))
					if !p.Pattern {
						p.Value = ""
					}
				}
				return p
			}), 0, 10).Draw(t, "parts"),
			Limit: hostile().Draw(t, "limit"),
			Span:  spans().Draw(t, "span"),
		}
	})
}

// spans draws windows of all kinds, mostly none.
func spans() *rapid.Generator[Span] {
	return rapid.Custom(func(t *rapid.T) Span {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return Span{Window: fixedSpans().Draw(t, "window")}
		case 1:
			return Span{Sliding: slidingSpans().Draw(t, "window")}
		case 2:
			return Span{Override: overrides().Draw(t, "override")}
		}
		return Span{}
	})
}

func fixedSpans() *rapid.Generator[Window] {
	return rapid.Custom(func(t *rapid.T) Window {
		start := quota.Micros(rapid.Int64Range(-farthest+1, farthest-1).Draw(t, "start"))
		return Window{start * quota.Second, (start + quota.Micros(rapid.Int64Range(1, farthest-1).Draw(t, "length"))) * quota.Second}
	})
}

func slidingSpans() *rapid.Generator[Sliding] {
	return rapid.Custom(func(t *rapid.T) Sliding {
		return Sliding{
			Algorithm: rapid.SampledFrom([]Algorithm{SlidingWindowLog, SlidingWindowCounter}).Draw(t, "algorithm"),
			Length:    quota.Micros(rapid.Int64Range(1, int64(MaxPeriod/time.Second)).Draw(t, "seconds")) * quota.Second,
		}
	})
}

// K37: nothing of an identity is left out of its key or taken for something
// else. What can be decoded exactly cannot be shared by two identities.
func TestK37DecodeUndoesEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := identities().Draw(t, "identity")
		if len(want.Parts) == 0 {
			want.Parts = nil
		}
		k := want.Key()
		have, err := DecodeKey(k)
		if err != nil || !reflect.DeepEqual(have, want) {
			t.Fatalf("%s: have %+v, %v; want %+v", k, have, err, want)
		}
		for _, c := range []byte(k) {
			if c <= ' ' || c > '~' || c == '{' || c == '}' {
				t.Fatalf("key %q holds the byte %q", k, c)
			}
		}
	})
}

func TestDifferentIdentitiesHaveDifferentKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := identities().Draw(t, "a"), identities().Draw(t, "b")
		if a.Key() == b.Key() && !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v and %+v have the key %s", a, b, a.Key())
		}
	})
}

func TestKeysAreReadable(t *testing.T) {
	set := load(t, `
domain: shop/eu
descriptors:
- key: user
  rate_limits: [{name: per second, unit: second, requests_per_unit: 10}, {name: day, unit: day, requests_per_unit: 250}]
- {key: path, value: "/files/*", share_threshold: true, descriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: 1}}]}
- {key: path, value: "*.js", rate_limit: {unit: second, requests_per_unit: 1}}
- {key: note, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: token, value: "a*", hash_value: true, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: token, value: own, hash_value: true, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: token, hash_value: true, rate_limit: {unit: second, requests_per_unit: 1}, descriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: 1}}]}
`)
	for _, tt := range []struct {
		reason  string
		entries []Entry
		limit   int
		want    quota.Key
	}{
		{"what is plain stays plain", []Entry{{"user", "alice@example.com"}}, 1, "shop/eu|user=alice@example.com#day"},
		{"K32 the windows of one descriptor have buckets of their own", []Entry{{"user", "a"}}, 0, "shop/eu|user=a#per%20second"},
		{"no value", []Entry{{"note", ""}}, 0, "shop/eu|note"},
		{"the pattern instead of the value, the values below it as they are", []Entry{{"path", "/files/x"}, {"user", "u"}}, 0, "shop/eu|path=/files/*|user=u"},
		{"the pattern's own text is one of its values", []Entry{{"path", "/files/*"}, {"user", "u"}}, 0, "shop/eu|path=/files/*|user=u"},
		{"a value that only looks like a pattern", []Entry{{"path", "*.js"}}, 0, "shop/eu|path=%2A.js"},
		{"separators, hash tags and spaces", []Entry{{"note", "a|b=c#d{e} %"}}, 0, "shop/eu|note=a%7Cb%3Dc%23d%7Be%7D%20%25"},
		{"K97 a hidden value", []Entry{{"token", "secret"}}, 0, "shop/eu|token==2bb80d537b1da3e38bd30361aa855686"},
		{"K97 a hidden value that the rules name", []Entry{{"token", "own"}}, 0, quota.Key("shop/eu|token==" + Digest("own"))},
		{"K97 a hidden value with its pattern, which the coordinator needs", []Entry{{"token", "abc"}}, 0, quota.Key("shop/eu|token=a*=" + Digest("abc"))},
		{"K97 only what is to be hidden is", []Entry{{"token", "secret"}, {"user", "u"}}, 0, "shop/eu|token==2bb80d537b1da3e38bd30361aa855686|user=u"},
		{"nothing to hide", []Entry{{"token", ""}}, 0, "shop/eu|token"},
		{"a value that only looks hidden", []Entry{{"note", "=2bb80d537b1da3e38bd30361aa855686"}}, 0, "shop/eu|note=%3D2bb80d537b1da3e38bd30361aa855686"},
		{"bytes that are no ASCII", []Entry{{"note", "é\n"}}, 0, "shop/eu|note=%C3%A9%0A"},
	} {
		r := set.Match("shop/eu", tt.entries)
		if r == nil {
			t.Fatalf("%s: no rule for %v", tt.reason, tt.entries)
		}
		if have := r.Key("shop/eu", tt.entries, tt.limit); have != tt.want {
			t.Errorf("%s: have %s, want %s", tt.reason, have, tt.want)
		}
		if by, _ := set.LimitOf(tt.want); by != r {
			t.Errorf("%s: %s is counted by %v, want %s", tt.reason, tt.want, by, r.ID)
		}
	}
}

func TestDecodeKeyRefusesOtherSpellings(t *testing.T) {
	for text, reason := range map[string]string{
		"d|k=":                                   "an empty value has no =",
		"d|k=v#":                                 "an empty limit name has no #",
		"d|k=%61":                                "a is not escaped",
		"d|k=%7c":                                "hexadecimal digits are upper case",
		"d|k=%7":                                 "an escape has two digits",
		"d|k=%":                                  "an escape has two digits",
		"d|k=%ZZ":                                "an escape has hexadecimal digits",
		"d|k=a b":                                "a space is escaped",
		"d|k={a}":                                "braces are escaped",
		"d|k=\xff":                               "other bytes are escaped",
		"d*|k=v":                                 "a star is for values",
		"d|k*=v":                                 "a star is for values",
		"d|k=v#l*":                               "a star is for values",
		"d|k=a=b":                                "= is escaped",
		"d|k=v#l#m":                              "# is escaped",
		"d|k=a*%2Ab":                             "a pattern's stars are bare",
		"d#l|k=v":                                "the limit comes last",
		"d|k==":                                  "a digest is not empty",
		"d|k==2bb80d537b1da3e38bd30361aa85568":   "a digest has 32 digits",
		"d|k==2BB80D537B1DA3E38BD30361AA855686":  "a digest is in lower case",
		"d|k=v=2bb80d537b1da3e38bd30361aa855686": "a hidden value is not there beside its digest",
		"d|k=a*==2bb80d537b1da3e38bd30361aa85568": "a digest has no =",
	} {
		if d, err := DecodeKey(quota.Key(text)); err == nil {
			t.Errorf("%s (%s): have %+v, want an error", text, reason, d)
		}
		if r, _ := load(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 1}}]").LimitOf(quota.Key(text)); r != nil {
			t.Errorf("%s (%s): a limit counts it", text, reason)
		}
	}
}

func FuzzDecodeKey(f *testing.F) {
	for _, seed := range []string{"", "d", "d|k=v|k2#limit", "d|k=a*b", "d|k=%7C%25", "d|k==2bb80d537b1da3e38bd30361aa855686|k=a*=2bb80d537b1da3e38bd30361aa855686#l", "|", "|=", "#", "%", "d|k=v##1764547200+86400", "d|k=v#l#-8589934591+1", "d|m##8589934591+8589934591", "d|s##log+60", "d|s#l#counter+86400", "d|s##override+60+10", "d|none##override+31536000+4294967295", "d|f##override+1+0"} {
		f.Add(seed)
	}
	set := load(f, `
domain: d
descriptors:
- {key: k, rate_limit: {unit: day, requests_per_unit: 5, quota: {algorithm: fixed_window}}}
- {key: m, rate_limit: {unit: month, requests_per_unit: 5, quota: {algorithm: fixed_window}}}
- {key: s, rate_limit: {unit: minute, requests_per_unit: 5, quota: {algorithm: sliding_window_log}}}
- {key: f, allow_override: false, rate_limit: {unit: minute, requests_per_unit: 5}}
`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := DecodeKey(quota.Key(text))
		if err == nil && d.Key() != quota.Key(text) {
			t.Errorf("%q decodes to %+v, whose key is %q", text, d, d.Key())
		}
		switch _, l := set.LimitOf(quota.Key(text)); {
		case l == nil:
		case l.Windowed() && l.WindowAt(d.Window.Start) != d.Window:
			t.Errorf("%q is counted in %s, which is no window of %s", text, d.Window.text(), l)
		case d.Sliding != l.sliding():
			t.Errorf("%q is counted by %s, which has another sliding window", text, l)
		case !d.Override.IsZero() && (l.RequestsPerUnit != d.Override.requests || l.Rate.Per != d.Override.per || l.Standing != 0):
			t.Errorf("%q is counted by %s, which is not what it says", text, l)
		}
	})
}

// K35: an exact rule beside a generic one neither shares its bucket nor resets
// it, and taking it away gives the value back the bucket it had.
func TestK35RulesWithTheSameKeyFieldsDoNotShareACounter(t *testing.T) {
	generic := "domain: d\ndescriptors:\n- {key: model, value: '*', share_threshold: true, rate_limit: {unit: second, requests_per_unit: 1000}}\n"
	exact := "- {key: model, value: m, rate_limit: {unit: second, requests_per_unit: 10}}\n"
	both := load(t, generic+exact)
	key := func(s *Set, value string) quota.Key {
		e := []Entry{{"model", value}}
		return s.Match("d", e).Key("d", e, 0)
	}
	if a, b := key(both, "m"), key(both, "other"); a == b {
		t.Errorf("both rules count under %s", a)
	}
	if have, want := key(both, "other"), key(load(t, generic), "m"); have != want {
		t.Errorf("the generic rule's bucket moved: have %s, want %s", have, want)
	}
	keyOnly := load(t, "domain: d\ndescriptors: [{key: model, rate_limit: {unit: second, requests_per_unit: 7}}]")
	if have, want := key(both, "m"), key(keyOnly, "m"); have != want {
		t.Errorf("the bucket of m depends on the rule: have %s, want %s", have, want)
	}
}

func TestSamplesAreCountedByTheirLimit(t *testing.T) {
	set := load(t, `
domain: d
descriptors:
- {key: a, value: any, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: a, value: "an*", rate_limits: [{name: x, unit: second, requests_per_unit: 1}, {name: y, unit: day, requests_per_unit: 1}]}
- {key: a, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: b, value: "*", rate_limit: {unit: second, requests_per_unit: 1}}
- {key: b, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: c, value: "*", share_threshold: true, descriptors: [{key: e, rate_limit: {unit: second, requests_per_unit: 1}}]}
`)
	for i, want := range []quota.Key{"d|a=any", "d|a=anany#y", "d|a", "d|b=any", "d|b=any", "d|c=*|e=any"} {
		r := set.Rules()[i]
		have := r.Sample(len(r.Limits) - 1)
		if have != want {
			t.Errorf("%s: have %s, want %s", r.ID, have, want)
		}
		// Nothing reaches b without value, because the pattern takes it all.
		if by, _ := set.LimitOf(have); by != r && r.ID != "d/b" {
			t.Errorf("%s: its sample %s is counted by %v", r.ID, have, by)
		}
	}
}
