// Package vclock is virtual time: a queue of events in true time, and the clocks
// of machines, which need not tell the truth.
//
// One goroutine runs everything. Events at the same time run in the order in
// which they were queued, so a run depends on nothing but its seed.
package vclock
