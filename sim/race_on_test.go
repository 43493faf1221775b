//go:build race

package sim

// defaultSeeds: a world is one goroutine, so the race detector only costs time.
const defaultSeeds = 50
