package rules

import (
	"strings"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// Unit is the time unit of a limit. The numbers are those of Envoy's
// RateLimitResponse.RateLimit.Unit.
type Unit uint8

// The units a document may name.
const (
	UnitUnknown Unit = iota
	UnitSecond
	UnitMinute
	UnitHour
	UnitDay
	UnitMonth // 30 days
	UnitYear  // 365 days
	UnitWeek  // 7 days
)

const day = 24 * time.Hour

var (
	unitNames = []string{"unknown", "second", "minute", "hour", "day", "month", "year", "week"}
	// A month has 30 days and a year 365: a bucket has no calendar, and these
	// are the lengths envoyproxy/ratelimit uses.
	unitLengths = []time.Duration{0, time.Second, time.Minute, time.Hour, day, 30 * day, 365 * day, 7 * day}
	// unitsByLength lists the legal units for messages.
	unitsByLength = []string{"second", "minute", "hour", "day", "week", "month", "year"}
)

// String returns the unit as the document writes it.
func (u Unit) String() string { return nameOf(unitNames, int(u)) }

// Period returns the length of the unit, 0 for an unknown one.
func (u Unit) Period() quota.Micros {
	if int(u) >= len(unitLengths) {
		return 0
	}
	return quota.MicrosOf(unitLengths[u])
}

// Algorithm decides how a region spends its capacity.
type Algorithm uint8

// The algorithms.
const (
	TokenBucket Algorithm = iota
	// LeakyBucket as a meter admits what a token bucket of the same rate and burst
	// admits, and differs from it only with Limit.Shape. See the package comment.
	LeakyBucket
	FixedWindow
	SlidingWindowLog
	SlidingWindowCounter
)

var algorithmNames = []string{"token_bucket", "leaky_bucket", "fixed_window", "sliding_window_log", "sliding_window_counter"}

// String returns the algorithm as the document writes it.
func (a Algorithm) String() string { return nameOf(algorithmNames, int(a)) }

// OnDisconnect is what a region does when it has lost the coordinator for
// longer than its leases last.
type OnDisconnect uint8

const (
	// OnDisconnectStanding falls back to the standing share, inside the bound.
	OnDisconnectStanding OnDisconnect = iota
	// OnDisconnectHold keeps the last lease: the bound becomes the worst case.
	OnDisconnectHold
	// OnDisconnectDeny denies everything.
	OnDisconnectDeny
	// OnDisconnectAllow admits everything and counts nothing.
	OnDisconnectAllow
)

var onDisconnectNames = []string{"standing", "hold", "deny", "allow"}

// String returns the policy as the document writes it.
func (o OnDisconnect) String() string { return nameOf(onDisconnectNames, int(o)) }

// OnStoreFailure is what an agent does when its region's Redis is gone.
type OnStoreFailure uint8

const (
	// OnStoreFailureLocal serves this process's part of the standing share.
	OnStoreFailureLocal OnStoreFailure = iota
	// OnStoreFailureDeny denies everything.
	OnStoreFailureDeny
	// OnStoreFailureAllow admits everything.
	OnStoreFailureAllow
)

var onStoreFailureNames = []string{"local", "deny", "allow"}

// String returns the policy as the document writes it.
func (o OnStoreFailure) String() string { return nameOf(onStoreFailureNames, int(o)) }

func nameOf(names []string, i int) string {
	if i >= len(names) {
		return "unknown"
	}
	return names[i]
}

// indexOf returns the index of text in names, -1 if there is none. Names are
// compared without case where fold is set.
func indexOf(names []string, text string, fold bool) int {
	for i, n := range names {
		if n == text || fold && strings.EqualFold(n, text) {
			return i
		}
	}
	return -1
}
