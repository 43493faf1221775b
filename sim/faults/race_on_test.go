//go:build race

package faults

// measured is off: nodes that were built with the race detector take several
// times as long for everything, so that on two cores it is the machine that
// decides how well demand is served. The Bound, and that every region comes back,
// are judged all the same.
const measured = false

// perSecond is smaller under the race detector, for the same reason.
const perSecond = 60
