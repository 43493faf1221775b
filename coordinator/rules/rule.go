package rules

import (
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// Entry is one entry of a request's descriptor.
type Entry struct{ Key, Value string }

// Rule is a descriptor of the document that has a limit, or that is expressly
// unlimited. It belongs to a Set and must not be changed.
type Rule struct {
	// ID names the rule for people and in metric labels: "domain/key=value|key2".
	// It is unique in a Set and depends on nothing but the rule's own path.
	ID     string
	Domain string
	// Name is what `replaces` of other rules refers to, empty without one. A rule
	// with several limits has none: their names belong to the limits.
	Name string
	// Replaces names the rules that this one takes out of the same request.
	Replaces       []string
	Unlimited      bool // matched requests are admitted and not counted
	Shadow         bool // counted, never denied
	QuotaMode      bool
	DetailedMetric bool // metrics tell the values of all entries apart
	ValueToMetric  bool // metrics tell the values of the last entry apart
	// DenialLogValues lets agents log the values of denied requests. Without it they
	// log the keys only: values may be secrets.
	DenialLogValues bool
	HashValue       bool // values are counted under their digests
	ShareThreshold  bool // all values of the pattern share one bucket
	NoOverride      bool // limits that requests bring count for nothing
	// Metadata holds JSON-able values only: nil, bool, int64, float64, string,
	// []any and map[string]any.
	Metadata map[string]any
	// Limits all have to admit a request; empty if Unlimited.
	Limits []Limit
	// File and Line say where the rule was written, for messages.
	File string
	Line int

	node     *node
	counting []counting // by depth; nil if every entry counts as it is
	metric   []bool     // by depth, whether metrics tell the values apart; nil if nowhere
}

// counting is how an entry goes into the key: as it is, or not.
type counting struct {
	pattern string // of share_threshold or hash_value, "" without one
	hash    bool
}

// Limit is one limit of a rule as it was written, with defaults filled in, and
// as the token bucket that it means.
type Limit struct {
	quota.Limit
	// Name tells several limits of one rule apart; empty for a single one.
	Name string
	// RequestsPerUnit, Unit and Multiplier are the rate in the words of the
	// document: so many requests every Multiplier units. Zero requests deny
	// everything.
	RequestsPerUnit uint32
	Unit            Unit
	Multiplier      uint32 // at least 1
	// MaxDebt is how far below zero a request may take the bucket of a region.
	MaxDebt quota.Tokens
	// Settle says that costs were spent before they are told: they are charged whatever
	// the bucket holds, and only looks are denied. It comes with a MaxDebt.
	Settle    bool
	Algorithm Algorithm
	// Align and TimeZone say where the windows of FixedWindow begin.
	Align          Align
	TimeZone       string
	OnDisconnect   OnDisconnect
	OnStoreFailure OnStoreFailure
	// ColdStartWait is how long the first request of a key that has neither a
	// standing share nor a lease may wait for its lease; 0 denies it at once.
	ColdStartWait time.Duration
	// Shape gives admitted requests a delay, so that they leave at the rate. Only a
	// LeakyBucket can have it.
	Shape bool
	// Override says that a request has brought the limit, see Set.Overridden.
	Override bool

	windows *windows // nil without windows
}
