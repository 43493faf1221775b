package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
)

// maxListed bounds how many siblings a line of a trace names.
const maxListed = 5

// Explain does what Match does and says, line by line, what it considered and
// why that did or did not apply.
func (s *Set) Explain(domain string, entries []Entry) (*Rule, []string) {
	var t trace
	if !s.HasDomain(domain) {
		names := s.Domains()
		t.say("no document defines the domain %s%s%s", quoted(domain), listed("; loaded", names), didYouMean(domain, names))
		return nil, t
	}
	root := s.domains[domain]
	t.say("domain %s: %s:%d", quoted(domain), root.file, root.line)
	if len(entries) == 0 {
		t.say("the descriptor has no entries, so no rule applies")
		return nil, t
	}
	shown := root.shownEntries(entries)
	n := root
	for i, e := range entries {
		next := n.child(e)
		if next == nil {
			t.miss(n, e, shown[i], i)
			t.backtrack(root, entries, shown, i)
			return nil, t
		}
		t.hit(n, next, e, shown[i])
		n = next
	}
	switch {
	case n.rule == nil && len(n.children) > 0:
		t.say("%s has no limit of its own; its rules need another entry with %s", quoted(n.label()), keysOf(n))
	case n.rule == nil:
		t.say("%s has no limit, so what it matches is not limited", quoted(n.label()))
	default:
		t.say("rule %s: %s", quoted(n.rule.ID), n.rule.facts().summary())
	}
	return n.rule, t
}

// ExplainOverride does what Overridden does and says what becomes of the override; the
// line is empty without one, and where no document has the domain.
func (s *Set) ExplainOverride(domain string, entries []Entry, o Override) (rule *Rule, limit *Limit, key quota.Key, line string) {
	rule, limit, key = s.Overridden(domain, entries, o)
	matched := s.Match(domain, entries)
	switch {
	case o.IsZero() || !s.HasDomain(domain) || len(entries) == 0:
	case limit != nil && matched != nil:
		line = fmt.Sprintf("the request's own limit takes the place of the rule's: %s", limit)
	case limit != nil:
		line = fmt.Sprintf("no rule matches, so the request's own limit counts: %s", limit)
	case matched != nil:
		line = fmt.Sprintf("the request's own limit is ignored: the rule %s has `allow_override: false`", quoted(matched.ID))
	default:
		line = fmt.Sprintf("the request's own limit is ignored: the domain %s has `allow_override: false`", quoted(domain))
	}
	return rule, limit, key, line
}

type trace []string

func (t *trace) say(format string, args ...any) { *t = append(*t, fmt.Sprintf(format, args...)) }

func (e Entry) String() string { return e.Key + "=" + e.Value }

// shownEntries returns entries of a request as a trace may quote them: without
// the values that the domain hides anywhere, for a secret in the wrong place is
// still one.
func (root *node) shownEntries(entries []Entry) []string {
	shown := make([]string, len(entries))
	for i, e := range entries {
		if root.hides[e.Key] && e.Value != "" {
			e.Value = "=" + Digest(e.Value)
		}
		shown[i] = quoted(e.String())
	}
	return shown
}

// hit says how an entry was matched, and what came first without fitting.
func (t *trace) hit(at, found *node, e Entry, shown string) {
	where := fmt.Sprintf("%s:%d", found.file, found.line)
	switch {
	case found.value == "":
		var passed []string
		for _, c := range at.children {
			if c.key == e.Key && c != found {
				passed = append(passed, c.shown())
			}
		}
		if len(passed) > 0 {
			t.say("entry %s: no value or pattern fits%s; key only, %s", shown, listed("", passed), where)
			return
		}
		t.say("entry %s: key only, %s", shown, where)
	case found.value == e.Value:
		t.say("entry %s: exact value, %s", shown, where)
	default:
		t.say("entry %s: first pattern that fits is %s, %s", shown, quoted(found.value), where)
	}
}

// miss says why no descriptor below at takes the entry.
func (t *trace) miss(at *node, e Entry, shown string, depth int) {
	what := "the domain"
	if depth > 0 {
		what = quoted(at.label())
	}
	var values []string
	for _, c := range at.children {
		if c.key == e.Key {
			values = append(values, c.shown())
		}
	}
	switch {
	case len(at.children) == 0 && depth > 0:
		t.say("entry %s: %s has no descriptors below it, and a rule never applies to a longer descriptor", shown, what)
	case len(at.children) == 0:
		t.say("entry %s: the domain has no descriptors", shown)
	case len(values) > 0:
		t.say("entry %s: %s wants another value%s", shown, what, listed("", values))
	default:
		t.say("entry %s: %s has no descriptor with the key %s, only with %s%s", shown, what, quoted(e.Key), keysOf(at), didYouMean(e.Key, at.keys()))
	}
}

// backtrack points out a rule that would have matched if an earlier entry had
// taken another way, since the lookup never goes back.
func (t *trace) backtrack(root *node, entries []Entry, shown []string, failed int) {
	n := root
	for i := range failed {
		taken := n.child(entries[i])
		for _, c := range n.children {
			if c == taken || c.key != entries[i].Key || c.value != "" && !fits(strings.Split(c.value, "*"), entries[i].Value) {
				continue
			}
			m := c
			for _, e := range entries[i+1:] {
				if m = m.child(e); m == nil {
					break
				}
			}
			if m != nil && m.rule != nil {
				t.say("rule %s would have matched, but entry %s is taken by %s, and the lookup does not go back", quoted(m.rule.ID), shown[i], quoted(taken.label()))
				return
			}
		}
		n = taken
	}
}

// keys returns the keys of the children, each once, in document order.
func (n *node) keys() []string {
	var keys []string
	for _, c := range n.children {
		if !slices.Contains(keys, c.key) {
			keys = append(keys, c.key)
		}
	}
	return keys
}

func keysOf(n *node) string {
	return strings.TrimSuffix(strings.TrimPrefix(listed("", n.keys()), " ("), ")")
}

// listed returns " (intro: `a`, `b`, … 7 more)", or nothing for no names.
func listed(intro string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	out := make([]string, 0, maxListed+1)
	for i, n := range names {
		if i == maxListed {
			out = append(out, fmt.Sprintf("… %d more", len(names)-i))
			break
		}
		out = append(out, quoted(n))
	}
	if intro != "" {
		return intro + ": " + strings.Join(out, ", ")
	}
	return " (" + strings.Join(out, ", ") + ")"
}
