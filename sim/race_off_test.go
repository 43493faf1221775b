//go:build !race

package sim

const defaultSeeds = 2000
