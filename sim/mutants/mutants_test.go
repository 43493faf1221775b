package mutants

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// A mutant that no longer matches the code would be hunted in vain, or not at all.
func TestMutantsFitTheCode(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range All() {
		if names[m.Name] {
			t.Errorf("two mutants are called %s", m.Name)
		}
		names[m.Name] = true
		if m.Breaks == "" || !strings.HasSuffix(m.Breaks, ".") || len(m.Edits) == 0 {
			t.Errorf("%s: needs edits and a sentence on what it breaks", m.Name)
		}
		texts, err := mutate(root, m)
		if err != nil {
			t.Error(err)
			continue
		}
		for file, text := range texts {
			if !strings.HasSuffix(file, ".go") {
				continue
			}
			if _, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution); err != nil {
				t.Errorf("%s: does not parse any more: %v", m.Name, err)
			}
		}
	}
}
