package rules

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
)

// Override is a limit that a request brings for one of its descriptors, as Envoy's
// RateLimitDescriptor.limit is: so many requests per unit. It is a part of the key's
// identity, so that whoever sees the key knows the limit, and requests with and
// without an override, or with different ones, never share a bucket. The zero Override
// is none; NewOverride and ParseOverride make all others.
type Override struct {
	requests uint32       // in per; 0 denies everything
	per      quota.Micros // the length of a unit
}

// ErrOverride says that a request's limit is none that can be counted.
var ErrOverride = errors.New("not a limit")

// NewOverride returns the override of a unit. The error is ErrOverride for UnitUnknown
// and for numbers that are no unit.
func NewOverride(requests uint32, unit Unit) (Override, error) {
	per := unit.Period()
	if per == 0 {
		return Override{}, fmt.Errorf("%w: unit %d (%s): give one of %s", ErrOverride, uint8(unit), unit, strings.Join(unitsByLength, ", "))
	}
	return Override{requests, per}, nil
}

// ParseOverride reads an override as people write it, "10/minute": requests from 0 to
// 4294967295, and a unit of the document. The error is ErrOverride.
func ParseOverride(text string) (Override, error) {
	number, name, _ := strings.Cut(text, "/")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || strconv.FormatUint(n, 10) != number {
		return Override{}, fmt.Errorf("%w: %s: give REQUESTS/UNIT like 10/minute, with a whole number from 0 to 4294967295", ErrOverride, quoted(text))
	}
	if !contains(unitsByLength, name) {
		return Override{}, fmt.Errorf("%w: %s has the unit %s: give one of %s%s", ErrOverride, quoted(text), quoted(name), strings.Join(unitsByLength, ", "), didYouMean(name, unitsByLength))
	}
	return NewOverride(uint32(n), Unit(indexOf(unitNames, name, false)))
}

// IsZero reports whether o is no override.
func (o Override) IsZero() bool { return o.per == 0 }

// String returns what ParseOverride reads, the empty text for none.
func (o Override) String() string {
	if o.IsZero() {
		return ""
	}
	return strconv.FormatUint(uint64(o.requests), 10) + "/" + o.unit().String()
}

// unit returns the unit that is as long, UnitUnknown for none.
func (o Override) unit() Unit {
	for u, length := range unitLengths {
		if length > 0 && quota.MicrosOf(length) == o.per {
			return Unit(u)
		}
	}
	return UnitUnknown
}

// OverrideOf returns the override that a key names, none for any other key, or for no
// key at all.
func OverrideOf(k quota.Key) Override {
	_, end, ok := strings.Cut(string(k), "##")
	if !ok {
		return Override{}
	}
	o, _ := parseOverride(end)
	return o
}

const overrideName = "override"

// appendOverride writes an override as keys have it.
func appendOverride(dst []byte, o Override) []byte {
	dst = append(append(dst, overrideName...), '+')
	dst = strconv.AppendInt(dst, int64(o.per/quota.Second), 10)
	return strconv.AppendUint(append(dst, '+'), uint64(o.requests), 10)
}

// parseOverride undoes appendOverride, and accepts no other spelling and no length that
// is not one of a unit.
func parseOverride(text string) (o Override, ok bool) {
	name, rest, _ := strings.Cut(text, "+")
	length, requests, ok := strings.Cut(rest, "+")
	seconds, err1 := strconv.ParseInt(length, 10, 32)
	n, err2 := strconv.ParseUint(requests, 10, 32)
	if !ok || name != overrideName || err1 != nil || err2 != nil {
		return Override{}, false
	}
	o = Override{uint32(n), quota.Micros(seconds) * quota.Second}
	if o.unit() == UnitUnknown || string(appendOverride(nil, o)) != text {
		return Override{}, false
	}
	return o, true
}

// Overridden is Match for a descriptor that brings a limit: it returns that limit, its
// key, and the rule whose policies it has. Where no rule matches that is a rule of the
// domain, whose ID is "domain#override". They are nil where overrides are switched off
// (allow_override) or no document has the domain: then the override counts for nothing.
//
// An override takes the place of all limits of the rule, also where that is unlimited.
// It is a bucket of its requests, whatever the rule's own limits are, and has no
// standing share: no region can have kept a part of a limit that nobody knew of.
func (s *Set) Overridden(domain string, entries []Entry, o Override) (*Rule, *Limit, quota.Key) {
	if s == nil || len(entries) == 0 || o.IsZero() || s.domains[domain] == nil {
		return nil, nil, ""
	}
	root := s.domains[domain]
	rule, taken := root.unmatched, make([]*node, 0, len(entries))
	n := root
	for i := 0; n != nil && i < len(entries); i++ {
		if n = n.child(entries[i]); n != nil {
			taken = append(taken, n)
		}
	}
	if n != nil && n.rule != nil {
		rule = n.rule
	}
	if rule.NoOverride {
		return nil, nil, ""
	}
	counting := rule.counting
	if rule == root.unmatched {
		counting = root.countingOf(taken, entries)
	}
	var buf [256]byte
	k := appendSpan(appendEntries(buf[:0], domain, entries, counting), Span{Override: o}, false)
	return rule, rule.override(o), quota.Key(k)
}

// countingOf says how the entries of a descriptor that no rule matches go into the key.
// As far as descriptors take them these say what is hidden, so that the coordinator
// finds the same; beyond, whatever is hidden anywhere in the domain is: a secret in the
// wrong place is still one.
func (root *node) countingOf(taken []*node, entries []Entry) []counting {
	if len(root.hides) == 0 {
		return nil
	}
	all := make([]counting, len(entries))
	for i, e := range entries {
		switch {
		case i >= len(taken):
			all[i].hash = root.hides[e.Key]
		case taken[i].hash:
			all[i] = taken[i].counting()
		}
	}
	return all
}

// overriddenOf is Overridden for a key: n is where its parts lead to, nil for nowhere.
func (root *node) overriddenOf(n *node, parts []Part, o Override) (*Rule, *Limit) {
	rule := root.unmatched
	switch {
	case len(parts) == 0:
		return nil, nil
	case n != nil && n.rule != nil:
		rule = n.rule
	case slices.ContainsFunc(parts, func(p Part) bool { return p.Pattern && p.Digest == "" }):
		return nil, nil // values that share a bucket do so under a rule only
	}
	if rule.NoOverride {
		return nil, nil
	}
	return rule, rule.override(o)
}

// override returns the limit of a request under the policies of r, which are those of
// its first limit.
func (r *Rule) override(o Override) *Limit {
	l := &Limit{ColdStartWait: DefaultColdStartWait, Override: true}
	if len(r.Limits) > 0 {
		first := &r.Limits[0]
		l.OnDisconnect, l.OnStoreFailure, l.ColdStartWait = first.OnDisconnect, first.OnStoreFailure, first.ColdStartWait
		l.Weights, l.MaxDebt, l.Settle = first.Weights, first.MaxDebt, first.Settle
		if first.Algorithm == LeakyBucket {
			l.Algorithm, l.Shape = LeakyBucket, first.Shape
		}
	}
	l.RequestsPerUnit, l.Unit, l.Multiplier = o.requests, o.unit(), 1
	l.Burst = quota.Whole(uint64(o.requests))
	l.Rate = quota.Rate{Tokens: l.Burst, Per: o.per}
	l.MaxDebt = min(l.MaxDebt, mostDebt(l.Rate))
	l.Settle = l.Settle && l.MaxDebt > 0
	return l
}
