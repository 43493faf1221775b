package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// tokens is an amount that JSON shows as an exact decimal number.
type tokens quota.Tokens

func (t tokens) String() string { return quota.Tokens(t).String() }

// MarshalJSON writes whole tokens with up to six decimals.
func (t tokens) MarshalJSON() ([]byte, error) { return []byte(t.String()), nil }

// capacity is a rate and a burst. The JSON names are an interface.
type capacity struct {
	Rate     tokens `json:"rate_tokens"`
	PeriodMS int64  `json:"rate_period_ms"`
	Burst    tokens `json:"burst_tokens"`
}

func toCapacity(c *quoratev1.Capacity) capacity {
	return capacity{
		Rate: tokens(c.GetRate().GetMicrotokens()), PeriodMS: c.GetRate().GetPerUs() / 1000,
		Burst: tokens(c.GetBurstMicrotokens()),
	}
}

// String returns "600/min burst 600", "600 per window of min" for what is never refilled,
// or "none" for what admits nothing.
func (c capacity) String() string {
	switch {
	case c.Rate == 0 && c.Burst == 0:
		return "none"
	case c.Rate == 0:
		return c.Burst.String() + " per window of " + period(c.PeriodMS)
	}
	return c.Rate.String() + "/" + period(c.PeriodMS) + " burst " + c.Burst.String()
}

// period returns the unit of a rate in the shortest words.
func period(ms int64) string {
	const day = 24 * time.Hour
	d := time.Duration(ms) * time.Millisecond
	for _, u := range []struct {
		length time.Duration
		name   string
	}{{365 * day, "year"}, {30 * day, "month"}, {7 * day, "week"}, {day, "day"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if d >= u.length && d%u.length == 0 {
			if n := int64(d / u.length); n > 1 {
				return strconv.FormatInt(n, 10) + u.name
			}
			return u.name
		}
	}
	return d.String()
}

// milliseconds converts a duration that may be unknown (negative), which JSON
// shows as null.
func milliseconds(us int64) *int64 {
	if us < 0 {
		return nil
	}
	ms := us / 1000
	return &ms
}

// ago returns the age in words, empty when unknown.
func ago(ms *int64) string {
	if ms == nil {
		return ""
	}
	return short(*ms) + " ago"
}

// short returns a duration with no more digits than a person reads.
func short(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Minute:
		text := strconv.FormatFloat(d.Seconds(), 'f', 1, 64)
		return strings.TrimSuffix(text, ".0") + "s"
	default:
		return d.Round(time.Second).String()
	}
}

// perSecond returns a smoothed rate for people.
func perSecond(v float64) string {
	text := fmt.Sprintf("%.1f", v)
	return strings.TrimSuffix(text, ".0")
}

// plural returns "1 account" or "3 accounts".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
