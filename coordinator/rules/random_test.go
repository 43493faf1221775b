package rules

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// tree is a document as the tests think of it: plain lists, nothing indexed.
type tree struct {
	key, value string
	share      bool
	hash       bool
	fixed      bool     // no overrides
	limits     []string // names of the limits; {""} for a single one, nil for none
	children   []*tree
}

func (d *tree) yaml(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s- key: %s\n", indent, strconv.QuoteToASCII(d.key))
	indent += "  "
	if d.value != "" {
		fmt.Fprintf(b, "%svalue: %s\n", indent, strconv.QuoteToASCII(d.value))
	}
	if d.share {
		fmt.Fprintf(b, "%sshare_threshold: true\n", indent)
	}
	if d.hash {
		fmt.Fprintf(b, "%shash_value: true\n", indent)
	}
	if d.fixed {
		fmt.Fprintf(b, "%sallow_override: false\n", indent)
	}
	switch {
	case len(d.limits) == 1 && d.limits[0] == "":
		fmt.Fprintf(b, "%srate_limit: {unit: second, requests_per_unit: 1}\n", indent)
	case len(d.limits) > 0:
		fmt.Fprintf(b, "%srate_limits:\n", indent)
		for _, name := range d.limits {
			fmt.Fprintf(b, "%s- {name: %s, unit: second, requests_per_unit: 1}\n", indent, strconv.QuoteToASCII(name))
		}
	}
	if len(d.children) > 0 {
		fmt.Fprintf(b, "%sdescriptors:\n", indent)
		for _, c := range d.children {
			c.yaml(b, indent)
		}
	}
}

// document renders the children of root as a document whose domain is root's key.
func (root *tree) document() string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", strconv.QuoteToASCII(root.key))
	for _, c := range root.children {
		c.yaml(&b, "")
	}
	return b.String()
}

// find is the dumb version of Match: it tries every child with a regular
// expression, in the order exact, pattern, key only.
func (root *tree) find(entries []Entry) *tree {
	at := root
	for _, e := range entries {
		var exact, pattern, keyOnly *tree
		for _, c := range at.children {
			switch {
			case c.key != e.Key:
			case c.value == "":
				keyOnly = c
			case c.value == e.Value:
				exact = c
			case pattern == nil && strings.Contains(c.value, "*"):
				re := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(c.value), `\*`, ".*") + "$"
				if regexp.MustCompile(re).MatchString(e.Value) {
					pattern = c
				}
			}
		}
		switch {
		case exact != nil:
			at = exact
		case pattern != nil:
			at = pattern
		case keyOnly != nil:
			at = keyOnly
		default:
			return nil
		}
	}
	if len(entries) == 0 || at.limits == nil {
		return nil
	}
	return at
}

// words of which keys, values and patterns are drawn: few, so that they meet.
var (
	someKeys     = []string{"a", "b", "a=x", "k|"}
	someValues   = []string{"", "x", "xy", "yx", "*", "x*", "*x", "x*y", "*x*", "y*x*y", "**", "é{}%|#"}
	someRequests = []string{"", "x", "xy", "yx", "xxy", "yxyxy", "*", "x*", "*x", "zxz", "z", "é{}%|#", "x\ny"}
)

func randomTree(t *rapid.T) *tree {
	root := &tree{key: rapid.SampledFrom([]string{"d", "d/e|f#"}).Draw(t, "domain")}
	grow(t, root, rapid.IntRange(1, 3).Draw(t, "depth"))
	return root
}

func grow(t *rapid.T, parent *tree, depth int) {
	seen := map[Entry]bool{}
	for range rapid.IntRange(1, 6).Draw(t, "children") {
		c := &tree{key: rapid.SampledFrom(someKeys).Draw(t, "key"), value: rapid.SampledFrom(someValues).Draw(t, "value")}
		if seen[Entry{c.key, c.value}] {
			continue
		}
		seen[Entry{c.key, c.value}] = true
		c.share = strings.Contains(c.value, "*") && rapid.Bool().Draw(t, "share")
		c.hash = !c.share && rapid.IntRange(0, 3).Draw(t, "hash") == 0
		c.limits = rapid.SampledFrom([][]string{nil, {""}, {""}, {"per second", "#2"}}).Draw(t, "limits")
		c.fixed = c.limits != nil && rapid.IntRange(0, 3).Draw(t, "fixed") == 0
		if depth > 1 && rapid.Bool().Draw(t, "nested") {
			grow(t, c, depth-1)
		}
		parent.children = append(parent.children, c)
	}
}

