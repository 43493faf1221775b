//go:build !race

package fasttime

const raceEnabled = false
