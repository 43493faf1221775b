//go:build !race

package protocol

const defaultSeeds = 2000
