package enforce

import (
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// Request is what a gateway asks: one decision over all its descriptors.
type Request struct {
	Domain string
	// Hits is the cost of every descriptor without its own; 0 counts as 1.
	Hits        uint32
	Descriptors []Descriptor
	// MaxDelay is the longest delay the caller would wait for, 0 for any. A request
	// that would be told a longer one is denied instead (DelayTooLong) and charged
	// nothing. See Decision.Delay for what this can promise.
	MaxDelay time.Duration
	// Settle says that the costs are spent already: they are charged whatever the
	// buckets hold, down to the limits' max_debt, and nothing is denied. See Settlement.
	Settle bool
}

// Descriptor is one list of entries to be counted.
type Descriptor struct {
	Entries []rules.Entry
	// Hits is the descriptor's own cost, nil for the request's. Zero only looks.
	Hits *uint64
	// Refund says that the cost is given back. It is admitted always, unless another
	// descriptor of the request is over: then nothing is given back.
	Refund bool
	// Override is the request's own limit for the descriptor, which takes the place of
	// the limits of the rule that matches, or of no rule; zero for none. It has a bucket
	// of its own over all regions, see rules.Set.Overridden, which says where it counts.
	Override rules.Override
}

// Reason says why a status is what it is. The values are stable: they appear in
// replies, headers, logs and metric labels.
type Reason string

// The reasons.
const (
	// WithinLease: the region's lease had the tokens.
	WithinLease Reason = "within_lease"
	// StandingShare: the region's standing share had the tokens.
	StandingShare Reason = "standing_share"
	// LeaseEmpty: what the region holds is spent; other regions may hold more.
	LeaseEmpty Reason = "lease_empty"
	// GlobalExhausted: the region holds (nearly) the whole limit and it is spent.
	GlobalExhausted Reason = "global_exhausted"
	// CoordinatorUnreachable: the region is cut off from the coordinator and
	// answers by the rule's on_disconnect.
	CoordinatorUnreachable Reason = "coordinator_unreachable"
	// StoreDegraded: the region's store is away and the answer follows the
	// rule's on_store_failure.
	StoreDegraded Reason = "store_degraded"
	// BurstExceeded: the cost is larger than the burst of the limit, so no wait helps.
	BurstExceeded Reason = "burst_exceeded"
	// DelayTooLong: what waits in a shaped limit before the request takes longer to
	// leave than the request's MaxDelay.
	DelayTooLong Reason = "delay_too_long"
	// Shadow: a shadow rule would have denied.
	Shadow Reason = "shadow"
	// NoRule: no rule matches the descriptor.
	NoRule Reason = "no_rule"
	// Unlimited: the rule says unlimited.
	Unlimited Reason = "unlimited"
	// ZeroLimit: the limit is zero and denies everything.
	ZeroLimit Reason = "zero_limit"
	// Replaced: another rule of the request replaces this one.
	Replaced Reason = "replaced"
	// NotAsked: the request was denied before this bucket was asked, and
	// nothing is known about it.
	NotAsked Reason = "not_asked"
)

// Scope says what is out of tokens when a status denies for the reason: "world",
// the whole limit; "region", what this region may spend of it; "limit", the
// limit itself, which no wait changes. Empty for the reasons of admissions.
func (r Reason) Scope() string {
	switch r {
	case GlobalExhausted:
		return "world"
	case LeaseEmpty, CoordinatorUnreachable, StoreDegraded, DelayTooLong:
		return "region"
	case BurstExceeded, ZeroLimit:
		return "limit"
	}
	return ""
}

// Source says whose tokens a status speaks of: those that were taken, or those
// that were not enough. The values are stable, as those of Reason.
type Source string

// The sources. A status of which nothing was counted has none of them.
const (
	// FromLease: the region's lease.
	FromLease Source = "lease"
	// FromShare: the region's standing share.
	FromShare Source = "standing_share"
	// FromHeldLease: the last lease, kept while the coordinator is away (on_disconnect: hold).
	FromHeldLease Source = "held_lease"
	// FromFallback: this agent's part of the standing share, while the store is away.
	FromFallback Source = "fallback"
	// FromPolicy: nobody's, as on_disconnect or on_store_failure admits or denies all.
	FromPolicy Source = "policy"
	// FromNobody: the region has no standing share of the key, and no lease yet.
	FromNobody Source = "none"
)

// Status is the answer for one descriptor.
type Status struct {
	// Over says that this descriptor is over its limit. Never set for a shadow rule.
	Over bool
	// Shadowed says that a shadow rule would have denied.
	Shadowed bool
	// Never says that the cost can never fit the limit, however long one waits.
	Never bool
	// Rule is the rule that matched, nil when none did. Of an override that no rule
	// matches it is the domain's for these.
	Rule *rules.Rule
	// Limit is the binding limit of Rule: the one that denies, else the one
	// with the least left; of an override that. Nil without a rule, when unlimited, and
	// when nothing was asked (Replaced, NotAsked, a shadow rule while the store is away).
	Limit *rules.Limit
	// Remaining is what the region has left of the binding limit, in whole tokens.
	Remaining uint32
	// WindowSeconds is how long the window is in which Limit has counted the request,
	// 0 for a limit without windows. Reset is then the time until its end.
	WindowSeconds uint32
	// Reset is the time until the region's bucket is full again. Never negative.
	Reset time.Duration
	// Retry is how long to wait before the same cost may fit, zero when not
	// over. It is never longer than the limit needs to fill from empty, or from
	// the debt that an outage of the store has left.
	Retry time.Duration
	// Delay is how long to hold the request back for the shaped limits of Rule, see
	// Decision.Delay; the longest when several are shaped, so not always that of Limit.
	Delay time.Duration
	// Uncharged is the part of a cost to settle that a limit of the rule had no room
	// for, of the limit with the least room.
	Uncharged quota.Tokens
	Reason    Reason
	// Source says whose tokens Reason speaks of.
	Source Source
}

// Decision is the answer to a request.
type Decision struct {
	// Over says that the request is to be denied.
	Over bool
	// Statuses has one element per descriptor, in the order of the request.
	Statuses []Status
	// Retry is the longest Retry of the statuses that deny, zero when not Over.
	Retry time.Duration
	// Delay is how long to hold an admitted request back before it is served, from the
	// moment of the decision, so that requests leave shaped limits at their rates: the
	// longest Delay of the statuses. Its tokens are taken already. It is zero when Over,
	// in shadow mode, for a cost of 0, and without a shaped limit; never longer than
	// burst/rate of the limit.
	//
	// It is within MaxDelay, but for this: where burst/rate of a limit is above
	// MaxDelay, the store is asked twice, first how long the delay would be, then to
	// charge, and what others are admitted in between comes before this request.
	Delay time.Duration
	// UnknownDomain says that no rule document has the domain.
	UnknownDomain bool
	// Shadowed says that the service is in shadow mode and hid a denial: the
	// statuses say over, the request passes.
	Shadowed bool
	// Degraded says that the store did not answer and the failure ladder did.
	Degraded bool
	// FromAllowance says that the store was not asked: every bucket was paid from tokens
	// that this agent drew ahead.
	FromAllowance bool
	// Waited says that the request waited for the first lease of a key.
	Waited bool
}
