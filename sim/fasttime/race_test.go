//go:build race

package fasttime

// raceEnabled shortens the long tests: the race detector makes them ten times slower.
const raceEnabled = true
