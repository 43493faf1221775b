// Package workload describes demand: how many requests a second each region
// sees over time, and the seeded moments at which they arrive.
//
// A Curve is piecewise linear, so its integral and the inverse of its integral
// are exact, and arrivals are a Poisson process that follows it without
// rejection. The load is open: arrivals do not depend on answers, as the users
// of a gateway do not wait for one another.
//
// The same seed gives the same arrivals, whatever the machine does.
package workload
