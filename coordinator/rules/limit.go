package rules

import (
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/quorate/quorate/coordinator/quota"
)

const (
	// DefaultStanding is the standing share of a limit that names none, in
	// parts per million.
	DefaultStanding = 100_000
	// DefaultColdStartWait is the cold_start_wait of a limit that names none.
	DefaultColdStartWait = 250 * time.Millisecond
	// MaxColdStartWait bounds cold_start_wait: no caller should wait longer.
	MaxColdStartWait = 5 * time.Second
	// MaxPeriod bounds unit x unit_multiplier.
	MaxPeriod = 10 * 365 * day
	// DebtTerm bounds max_debt: the rate of the whole limit has to pay it back within
	// that time, or within the limit's period where that is longer. With more, one
	// request could close a key for longer than anybody would wait, and its record
	// would have to outlive what a store keeps.
	DebtTerm = 30 * day
)

var (
	limitKeys = []string{"unit", "requests_per_unit", "unlimited", "name", "replaces", "unit_multiplier", "quota"}
	quotaKeys = []string{"algorithm", "shape", "burst", "max_debt", "settle", "standing_share", "on_disconnect", "on_store_failure", "cold_start_wait", "weights", "align", "time_zone"}
	// listedLimitKeys are those of an item of rate_limits.
	listedLimitKeys = slices.DeleteFunc(slices.Clone(limitKeys), func(k string) bool { return k == "unlimited" })
	replacesKeys    = []string{"name"}
)

// written is one limit as the walk found it.
type written struct {
	limit     Limit
	unlimited bool
	name      field // the field, for its place; its text is in limit.Name
	replaces  []string
	// replaced are the fields of replaces, for their places.
	replaced []field
}

func (w *walk) singleLimit(rule *Rule, f field) {
	l, ok := w.limit(f, levelLimit, limitKeys)
	if !ok {
		return
	}
	rule.Name, rule.Replaces, rule.Unlimited = l.limit.Name, l.replaces, l.unlimited
	w.checkReplaces([]written{l})
	if !l.unlimited {
		l.limit.Name = ""
		rule.Limits = []Limit{l.limit}
	}
}

func (w *walk) listedLimits(rule *Rule, f field) {
	items := w.list(f)
	switch {
	case len(items) == 0 && (isNull(f.value) || f.value.Kind == yaml.SequenceNode):
		w.problem(f.value, f.trail, "`rate_limits` is empty; list at least one limit or leave it out")
	case len(items) > MaxLimits:
		w.problem(f.value, f.trail, "`rate_limits` has %d limits; a rule can have at most %d", len(items), MaxLimits)
		return
	}
	var all []written
	lines := map[string]int{}
	for _, item := range items {
		l, ok := w.limit(item, levelListedLimit, listedLimitKeys)
		if !ok {
			continue
		}
		name := l.limit.Name
		switch {
		case l.name.value == nil:
			w.problem(item.value, item.trail, "`name` is missing; each of several limits needs a name of its own")
		case name == "" && isText(l.name.value):
			w.problem(l.name.value, l.name.trail, "`name` is empty; each of several limits needs a name of its own")
		case lines[name] != 0:
			w.problem(l.name.value, l.name.trail, "two limits of this rule are called %s; the other is on line %d", quoted(name), lines[name])
		default:
			lines[name] = l.name.value.Line
		}
		all = append(all, l)
		rule.Limits = append(rule.Limits, l.limit)
		for _, r := range l.replaces {
			if !contains(rule.Replaces, r) {
				rule.Replaces = append(rule.Replaces, r)
			}
		}
	}
	w.checkReplaces(all)
}

// checkReplaces reports limits that replace a limit of their own rule.
func (w *walk) checkReplaces(all []written) {
	for _, l := range all {
		for i, r := range l.replaces {
			if slices.ContainsFunc(all, func(o written) bool { return o.limit.Name == r }) {
				w.problem(l.replaced[i].value, l.replaced[i].trail, "`replaces` names %s, which is this rule itself; name the rule to be replaced", quoted(r))
			}
		}
	}
}

