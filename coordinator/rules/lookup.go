package rules

import (
	"cmp"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
)

// LimitOf returns the limit that counts the identity of a key, and its rule;
// nil when no rule does. It returns what Match and Rule.Key, or Overridden, started from.
func (s *Set) LimitOf(k quota.Key) (*Rule, *Limit) {
	var buf [8]Part
	domain, parts, limit, span, ok := decodeKey(string(k), buf[:0])
	if !ok || s == nil {
		return nil, nil
	}
	n := s.domains[domain]
	for i := 0; n != nil && i < len(parts); i++ {
		n = n.counted(parts[i])
	}
	if !span.Override.IsZero() && s.domains[domain] != nil && limit == "" {
		return s.domains[domain].overriddenOf(n, parts, span.Override)
	}
	if n == nil || n.rule == nil {
		return nil, nil
	}
	for i := range n.rule.Limits {
		if l := &n.rule.Limits[i]; l.Name == limit && l.mayHave(span.Window) && l.sliding() == span.Sliding && span.Override.IsZero() {
			return n.rule, l
		}
	}
	return nil, nil
}

// counted returns the child under which requests are counted with this part.
// A part and a child disagree about sharing or hashing only after an edit of the rules:
// then no request is counted under that key any more.
func (n *node) counted(p Part) *node {
	if p.Digest != "" {
		return n.hidden(p)
	}
	e := Entry{p.Key, p.Value}
	var c *node
	if p.Pattern {
		c = n.exact[e]
	} else {
		c = n.child(e)
	}
	if c == nil || c.share != p.Pattern || c.hash && p.Value != "" {
		return nil
	}
	return c
}

// Sample returns a key that r.Limits[limit] counts, made from the rule's own
// path. A pattern or a missing value is replaced by a made-up value that leads
// to the rule; a rule without value that patterns hide has none.
func (r *Rule) Sample(limit int) quota.Key {
	d := Identity{Domain: r.Domain}
	for _, n := range r.node.path() {
		d.Parts = append(d.Parts, n.sample())
	}
	if limit < len(r.Limits) {
		l := &r.Limits[limit]
		d.Limit, d.Span = l.Name, Span{Window: l.AnyWindow(), Sliding: l.sliding()}
	}
	return d.Key()
}

func (n *node) sample() Part {
	p := Part{Key: n.key, Value: n.value}
	switch {
	case n.share:
		p.Pattern = true
	case n.pieces != nil:
		p.Value = n.parent.standIn(n, func(s string) string { return strings.Join(n.pieces, s) })
	case n.value == "":
		p.Value = n.parent.standIn(n, func(s string) string { return s })
	}
	if n.hash && p.Value != "" {
		p.Digest, p.Value = Digest(p.Value), ""
		if p.Pattern = n.pieces != nil; p.Pattern {
			p.Value = n.value
		}
	}
	return p
}

// standIn returns the first value made from one of a few texts that selects
// the child want. When none does, it returns a pattern's own text, which selects
// that pattern before any other, and for a missing value the first one.
func (n *node) standIn(want *node, value func(string) string) string {
	texts := [...]string{"any", "", "0", "A", "~", "any-other", "0.0.0.0", "any value at all"}
	for _, text := range texts {
		if v := value(text); n.child(Entry{want.key, v}) == want {
			return v
		}
	}
	return cmp.Or(want.value, value(texts[0]))
}
