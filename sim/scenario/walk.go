package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/quorate/quorate/coordinator/rules"
)

// reader goes over the YAML nodes of one file once and notes every problem; what
// it has read is only used when there was none.
type reader struct {
	file     string
	problems rules.Problems
	places   map[string]place // of all fields, by path
}

// field is a value with its place.
type field struct {
	path  string // like "load[0].flash.at"
	key   *yaml.Node
	value *yaml.Node // aliases resolved
}

// keys says what to do with each key that a mapping may have.
type keys map[string]func(field)

func (r *reader) problem(n *yaml.Node, path, format string, args ...any) {
	r.problems = append(r.problems, rules.Problem{
		File: r.file, Line: n.Line, Col: n.Column, Key: path, Message: fmt.Sprintf(format, args...),
	})
}

// wrong reports a value that is not what it must be.
func (r *reader) wrong(f field, must string) {
	r.problem(f.value, f.path, "%s must be %s, not %s", f.what(), must, describe(f.value))
}

// said reports whether the value of f is known to be wrong.
func (r *reader) said(f field) bool {
	return slices.ContainsFunc(r.problems, func(p rules.Problem) bool { return p.Key == f.path })
}

// what names the value in a message.
func (f field) what() string {
	if f.path == "" {
		return "a scenario"
	}
	return "`" + f.path + "`"
}

func (f field) at(name string, key, value *yaml.Node) field {
	path := name
	if f.path != "" && !strings.HasPrefix(name, "[") {
		path = f.path + "." + name
	} else if f.path != "" {
		path = f.path + name
	}
	return field{path, key, resolve(value)}
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias // what an anchor names is never an alias itself
	}
	return n
}

// pairs returns the fields of a mapping in their order; ok is false when f is none.
func (r *reader) pairs(f field) (pairs []field, names []string, ok bool) {
	if f.value.Kind != yaml.MappingNode {
		r.wrong(f, "a mapping (`key: value`)")
		return nil, nil, false
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(f.value.Content); i += 2 {
		key := resolve(f.value.Content[i])
		g := f.at(key.Value, key, f.value.Content[i+1])
		switch first := lines[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			r.problem(key, f.path, "a key must be text, not %s", describe(key))
		case first > 0:
			r.problem(key, g.path, "the key `%s` appears twice; it is already on line %d", key.Value, first)
		default:
			lines[key.Value] = key.Line
			r.places[g.path] = place{key.Line, key.Column}
			pairs, names = append(pairs, g), append(names, key.Value)
		}
	}
	return pairs, names, true
}

// mapping reads a mapping, reports the keys that are not known, and returns those
// that are there; nil when f is no mapping.
func (r *reader) mapping(f field, known keys) map[string]field {
	pairs, names, ok := r.pairs(f)
	if !ok {
		return nil
	}
	there := map[string]field{}
	for i, g := range pairs {
		do := known[names[i]]
		if do == nil {
			r.problem(g.key, g.path, "unknown key `%s`%s", names[i], suggestion(names[i], slices.Sorted(maps.Keys(known))))
			continue
		}
		there[names[i]] = g
		do(g)
	}
	return there
}

// list returns the items of a list; ok is false when f is none.
func (r *reader) list(f field) (items []field, ok bool) {
	if f.value.Kind != yaml.SequenceNode {
		r.wrong(f, "a list (`- …` items or [a, b])")
		return nil, false
	}
	for i, n := range f.value.Content {
		item := f.at("["+strconv.Itoa(i)+"]", resolve(n), n)
		r.places[item.path] = place{item.key.Line, item.key.Column}
		items = append(items, item)
	}
	return items, true
}

// sorted orders by place.
func (r *reader) sorted() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b rules.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return r.problems
}

// describe says what a node is, for a message.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == "!!null" && n.Value == "":
		return "empty"
	}
	q := strconv.Quote(n.Value)
	if len(q) > 80 {
		q = q[:80] + "…"
	}
	return "`" + strings.Trim(q, `"`) + "`"
}

// suggestion names the known word that was probably meant, or all of them.
func suggestion(name string, known []string) string {
	best, least := "", 1+min(len(name), 9)/3
	for _, k := range known {
		if d := distance(strings.ToLower(name), k); d <= least && (best == "" || d < least) {
			best, least = k, d
		}
	}
	if best != "" {
		return "; did you mean `" + best + "`?"
	}
	return "; known here: " + strings.Join(known, ", ")
}

// distance is the number of insertions, deletions and replacements that turn a
// into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
