// Package demand knows what the region wants of each key, from what it sees.
//
// Every decision is observed: what was asked for, what was admitted, what was
// left. The tracker sums it per key and hands out the sums of the keys that
// changed, for the next sync. It reports arrivals, never only consumption:
// shares that follow consumption starve exactly the busy region.
//
// Invariant: every admitted cost appears in exactly one collected report, unless
// the tracker had to forget the key for lack of room; memory is bounded however
// many keys there are.
package demand
