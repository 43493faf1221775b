// Package mutants puts known bugs back into the code, one at a time, and says
// which checker finds each of them and how many runs that takes. A simulator that
// finds nothing proves little until it has found what is known to be wrong.
//
//	Mutant ──► edited copies + overlay.json ──► go build -overlay ──► hunter ──► Finding
//	                                        └─► go test -c -overlay ─► test ──┘
//
// A mutant is data: texts that are replaced in files of this module. The sources
// stay as they are and have no hooks: `go build -overlay` compiles the edited
// copies in their place. Mutants of what the simulator runs are hunted by a sweep
// of random worlds (package hunter); mutants of adapters, which it replaces, by a
// test of that adapter. Each finding is checked against the code without the edit:
// a checker that fails there too has found something else.
//
// The replaced text must occur exactly once in its file, so a mutant cannot
// outlive the code it is about; a test says so at once.
package mutants
