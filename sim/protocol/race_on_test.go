//go:build race

package protocol

// defaultSeeds: a world is one goroutine, so the race detector only costs time.
const defaultSeeds = 50
