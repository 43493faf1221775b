package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/sim/mutants"
)

func TestMutantsAreListed(t *testing.T) {
	code, stdout, stderr := run(t.Context(), "mutants", "--list", "-o", "json")
	var have []struct{ Mutant, Breaks string }
	if err := json.Unmarshal([]byte(stdout), &have); code != cli.OK || err != nil {
		t.Fatalf("have code %d, %v, %s", code, err, stderr)
	}
	if want := len(mutants.All()); len(have) != want || have[0].Mutant == "" || have[0].Breaks == "" {
		t.Errorf("have %d mutants, the first %+v, want %d", len(have), have[0], want)
	}
	if _, stdout, _ = run(t.Context(), "mutants", "--list", "blind-retry"); strings.Count(stdout, "\n") != 2 {
		t.Errorf("one by name: have %q", stdout)
	}
}

func TestMutantsBadUsage(t *testing.T) {
	for _, tt := range []struct {
		reason string
		args   []string
		want   string
	}{
		{"no such mutant", []string{"mutants", "perfect"}, "--list"},
		{"no seeds", []string{"mutants", "--seeds", "0"}, "at least one"},
		{"no such format", []string{"mutants", "-o", "xml"}, "xml"},
	} {
		if code, _, stderr := run(t.Context(), tt.args...); code != cli.Usage || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: have code %d, %q, want %d and %q", tt.reason, code, stderr, cli.Usage, tt.want)
		}
	}
	t.Chdir(t.TempDir())
	if code, _, stderr := run(t.Context(), "mutants"); code != cli.Usage || !strings.Contains(stderr, "clone the repository") {
		t.Errorf("outside of the source tree: have code %d, %q", code, stderr)
	}
}

// One mutant through the command line, and one that a single seed cannot find.
func TestMutantsCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a simulator per mutant")
	}
	code, stdout, stderr := run(t.Context(), "mutants", "clock-jumps-with-the-leader", "--seeds", "100", "-o", "json")
	var have []map[string]any
	if err := json.Unmarshal([]byte(stdout), &have); code != cli.OK || err != nil || len(have) != 1 {
		t.Fatalf("have code %d, %v, %q, %s", code, err, stdout, stderr)
	}
	if f := have[0]; f["mutant"] != "clock-jumps-with-the-leader" || f["found"] != true || f["checker"] != "I6" || f["seeds"].(float64) < 1 {
		t.Errorf("have %v", f)
	}
	if !strings.Contains(stderr, "1/1 clock-jumps-with-the-leader: found by I6 at seed") {
		t.Errorf("progress: have %q", stderr)
	}
	code, stdout, stderr = run(t.Context(), "mutants", "late-apply", "--seeds", "1")
	if code != cli.No || !strings.Contains(stdout, "NOT FOUND") || !strings.Contains(stderr, "a fault or a checker is missing") {
		t.Errorf("not found: have code %d, %q, %q", code, stdout, stderr)
	}
}
