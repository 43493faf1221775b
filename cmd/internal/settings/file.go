package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
)

// applyFile reads one YAML mapping. It walks the nodes itself, since decoding
// into the struct would lose places, stop at the first mistake and accept
// repeated keys.
func (s *Settings) applyFile(path string) Problems {
	b, err := os.ReadFile(path)
	if err != nil {
		return Problems{{"--config", err.Error()}}
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF): // empty, or comments only
		return nil
	case err != nil:
		return Problems{{path, err.Error()}}
	}
	at := func(n *yaml.Node, format string, args ...any) Problem {
		return Problem{fmt.Sprintf("%s:%d:%d", path, n.Line, n.Column), fmt.Sprintf(format, args...)}
	}
	var second yaml.Node
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return Problems{{path, "more than one YAML document in the file, keep one"}}
	}
	root := resolve(doc.Content[0])
	if root.Tag == "!!null" {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		return Problems{at(root, "want settings as `key: value` lines")}
	}
	byKey := map[string]*field{}
	var known []string
	for _, f := range s.fields {
		for _, k := range f.keys() {
			byKey[k] = f
			known = append(known, k)
		}
	}
	var all Problems
	first := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		k, v := root.Content[i], resolve(root.Content[i+1])
		if line, twice := first[k.Value]; twice {
			all = append(all, at(k, "key %q is already in line %d, keep one", k.Value, line))
			continue
		}
		first[k.Value] = k.Line
		f := byKey[k.Value]
		if f == nil {
			hint := ""
			if near := nearest(k.Value, known); near != "" {
				hint = fmt.Sprintf("; did you mean %q?", near)
			}
			all = append(all, at(k, "unknown key %q%s", k.Value, hint))
			continue
		}
		if f.secret != open && first[f.key] > 0 && first[f.key+"_file"] > 0 {
			all = append(all, at(k, "%s and %s_file are both set, keep one", f.key, f.key))
			continue
		}
		origin := fmt.Sprintf("%s:%d", path, k.Line)
		if k.Value != f.key { // key_file
			if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
				all = append(all, at(v, "key %s: want the path of a file", k.Value))
				continue
			}
			all = append(all, f.setFromFile(v.Value, origin, fmt.Sprintf("%s:%d:%d: key %s", path, v.Line, v.Column, k.Value))...)
			continue
		}
		texts, wrong := f.textsOf(v)
		if wrong == "" {
			if err := f.set(texts...); err != nil {
				wrong = f.guard(err)
			}
		}
		if wrong != "" {
			all = append(all, at(v, "key %s: %s", k.Value, wrong))
			continue
		}
		f.origin = origin
	}
	return all
}

// textsOf turns the YAML value v into the texts that set takes, or says what is
// wrong with it.
func (f *field) textsOf(v *yaml.Node) (texts []string, wrong string) {
	if v.Tag == "!!null" {
		return nil, "has no value; remove the key to use the default"
	}
	want := "want a single value"
	switch f.value.Interface().(type) {
	case []string:
		want = "want a list like [a, b]"
		if v.Kind == yaml.SequenceNode {
			texts = []string{""} // an empty list is a value
			for _, e := range v.Content {
				e = resolve(e)
				if e.Kind != yaml.ScalarNode || e.Tag == "!!null" {
					return nil, want
				}
				texts = append(texts, e.Value)
			}
			return texts, ""
		}
	case map[string]int64:
		want = "want names with numbers like {eu: 1, us: 2}"
		if v.Kind == yaml.MappingNode {
			texts = []string{""}
			for i := 0; i+1 < len(v.Content); i += 2 {
				n := resolve(v.Content[i+1])
				if v.Content[i].Kind != yaml.ScalarNode || n.Kind != yaml.ScalarNode {
					return nil, want
				}
				texts = append(texts, v.Content[i].Value+"="+n.Value)
			}
			return texts, ""
		}
	}
	if v.Kind != yaml.ScalarNode {
		return nil, want
	}
	return []string{v.Value}, ""
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// nearest returns the name that text is most likely a typing error of, empty if
// none is near.
func nearest(text string, names []string) string {
	best, distance := "", max(2, len(text)/4)+1
	for _, n := range slices.Sorted(slices.Values(names)) {
		if d := edits(text, n); d < distance {
			best, distance = n, d
		}
	}
	return best
}

// edits counts the insertions, deletions, replacements and swaps of neighbours
// between a and b.
func edits(a, b string) int {
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old, row = old, row, older
	}
	return old[len(b)]
}
