package mutants

import (
	"os"
	"slices"
	"testing"
)

// everything makes the test hunt all mutants, which takes many minutes.
const everything = "QUORATE_MUTANTS"

// quick are mutants that a few runs find, each with the checkers that may be the
// first to see it.
var quick = map[string][]string{
	"missing-is-full":             {"Bound", "Tokens"},
	"no-local-expiry":             {"Lease"},
	"clock-jumps-with-the-leader": {"I6"},
}

const (
	quickSeeds = 300
	allSeeds   = 5000
)

// The simulator finds what is known to be wrong, and over the same seeds nothing
// in the code as it is.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a simulator per mutant")
	}
	all, seeds := os.Getenv(everything) != "", quickSeeds
	if all {
		seeds = allSeeds
	}
	h, err := Open(t.Context(), seeds)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	most := 1
	for _, m := range All() {
		want := quick[m.Name]
		if !all && want == nil {
			continue
		}
		have, err := h.Mutant(t.Context(), m)
		switch {
		case err != nil:
			t.Fatal(err)
		case !have.Found:
			t.Errorf("%s was not found in %d seeds: %s", m.Name, seeds, m.Breaks)
		case want != nil && !slices.Contains(want, have.Checker):
			t.Errorf("%s: found by %s, want one of %q", m.Name, have.Checker, want)
		}
		t.Logf("%+v", have)
		most = max(most, have.Seeds)
	}
	sound, err := h.runHunter(t.Context(), h.sound, 1, most)
	if err != nil || sound != (Trace{}) {
		t.Errorf("without a bug, over %d seeds: have %+v, %v, want nothing", most, sound, err)
	}
}

// A hunt that finds nothing says so, and does not take a failure to build for a
// finding.
func TestHuntsThatFindNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a simulator per mutant")
	}
	h, err := Open(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close() //nolint:errcheck // see TestMutantsAreFound
	edit := Edit{File: "sim/mutants/hunter/main.go", Old: "// Command hunter"}

	harmless := Mutant{Name: "harmless", Edits: []Edit{edit}}
	harmless.Edits[0].New = "// The command hunter"
	if have, err := h.Mutant(t.Context(), harmless); err != nil || have != (Finding{Mutant: "harmless"}) {
		t.Errorf("a harmless edit: have %+v, %v, want not found", have, err)
	}
	harmless.Test = Test{"sim/mutants/hunter", "TestNobodyWrote"}
	if have, err := h.Mutant(t.Context(), harmless); err == nil {
		t.Errorf("a test that does not exist: have %+v, want an error", have)
	}
	edit.New = "This does not compile"
	if have, err := h.Mutant(t.Context(), Mutant{Name: "broken", Edits: []Edit{edit}}); err == nil {
		t.Errorf("an edit that does not compile: have %+v, want an error", have)
	}
}

// Outside of the source tree there is nothing to make mutants of.
func TestNoTree(t *testing.T) {
	t.Chdir(t.TempDir())
	if root, err := moduleRoot(t.Context()); err == nil {
		t.Errorf("have a tree at %s, want %v", root, ErrNoTree)
	}
}
