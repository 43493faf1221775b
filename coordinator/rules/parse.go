package rules

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/quorate/quorate/coordinator/quota"
)

const (
	// MaxBytes bounds all documents of a set together: the set travels whole in
	// the log and to every agent.
	MaxBytes = 4 << 20
	// MaxDepth bounds the nesting of descriptors, and of metadata.
	MaxDepth = 32
	// MaxLimits bounds the limits of one rule: a request is charged for all.
	MaxLimits = 16
	// MaxProblems bounds how many problems Parse collects.
	MaxProblems = 10_000
	// maxAliased bounds what aliases expand to, beyond one value per byte.
	maxAliased = 100_000
)

// Parse reads rule documents. A file may hold several, separated by `---`, each
// with a domain of its own. The error is of type Problems and names everything
// that is wrong in all of them, up to MaxProblems.
func Parse(sources []quota.Source) (*Set, error) { return parse(sources, false) }

// Accepted reads rule documents that Parse has accepted somewhere. It is the same on
// every machine, also on one that knows fewer time zones, and the windows of a time
// zone cannot be told by the set that it returns.
func Accepted(sources []quota.Source) (*Set, error) { return parse(sources, true) }

func parse(sources []quota.Source, accepted bool) (*Set, error) {
	b := &builder{set: &Set{domains: map[string]*node{}}, accepted: accepted}
	if b.admit(sources) {
		for _, src := range sources {
			b.source(src)
		}
	}
	if len(b.problems) > 0 {
		return nil, b.problems.sorted()
	}
	for name := range b.set.domains {
		b.set.names = append(b.set.names, name)
	}
	slices.Sort(b.set.names)
	return b.set, nil
}

// builder collects the set and what is wrong with it.
type builder struct {
	set      *Set
	problems Problems
	accepted bool // somewhere before
}

// admit checks what has to be right before it is worth parsing anything.
func (b *builder) admit(sources []quota.Source) bool {
	seen := map[string]bool{}
	total := 0
	for _, src := range sources {
		if seen[src.Name] {
			b.problems = append(b.problems, Problem{File: src.Name, Message: fmt.Sprintf("two documents are called %s; file names must differ", quoted(src.Name))})
		}
		seen[src.Name] = true
		if total += len(src.Text); total > MaxBytes {
			b.problems = append(b.problems, Problem{File: src.Name, Message: fmt.Sprintf("with this document the rules are larger than %d MiB; merge rules with patterns or keys without value", MaxBytes>>20)})
			return false
		}
	}
	return len(b.problems) == 0
}

// source reads all YAML documents of one file.
func (b *builder) source(src quota.Source) {
	w := &walk{builder: b, file: src.Name, budget: len(src.Text) + maxAliased}
	if valid := validPrefix(src.Text); len(valid) < len(src.Text) {
		line, col := position(valid)
		w.report(line, col, nil, "the text is not valid UTF-8 here; save the file as UTF-8")
		return
	}
	dec := yaml.NewDecoder(strings.NewReader(src.Text))
	found := false
	for {
		doc, err := decode(dec)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			w.syntax(err, src.Text)
			return
		}
		// A comment after the last `---` makes an empty document.
		if len(doc.Content) == 1 && doc.Content[0].ShortTag() != "!!null" {
			found = true
			w.document(doc.Content[0])
		}
	}
	if !found {
		w.report(1, 1, nil, "the document is empty; it needs at least `domain`")
	}
}

// decode reads the next document. The parser is not ours and the text is from
// outside, so a panic in it is one more way of saying that it cannot be read.
func decode(dec *yaml.Decoder) (doc *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the YAML parser gave up: %v", p)
		}
	}()
	doc = new(yaml.Node)
	return doc, dec.Decode(doc)
}

// syntax reports an error of the YAML parser, which is a text with a line in it.
func (w *walk) syntax(err error, text string) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line, col := 0, 0
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		if number, text, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				line, msg = n, text
			}
		}
	}
	if strings.Contains(msg, "cannot start any token") {
		msg += " (YAML is indented with spaces, not tabs)"
	}
	// The parser does not say where the alias is.
	if name, ok := strings.CutPrefix(msg, "unknown anchor '"); ok {
		if name, _, ok := strings.Cut(name, "'"); ok {
			line, col = find(text, "*"+name)
		}
	}
	w.report(line, col, nil, "not valid YAML: "+msg)
}

// find returns the place where part first occurs in text, zeros if it does not.
func find(text, part string) (line, col int) {
	i := strings.Index(text, part)
	if i < 0 {
		return 0, 0
	}
	return position(text[:i])
}

// position returns the place after text, in characters.
func position(text string) (line, col int) {
	start := strings.LastIndexByte(text, '\n') + 1
	return strings.Count(text, "\n") + 1, utf8.RuneCountInString(text[start:]) + 1
}

// validPrefix returns the part of text before the first byte that is not UTF-8.
func validPrefix(text string) string {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return text[:i]
			}
		}
	}
	return text
}

var documentKeys = []string{"domain", "allow_override", "descriptors"}

// document reads one domain.
func (w *walk) document(n *yaml.Node) {
	var descriptors field
	var domain string
	at := n
	named := false
	w.noOverride = false
	for _, f := range w.mapping(n, nil, levelDocument, documentKeys) {
		switch f.name {
		case "domain":
			named = true
			at = f.value
			var ok bool
			if domain, ok = w.text(f); ok && domain == "" {
				w.problem(f.value, f.trail, "`domain` is empty; name the domain that your gateway sends")
			}
		case "allow_override":
			w.noOverride = !w.boolean(f)
		case "descriptors":
			descriptors = f
		}
	}
	if !named && n.Kind == yaml.MappingNode {
		w.problem(n, nil, "`domain` is missing; name the domain that your gateway sends")
	}
	root := &node{key: domain, file: w.file, line: at.Line}
	if first := w.set.domains[domain]; first != nil {
		w.problem(at, &trail{name: "domain"}, "the domain %s is already defined %s; put its descriptors into one document", quoted(domain), w.place(first))
	} else if domain != "" {
		w.set.domains[domain] = root
	}
	if descriptors.value != nil {
		w.descriptors(descriptors, domain, root, 1)
	}
	root.hides = root.hiddenKeys()
	root.unmatched = &Rule{ID: root.id(domain) + "#override", Domain: domain, NoOverride: w.noOverride, File: w.file, Line: at.Line, node: root}
}

// place names where something was defined, for a message about this file.
func (w *walk) place(n *node) string {
	if n.file == w.file {
		return "on line " + strconv.Itoa(n.line)
	}
	return "at " + cmp.Or(n.file, "another document") + ":" + strconv.Itoa(n.line)
}
