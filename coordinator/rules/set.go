package rules

import (
	"slices"
	"strings"
)

// Set is the rules of all documents. It is immutable and safe for concurrent
// use; the zero Set, and a nil one, have no rules.
type Set struct {
	domains map[string]*node
	names   []string // of the domains, sorted
	rules   []*Rule  // in document order
}

// node is one descriptor of the document; the root of a domain is a node
// without key. It mirrors the document, so a lookup is a walk down the tree.
type node struct {
	key, value string
	// pieces are the literal parts around each `*` of value; nil without one.
	pieces []string
	// share makes all values that match the pattern one counted identity.
	share bool
	// valued is value_to_metric: rules at and below it name their values in metrics.
	valued bool
	// hash counts values under their digests.
	hash bool
	// hides are the keys whose values are hidden anywhere in the domain, and unmatched is
	// the rule of overrides that no other matches. Only roots have them.
	hides     map[string]bool
	unmatched *Rule

	parent   *node
	children []*node // in document order
	// exact finds children by their literal key and value; a child without
	// value is under the empty value. Patterns are in it too, because a request
	// may carry a pattern's very text.
	exact map[Entry]*node
	// wild are the children with a pattern, by key, in document order.
	wild map[string][]*node
	// digests are the children with a value, by key and the value's digest; only
	// for keys with a child that hashes.
	digests map[Entry]*node
	rule    *Rule // nil for a descriptor without limit

	file string
	line int
}

// Domains returns the names of the domains, sorted.
func (s *Set) Domains() []string {
	if s == nil {
		return nil
	}
	return slices.Clone(s.names)
}

// HasDomain reports whether a document defines the domain.
func (s *Set) HasDomain(domain string) bool { return s != nil && s.domains[domain] != nil }

// Rules returns all rules in document order. The slice must not be changed.
func (s *Set) Rules() []*Rule {
	if s == nil {
		return nil
	}
	return s.rules
}

// Unmatched returns the rules of overrides that no other rule matches, one for each
// domain, sorted by domain. They have no limits of their own and are not among Rules.
func (s *Set) Unmatched() []*Rule {
	if s == nil {
		return nil
	}
	var all []*Rule
	for _, name := range s.names {
		all = append(all, s.domains[name].unmatched)
	}
	return all
}

// Match returns the rule that applies to a descriptor of a request, nil for
// none. Entry by entry it takes the child with exactly this key and value, else
// the first pattern in document order that fits, else the child with this key
// and no value. It never goes back to try another, and the rule must be as deep
// as the descriptor is long. Source: envoyproxy/ratelimit, config_impl.go,
// GetLimit. It allocates nothing.
func (s *Set) Match(domain string, entries []Entry) *Rule {
	if s == nil {
		return nil
	}
	n := s.domains[domain]
	for i := 0; n != nil && i < len(entries); i++ {
		n = n.child(entries[i])
	}
	if n == nil {
		return nil
	}
	return n.rule
}

// child returns the descriptor one level down that an entry selects.
func (n *node) child(e Entry) *node {
	if e.Value != "" {
		if c := n.exact[e]; c != nil {
			return c
		}
	}
	for _, c := range n.wild[e.Key] {
		if fits(c.pieces, e.Value) {
			return c
		}
	}
	return n.exact[Entry{Key: e.Key}]
}

// add appends a child; the caller has checked that it is not there yet.
func (n *node) add(c *node) {
	c.parent = n
	n.children = append(n.children, c)
	if n.exact == nil {
		n.exact = map[Entry]*node{}
	}
	n.exact[Entry{c.key, c.value}] = c
	if strings.Contains(c.value, "*") {
		c.pieces = strings.Split(c.value, "*")
		if n.wild == nil {
			n.wild = map[string][]*node{}
		}
		n.wild[c.key] = append(n.wild[c.key], c)
	}
}

// path returns the descriptors from the domain (not included) down to n.
func (n *node) path() []*node {
	var p []*node
	for ; n.parent != nil; n = n.parent {
		p = append(p, n)
	}
	slices.Reverse(p)
	return p
}

// label is the descriptor as people write it, or as its value is counted if that
// is hidden.
func (n *node) label() string {
	if n.value == "" {
		return n.key
	}
	return n.key + "=" + n.shown()
}

// shown is the value for people. A pattern is no secret.
func (n *node) shown() string {
	if n.hash && n.value != "" && !strings.Contains(n.value, "*") {
		return "=" + Digest(n.value)
	}
	return n.value
}

// id is the text of Rule.ID for the descriptor n of a domain. Separators inside
// the parts are percent-escaped, so no two descriptors have the same; so is a `=`
// that a value begins with, because that is how a hidden value begins.
func (n *node) id(domain string) string {
	var b strings.Builder
	b.WriteString(escapeLabel(domain, "/"))
	for i, step := range n.path() {
		if i == 0 {
			b.WriteByte('/')
		} else {
			b.WriteByte('|')
		}
		b.WriteString(escapeLabel(step.key, "|="))
		if step.value != "" {
			b.WriteByte('=')
			shown := step.shown()
			if rest, ok := strings.CutPrefix(step.value, "="); ok && shown == step.value {
				b.WriteString("%3D")
				shown = rest
			}
			b.WriteString(escapeLabel(shown, "|"))
		}
	}
	return b.String()
}

// escapeLabel escapes what would be ambiguous or invisible in a label; the rest
// stays readable, whatever its alphabet.
func escapeLabel(text, separators string) string {
	special := func(c byte) bool {
		return c == '%' || c < ' ' || c == 0x7f || strings.IndexByte(separators, c) >= 0
	}
	var b strings.Builder
	for i := range len(text) {
		if special(text[i]) {
			b.Write(appendEscape(nil, text[i]))
		} else {
			b.WriteByte(text[i])
		}
	}
	return b.String()
}
