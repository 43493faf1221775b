package rules

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// walk goes over the YAML nodes of one file once and notes every problem; what
// it returns is only used when there was none.
type walk struct {
	*builder
	file string
	// budget is how many nodes may still be visited. A file without aliases has
	// fewer nodes than bytes, so only expanding aliases can use it up.
	budget int
	// noOverride is what the document says of rules that do not say allow_override.
	noOverride bool
}

// trail is the path of keys to a node, linked upwards: it is only turned into
// text where there is a problem.
type trail struct {
	up    *trail
	name  string
	index int // for an item of a list, whose name is empty
}

// String returns the path like "descriptors[0].rate_limit.unit".
func (t *trail) String() string {
	var steps []*trail
	for ; t != nil; t = t.up {
		steps = append(steps, t)
	}
	var b strings.Builder
	for i := len(steps) - 1; i >= 0; i-- {
		switch s := steps[i]; {
		case s.name == "":
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case b.Len() > 0:
			b.WriteString("." + s.name)
		default:
			b.WriteString(s.name)
		}
	}
	return b.String()
}

func (w *walk) report(line, col int, t *trail, message string) {
	if len(w.problems) >= MaxProblems {
		return
	}
	w.problems = append(w.problems, Problem{File: w.file, Line: line, Col: col, Key: t.String(), Message: message})
}

func (w *walk) problem(n *yaml.Node, t *trail, format string, args ...any) {
	w.report(n.Line, n.Column, t, fmt.Sprintf(format, args...))
}

// field is one key of a mapping with its value.
type field struct {
	name  string
	key   *yaml.Node
	value *yaml.Node // aliases resolved
	trail *trail
}

// resolve follows an alias and counts the visit.
func (w *walk) resolve(n *yaml.Node, t *trail) *yaml.Node {
	for hops := 0; n.Kind == yaml.AliasNode && n.Alias != nil && hops < MaxDepth; hops++ {
		n = n.Alias
	}
	if w.budget--; w.budget == -1 {
		w.problem(n, t, "the aliases of this file expand to more than %d values; write them out or use fewer", maxAliased)
	}
	return n
}

// mapping returns the fields of a mapping in document order, merged ones
// (`<<: *name`) last. It reports whatever is no mapping, keys that are not text,
// keys that come twice and, unless known is nil, keys that are not in known.
func (w *walk) mapping(n *yaml.Node, t *trail, at level, known []string) []field {
	return w.merged(n, t, at, known, map[string]*yaml.Node{}, 0)
}

// merged is mapping where seen holds the keys that an outer mapping has set.
func (w *walk) merged(n *yaml.Node, t *trail, at level, known []string, seen map[string]*yaml.Node, depth int) []field {
	n = w.resolve(n, t)
	switch {
	case w.budget < 0:
		return nil
	case depth > MaxDepth:
		w.problem(n, t, "merge keys are nested deeper than %d; does a mapping merge itself?", MaxDepth)
		return nil
	case n.Kind != yaml.MappingNode:
		w.problem(n, t, "%s must be a mapping (`key: value`), not %s", t.what(), describe(n))
		return nil
	}
	var fields []field
	var merges []*yaml.Node
	own := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := w.resolve(n.Content[i], t)
		if w.budget < 0 {
			return nil
		}
		if key.ShortTag() == "!!merge" {
			merges = append(merges, n.Content[i+1])
			continue
		}
		// In metadata any scalar becomes a JSON name; elsewhere it is a mistake.
		switch {
		case key.Kind != yaml.ScalarNode:
			w.problem(key, t, "a key must be text, not %s", describe(key))
			continue
		case key.ShortTag() != "!!str" && at != levelMetadata:
			w.problem(key, t, "the key %s is not text; put it in quotes", describe(key))
			continue
		}
		name := key.Value
		f := field{name: name, key: key, trail: &trail{up: t, name: name}}
		if first := own[name]; first != nil {
			w.problem(key, f.trail, "the key %s appears twice; it is already on line %d", quoted(name), first.Line)
			continue
		}
		own[name] = key
		if seen[name] != nil {
			continue // an outer mapping overrides what it merges
		}
		f.value = w.resolve(n.Content[i+1], f.trail)
		if known != nil && !contains(known, name) {
			w.problem(key, f.trail, "%s", unknownKey(name, at, known))
			continue
		}
		fields = append(fields, f)
	}
	for name, key := range own {
		seen[name] = key
	}
	for _, m := range merges {
		fields = append(fields, w.merge(m, t, at, known, seen, depth+1)...)
	}
	return fields
}

// merge reads the value of a merge key: a mapping or a list of mappings, of
// which the earlier win.
func (w *walk) merge(n *yaml.Node, t *trail, at level, known []string, seen map[string]*yaml.Node, depth int) []field {
	if target := w.resolve(n, t); target.Kind == yaml.SequenceNode {
		var fields []field
		for _, item := range target.Content {
			fields = append(fields, w.merged(item, t, at, known, seen, depth)...)
		}
		return fields
	}
	return w.merged(n, t, at, known, seen, depth)
}

// list returns the items of a list; an empty value is an empty list.
func (w *walk) list(f field) []field {
	if isNull(f.value) || w.budget < 0 {
		return nil
	}
	if f.value.Kind != yaml.SequenceNode {
		w.problem(f.value, f.trail, "%s must be a list (`- …` items), not %s", f.trail.what(), describe(f.value))
		return nil
	}
	items := make([]field, 0, len(f.value.Content))
	for i, item := range f.value.Content {
		t := &trail{up: f.trail, index: i}
		v := w.resolve(item, t)
		if w.budget < 0 {
			return nil
		}
		items = append(items, field{key: v, value: v, trail: t})
	}
	return items
}

// what names the value at t in a message.
func (t *trail) what() string {
	switch {
	case t == nil:
		return "the document"
	case t.name == "":
		return "each item of " + t.up.what()
	}
	return quoted(t.name)
}

// isMapping reports whether the fields of f were read, so that a missing one is
// a problem of its own.
func (w *walk) isMapping(f field) bool { return w.budget >= 0 && f.value.Kind == yaml.MappingNode }

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// describe says what a node is, for a message.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias of itself"
	}
	switch {
	case isNull(n) && n.Value == "":
		return "empty"
	case n.Style&yaml.TaggedStyle != 0:
		return quoted(n.Value) + " with the tag " + n.ShortTag()
	case n.ShortTag() == "!!str" && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		return "the text " + strconv.Quote(shorten(n.Value))
	}
	return quoted(n.Value)
}

// quoted puts text from a document into a message: in backquotes, on one line
// and not too long.
func quoted(text string) string {
	q := strconv.Quote(shorten(text))
	return "`" + q[1:len(q)-1] + "`"
}

func shorten(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && text[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return text[:cut] + "…"
}
