//go:build !race

package faults

// measured says that how much is admitted is judged beside how little may be:
// how well demand is served, and how fast a region recovers.
const measured = true

// perSecond is the limit that most tests use, in requests a second.
const perSecond = 120