// limit reads one limit; ok is false when f is no mapping at all.
func (w *walk) limit(f field, at level, known []string) (l written, ok bool) {
	fields := w.mapping(f.value, f.trail, at, known)
	if !w.isMapping(f) {
		return l, false
	}
	l.limit = Limit{
		Limit:         quota.Limit{Standing: DefaultStanding},
		Multiplier:    1,
		ColdStartWait: DefaultColdStartWait,
	}
	var unit, requests, multiplier, block field
	var x extras
	rated, timed, multiplied := false, false, true
	for _, f := range fields {
		switch f.name {
		case "unit":
			unit = f
			var i int
			if i, timed = w.choice(f, unitsByLength, true); timed {
				l.limit.Unit = Unit(indexOf(unitNames, unitsByLength[i], false))
			}
		case "requests_per_unit":
			requests = f
			var v uint64
			v, rated = w.integer(f, 0, math.MaxUint32)
			l.limit.RequestsPerUnit = uint32(v)
		case "unlimited":
			l.unlimited = w.boolean(f)
		case "name":
			l.name = f
			l.limit.Name, _ = w.text(f)
		case "replaces":
			w.replaces(f, &l)
		case "unit_multiplier":
			multiplier = f
			var v uint64
			v, multiplied = w.integer(f, 1, math.MaxUint32)
			l.limit.Multiplier = uint32(v)
		case "quota":
			block = f
			x = w.quota(f, &l.limit)
		}
	}
	if l.unlimited {
		w.nothingBut(unit, multiplier, block)
		return l, true
	}
	if unit.value == nil {
		w.problem(f.value, f.trail, "`unit` is missing; write one of %s", strings.Join(unitsByLength, ", "))
	}
	if requests.value == nil {
		w.problem(f.value, f.trail, "`requests_per_unit` is missing; write 0 if everything is to be denied")
	}
	if timed && multiplied {
		w.period(multiplier, &l.limit)
	}
	if rated && !l.limit.Windowed() && !l.limit.Algorithm.Slides() {
		w.bucket(x.burst, &l.limit)
		w.debt(x.debt, &l.limit)
	}
	w.settles(x.settle, &l.limit)
	w.fixed(x, unit, multiplier, &l.limit)
	w.slides(x, requests, &l.limit)
	return l, true
}

// nothingBut reports what contradicts `unlimited: true`. A requests_per_unit is
// let pass because envoyproxy/ratelimit does.
func (w *walk) nothingBut(contradictions ...field) {
	for _, f := range contradictions {
		if f.value != nil {
			w.problem(f.key, f.trail, "%s has no meaning with `unlimited: true`; leave one of them out", f.trail.what())
		}
	}
}

// period computes the period of the rate. A single unit is never too long, so
// only a multiplier can be at fault.
func (w *walk) period(multiplier field, l *Limit) {
	most := int64(quota.MicrosOf(MaxPeriod) / l.Unit.Period())
	if int64(l.Multiplier) > most {
		w.problem(multiplier.value, multiplier.trail, "`unit_multiplier` may be at most %d for the unit %s: a period ends after 10 years", most, l.Unit)
		return
	}
	l.Rate.Per = l.Unit.Period() * quota.Micros(l.Multiplier)
}

// bucket computes rate and burst. Without `burst` the bucket holds one unit's
// requests, so that a limit admits at once what it admits in a unit.
func (w *walk) bucket(burst field, l *Limit) {
	l.Rate.Tokens = quota.Whole(uint64(l.RequestsPerUnit))
	switch {
	case burst.value == nil:
		l.Burst = l.Rate.Tokens
	case l.RequestsPerUnit == 0 && l.Burst > 0:
		w.problem(burst.value, burst.trail, "`requests_per_unit: 0` denies everything, so `burst` must be 0 or left out")
	case l.RequestsPerUnit > 0 && l.Burst == 0:
		w.problem(burst.value, burst.trail, "`burst: 0` would never admit anything; write at least 1, or `requests_per_unit: 0` to deny everything")
	}
}

// debt checks max_debt against the rate. Without a period, which is reported
// elsewhere, only a rate of zero can be at fault.
func (w *walk) debt(debt field, l *Limit) {
	if l.MaxDebt == 0 {
		return
	}
	if l.RequestsPerUnit == 0 {
		w.problem(debt.value, debt.trail, "`requests_per_unit: 0` denies everything, so `max_debt` must be 0 or left out")
		return
	}
	if l.Rate.Per <= 0 {
		return
	}
	if most := mostDebt(l.Rate); l.MaxDebt > most {
		w.problem(debt.value, debt.trail, "`max_debt` may be at most %d for this limit: its rate has to pay a debt back within 30 days, or within its period if that is longer", most.Floor())
	}
}

// settles checks what settle needs.
func (w *walk) settles(settle field, l *Limit) {
	switch {
	case !l.Settle:
	case l.Windowed() || l.Algorithm.Slides():
		w.problem(settle.key, settle.trail, "`settle` has no meaning with `algorithm: %s`: nothing is refilled that could pay a debt", l.Algorithm)
	case l.MaxDebt == 0:
		w.problem(settle.value, settle.trail, "`settle` needs a `max_debt` beside it: without one neither costs nor looks would be denied")
	}
}

// mostDebt is the largest max_debt of a limit with that rate, see DebtTerm.
func mostDebt(r quota.Rate) quota.Tokens {
	most, _ := quota.Capacity{Rate: r, Burst: quota.Whole(quota.MaxWhole)}.Refill(0, max(quota.MicrosOf(DebtTerm), r.Per))
	return most
}

func (w *walk) replaces(f field, l *written) {
	for _, item := range w.list(f) {
		named := false
		for _, g := range w.mapping(item.value, item.trail, levelReplaces, replacesKeys) {
			named = true
			if name, ok := w.text(g); ok && name == "" {
				w.problem(g.value, g.trail, "`replaces` has an empty `name`; name the rule to be replaced")
			} else if ok {
				l.replaces = append(l.replaces, name)
				l.replaced = append(l.replaced, g)
			}
		}
		if !named && w.isMapping(item) {
			w.problem(item.value, item.trail, "`replaces` has an item without `name`; name the rule to be replaced")
		}
	}
}
