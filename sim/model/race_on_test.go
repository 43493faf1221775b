//go:build race

package model

// raced: an exploration is one goroutine, so the race detector only costs time.
const raced = true
