// Package rules is the rule document: it parses and validates the YAML, finds
// the rule of a request and names the bucket that counts it.
//
// The grammar is a superset of envoyproxy/ratelimit's, so that its documents
// load unchanged; what is ours lives under `quota:`, `unit_multiplier` and
// `rate_limits:`. A document is accepted whole or not at all, and a refusal
// names every problem of every document at once, each with its place.
//
// Two things must hold. The key of a bucket is injective: no separator in a
// request's value can make it count in the bucket of another. And the
// coordinator, which sees keys only, finds for each exactly the limit that the
// region found for the request: Set.LimitOf undoes Set.Match and Rule.Key, or
// Set.Overridden.
//
// A leaky bucket of a rate and a burst, as a meter, admits exactly what a token bucket
// of the same rate and burst admits: what the one contains is what the other lacks,
//
//	content = burst - level
//
// and "the cost still fits, content + cost <= burst" is "there are enough tokens, level
// >= cost". So both are the same bucket everywhere, in the ledger, in records and in
// scripts, and an edit of the algorithm changes nothing that is counted. A shaped leaky
// bucket admits the same, too; what it adds is the delay of package enforce.
//
// A limit that counts in windows has a key for each of them (window.go). Which one a
// request belongs to is told by the region's clock, and time zones that the region
// knows; the coordinator asks neither.
//
// A request may bring a limit of its own for a descriptor (override.go), as Envoy's can.
// It is in the key, too: the coordinator and every agent know what it says from the key
// alone, and need nobody's word for it. Such a key has a bucket and a bound of its own
// over all regions, and no standing share, since nobody could know of it before; it is
// served from leases only.
//
// Everything is a value: a Set never changes after Parse and may be shared.
package rules
