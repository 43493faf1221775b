package rules

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

func TestExplain(t *testing.T) {
	golden(t, "testdata/explain/*.txtar", func(t *testing.T, sources []quota.Source) string {
		var documents []quota.Source
		var requests string
		for _, s := range sources {
			if s.Name == "requests" {
				requests = s.Text
			} else {
				documents = append(documents, s)
			}
		}
		set, err := Parse(documents)
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		var out strings.Builder
		for line := range strings.Lines(requests) {
			line = strings.TrimSpace(line)
			domain, rest, _ := strings.Cut(line, " ")
			rule, lines := set.Explain(domain, entriesOf(rest))
			if rule != set.Match(domain, entriesOf(rest)) {
				t.Errorf("%s: explain and match disagree", line)
			}
			out.WriteString("> " + line + "\n")
			for _, l := range lines {
				out.WriteString("  " + l + "\n")
			}
		}
		return out.String()
	})
}
