package scenario

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// longest bounds every time in a scenario; a day of virtual time under load takes
// minutes, and drawn worlds have up to 31 hours.
const longest = 48 * time.Hour

func (r *reader) text(f field) string {
	if f.value.Kind != yaml.ScalarNode || f.value.ShortTag() == "!!null" || f.value.Value == "" {
		r.wrong(f, "text")
		return ""
	}
	return f.value.Value
}

// duration reads a time from 0 up in the syntax of Go.
func (r *reader) duration(f field) quota.Micros {
	d, err := time.ParseDuration(f.value.Value)
	if f.value.Kind != yaml.ScalarNode || err != nil || d < 0 || d > longest {
		r.wrong(f, fmt.Sprintf("a duration with its unit like 250ms or 1m30s, from 0s to %v", longest))
		return 0
	}
	return quota.MicrosOf(d)
}

// whole reads a whole number in decimal.
func (r *reader) whole(f field, low, high int64) int64 {
	v, err := strconv.ParseInt(f.value.Value, 10, 64)
	if f.value.Kind != yaml.ScalarNode || err != nil || v < low || v > high {
		r.wrong(f, fmt.Sprintf("a whole number from %d to %d", low, high))
		return low
	}
	return v
}

// fraction reads a probability.
func (r *reader) fraction(f field) float64 {
	v, err := strconv.ParseFloat(f.value.Value, 64)
	if f.value.Kind != yaml.ScalarNode || err != nil || !(v >= 0 && v <= 1) {
		r.wrong(f, "a fraction from 0 to 1 like 0.05")
		return 0
	}
	return v
}

// mostDemand bounds the demand of one load: every request is an event of the run.
const mostDemand = 1e6

// demand reads requests a second: a number, or a number for another unit, like
// 12/minute.
func (r *reader) demand(f field) float64 {
	number, unit, other := strings.Cut(f.value.Value, "/")
	seconds := 1.0
	if other {
		seconds = unitSeconds(unit)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	v /= seconds
	if f.value.Kind != yaml.ScalarNode || err != nil || !(v >= 0 && v <= mostDemand) || math.IsInf(seconds, 0) {
		r.wrong(f, fmt.Sprintf("requests a second like 0.5, or for another unit like 12/minute, from 0 to %.0f a second", mostDemand))
		return 0
	}
	return v
}

// unitSeconds returns the length of a unit by its name, infinite for none.
func unitSeconds(name string) float64 {
	for _, u := range []rules.Unit{rules.UnitSecond, rules.UnitMinute, rules.UnitHour, rules.UnitDay} {
		if strings.TrimSpace(name) == u.String() {
			return u.Period().Duration().Seconds()
		}
	}
	return math.Inf(1)
}

// word reads one of several words.
func (r *reader) word(f field, known []string) string {
	for _, k := range known {
		if f.value.Kind == yaml.ScalarNode && f.value.Value == k {
			return k
		}
	}
	if f.value.Kind != yaml.ScalarNode {
		r.wrong(f, "one of "+strings.Join(known, ", "))
	} else {
		r.problem(f.value, f.path, "%s must be one of %s, not %s%s", f.what(), strings.Join(known, ", "), describe(f.value), near(f.value.Value, known))
	}
	return ""
}

// near is suggestion for a message that lists the words itself.
func near(name string, known []string) string {
	if s := suggestion(name, known); strings.HasPrefix(s, "; did") {
		return s
	}
	return ""
}