func randomEntries(t *rapid.T) []Entry {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Entry {
		return Entry{rapid.SampledFrom(someKeys).Draw(t, "key"), rapid.SampledFrom(someRequests).Draw(t, "value")}
	}), 0, 4).Draw(t, "entries")
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// load parses one document that must be right.
func load(t fataler, text string) *Set {
	t.Helper()
	set, err := Parse([]quota.Source{{Name: "rules.yaml", Text: text}})
	if err != nil {
		t.Fatalf("parse:\n%v\n%s", err, text)
	}
	return set
}

// Match agrees with the dumb search on every request to every document.
func TestMatchAgreesWithExhaustiveSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := randomTree(t)
		set := load(t, root.document())
		for range 10 {
			entries := randomEntries(t)
			have, want := set.Match(root.key, entries), root.find(entries)
			if (have == nil) != (want == nil) {
				t.Fatalf("%q: have %v, want %+v", entries, have, want)
			}
			if have != nil && (have.node.key != want.key || have.node.value != want.value || len(have.Limits) != len(want.limits)) {
				t.Fatalf("%q: have %s, want %+v", entries, have.ID, want)
			}
			if explained, lines := set.Explain(root.key, entries); explained != have || len(lines) == 0 {
				t.Fatalf("%q: explain has %v in %d lines, match has %v", entries, explained, len(lines), have)
			}
		}
	})
}

// The coordinator finds for the key of a request the very limit that the region
// found for the request itself.
func TestLimitOfUndoesMatchAndKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := randomTree(t)
		set := load(t, root.document())
		for range 10 {
			entries := randomEntries(t)
			r := set.Match(root.key, entries)
			if r == nil {
				continue
			}
			for i := range r.Limits {
				k := r.Key(root.key, entries, i)
				if rule, limit := set.LimitOf(k); rule != r || limit != &r.Limits[i] {
					t.Fatalf("%q matched %s, but its key %s has %v", entries, r.ID, k, rule)
				}
				if d, err := DecodeKey(k); err != nil || d.Key() != k {
					t.Fatalf("key %s decodes to %+v, %v", k, d, err)
				}
				if rule, limit := set.LimitOf(r.Sample(i)); rule != r || limit != &r.Limits[i] {
					t.Fatalf("%q matched %s, but its sample %s has %v", entries, r.ID, r.Sample(i), rule)
				}
			}
		}
	})
}

// Whatever key has a limit is the key of some request that this limit counts.
func TestLimitOfKnowsNoKeyThatIsNotCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := randomTree(t)
		set := load(t, root.document())
		for range 10 {
			d := Identity{Domain: root.key, Limit: rapid.SampledFrom([]string{"", "#2", "none"}).Draw(t, "limit")}
			entries := randomEntries(t)
			for _, e := range entries {
				// A part with a digest may have a limit that no request leads to.
				pattern := strings.Contains(e.Value, "*") && rapid.Bool().Draw(t, "pattern")
				d.Parts = append(d.Parts, Part{Key: e.Key, Value: e.Value, Pattern: pattern})
			}
			r, limit := set.LimitOf(d.Key())
			if r == nil {
				continue
			}
			// A request may carry the pattern's own text.
			if set.Match(root.key, entries) != r {
				t.Fatalf("%s is counted by %s, but the request is not", d.Key(), r.ID)
			}
			for i := range r.Limits {
				if &r.Limits[i] == limit && r.Key(root.key, entries, i) != d.Key() {
					t.Fatalf("have %s, want %s", r.Key(root.key, entries, i), d.Key())
				}
			}
		}
	})
}

func TestRuleIDsAreUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := load(t, randomTree(t).document())
		seen := map[string]bool{}
		for _, r := range set.Rules() {
			if seen[r.ID] {
				t.Fatalf("two rules are called %s", r.ID)
			}
			seen[r.ID] = true
		}
	})
}
