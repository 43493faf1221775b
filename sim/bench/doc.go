// Package bench measures how much of a limit a system lets through, and by how
// much it overshoots, for workloads that are hard on global rate limits.
//
// Every system is asked the same requests at the same times. quorate runs as in
// package sim: the production packages over a simulated network. What it is
// compared with is what people run today:
//
//	ideal        one central bucket that answers at once from everywhere: what
//	             nobody can beat without breaking the Bound
//	static       each region has 1/N of the limit
//	independent  each region has the whole limit
//	gossip       each region counts everything it has heard of, and tells the others
//	             what it admitted every 100 ms
//
// Utilization is what was admitted, of what the ideal admitted; what a system
// admits beyond the Bound counts too, so it may be above 1. Overshoot is the worst
// over every window, as package check measures it.
package bench
