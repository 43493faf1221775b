package mutants

import (
	"fmt"
	"strings"
)

// Mutant is one known bug.
type Mutant struct {
	// Name identifies it in tables and on the command line.
	Name string
	// Breaks says in one sentence what goes wrong and why that is tempting.
	Breaks string
	Edits  []Edit
	// Test hunts the mutant where the simulator does not run the edited code, or
	// meets the case in one of many hundred worlds only. The zero Test is a sweep of
	// random worlds.
	Test Test
}

// Edit replaces a text that occurs exactly once in a file.
type Edit struct {
	File     string // path in the module, with slashes
	Old, New string
}

// Test names a Go test that must fail with the mutant.
type Test struct {
	Package string // path in the module
	Name    string
}

// Finding is what became of the hunt for one mutant. The field names are an
// interface that scripts depend on.
type Finding struct {
	Mutant string `json:"mutant"`
	Found  bool   `json:"found"`
	// Checker is the promise that broke, see sim.Run, or the test that failed.
	Checker string `json:"checker"`
	// Seeds is the number of random worlds it took; 0 for a test.
	Seeds int `json:"seeds"`
}

// apply returns the text of the edit's file with the bug in it.
func (e Edit) apply(text string) (string, error) {
	switch n := strings.Count(text, e.Old); {
	case e.Old == e.New:
		return "", fmt.Errorf("%s: the edit changes nothing", e.File)
	case n != 1:
		return "", fmt.Errorf("%s: the text to replace occurs %d times instead of once: the code has moved on, bring the mutant up to date", e.File, n)
	}
	return strings.Replace(text, e.Old, e.New, 1), nil
}

// Find returns the mutant with a name.
func Find(name string) (Mutant, bool) {
	for _, m := range All() {
		if m.Name == name {
			return m, true
		}
	}
	return Mutant{}, false
}

// All returns every mutant, in the order in which the design names the rules that
// they break.
func All() []Mutant {
	var all []Mutant
	for _, some := range [][]Mutant{capacityMutants, sessionMutants, regionMutants, shareMutants, loanMutants, allowanceMutants, debtMutants, windowMutants, slidingMutants, adapterMutants} {
		all = append(all, some...)
	}
	return all
}
