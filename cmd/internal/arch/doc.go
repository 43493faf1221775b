// Package arch holds the import rules of the repository; its test enforces them.
//
// Pure packages take values and return values: the simulator steps them in
// virtual time, and their behaviour can be replayed from a seed. Adapters know
// one technology each and not one another, so that each can be replaced. What
// the binaries link is part of the promise to operators.
package arch
