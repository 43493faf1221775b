package rules

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// windowed parses one limit that counts in windows.
func windowed(t *testing.T, fields, extras string) Limit {
	t.Helper()
	return limitWith(t, "requests_per_unit: 5, "+fields+", quota: {algorithm: fixed_window"+extras+"}")
}

// at returns the Unix time of a text like 2026-03-10T12:00:00Z.
func at(t *testing.T, text string) quota.Micros {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return quota.Micros(when.UnixMicro())
}

func (w Window) text() string {
	return time.UnixMicro(int64(w.Start)).UTC().Format(time.RFC3339) + " " + time.UnixMicro(int64(w.End)).UTC().Format(time.RFC3339)
}

func TestK29K30Windows(t *testing.T) {
	for _, tt := range []struct{ reason, fields, extras, now, want string }{
		{"a minute", "unit: minute", "", "2026-03-10T12:34:56Z", "2026-03-10T12:34:00Z 2026-03-10T12:35:00Z"},
		{"the first moment of a window is in it", "unit: minute", "", "2026-03-10T12:34:00Z", "2026-03-10T12:34:00Z 2026-03-10T12:35:00Z"},
		{"quarters of an hour", "unit: minute, unit_multiplier: 15", "", "2026-03-10T12:34:56Z", "2026-03-10T12:30:00Z 2026-03-10T12:45:00Z"},
		{"what does not divide an hour counts from the epoch", "unit: second, unit_multiplier: 100", "", "1970-01-01T00:03:21Z", "1970-01-01T00:03:20Z 1970-01-01T00:05:00Z"},
		{"a clock before the epoch", "unit: hour", "", "1969-12-31T23:59:59Z", "1969-12-31T23:00:00Z 1970-01-01T00:00:00Z"},
		{"a day is UTC's", "unit: day", "", "2026-03-10T23:59:59Z", "2026-03-10T00:00:00Z 2026-03-11T00:00:00Z"},
		{"K30 or that of a zone", "unit: day", ", time_zone: Asia/Shanghai", "2026-03-10T17:00:00Z", "2026-03-10T16:00:00Z 2026-03-11T16:00:00Z"},
		{"a week begins on Monday", "unit: week", "", "2026-03-15T23:00:00Z", "2026-03-09T00:00:00Z 2026-03-16T00:00:00Z"},
		{"also where Monday is in the month before", "unit: week", "", "2026-03-01T00:00:00Z", "2026-02-23T00:00:00Z 2026-03-02T00:00:00Z"},
		{"K29 a month resets on the first", "unit: month", "", "2026-03-10T00:00:00Z", "2026-03-01T00:00:00Z 2026-04-01T00:00:00Z"},
		{"a leap year's February", "unit: month", "", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z 2028-03-01T00:00:00Z"},
		{"a quarter", "unit: month, unit_multiplier: 3", "", "2026-12-31T23:59:59Z", "2026-10-01T00:00:00Z 2027-01-01T00:00:00Z"},
		{"a year", "unit: year", ", time_zone: America/New_York", "2026-01-01T04:59:59Z", "2025-01-01T05:00:00Z 2026-01-01T05:00:00Z"},
		{"K29 a block of envoyproxy/ratelimit is not a month", "unit: month", ", align: epoch", "2026-03-10T00:00:00Z", "2026-03-08T00:00:00Z 2026-04-07T00:00:00Z"},
		{"K29 and its week begins on Thursday", "unit: week", ", align: epoch", "2026-03-10T00:00:00Z", "2026-03-05T00:00:00Z 2026-03-12T00:00:00Z"},
		{"two of its weeks", "unit: week, unit_multiplier: 2", ", align: epoch", "1970-01-20T00:00:00Z", "1970-01-15T00:00:00Z 1970-01-29T00:00:00Z"},
		{"a day of 23 hours", "unit: day", ", time_zone: Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z 2026-03-29T22:00:00Z"},
		{"a day of 25 hours", "unit: day", ", time_zone: Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-24T22:00:00Z 2026-10-25T23:00:00Z"},
		{"the second time that it is half past two", "unit: day", ", time_zone: Europe/Berlin", "2026-10-25T01:30:00Z", "2026-10-24T22:00:00Z 2026-10-25T23:00:00Z"},
		{"a month in which clocks change", "unit: month", ", time_zone: Europe/Berlin", "2026-03-30T00:00:00Z", "2026-02-28T23:00:00Z 2026-03-31T22:00:00Z"},
		{"a day that begins at one o'clock", "unit: day", ", time_zone: America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z 2018-11-05T02:00:00Z"},
		{"the last moment before it", "unit: day", ", time_zone: America/Sao_Paulo", "2018-11-04T02:59:59Z", "2018-11-03T03:00:00Z 2018-11-04T03:00:00Z"},
		{"the day before one that was left out", "unit: day", ", time_zone: Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z 2011-12-30T10:00:00Z"},
		{"the day after it", "unit: day", ", time_zone: Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z 2011-12-31T10:00:00Z"},
	} {
		l := windowed(t, tt.fields, tt.extras)
		w := l.WindowAt(at(t, tt.now))
		if have := w.text(); have != tt.want {
			t.Errorf("%s: have %s, want %s", tt.reason, have, tt.want)
		}
		if !l.mayHave(w) {
			t.Errorf("%s: it has the window %s, and may not", tt.reason, w.text())
		}
	}
}

var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia",
	"Pacific/Kwajalein", "Asia/Beirut", "Antarctica/Troll", "America/St_Johns", "Africa/Casablanca", "America/Havana",
}

// Every moment is in exactly one window, and windows have no gaps between them.
func TestWindowsTile(t *testing.T) {
	var limits []Limit
	for _, zone := range zones {
		for _, unit := range []string{"day", "week", "month", "month, unit_multiplier: 2", "month, unit_multiplier: 12", "year"} {
			limits = append(limits, windowed(t, "unit: "+unit, ", time_zone: "+zone))
		}
	}
	for _, unit := range []string{"minute, unit_multiplier: 7", "hour", "day", "week", "month", "year"} {
		limits = append(limits, windowed(t, "unit: "+unit, ", align: epoch"))
	}
	rapid.Check(t, func(t *rapid.T) {
		l := limits[rapid.IntRange(0, len(limits)-1).Draw(t, "limit")]
		now := quota.Micros(rapid.Int64Range(int64(-10*365*day/time.Microsecond), int64(100*365*day/time.Microsecond)).Draw(t, "now"))
		w := l.WindowAt(now)
		if now < w.Start || now >= w.End || w.Start%quota.Second != 0 || w.End%quota.Second != 0 {
			t.Fatalf("%s in %s: %d is in %s", l, l.TimeZone, now, w.text())
		}
		for _, moment := range []quota.Micros{w.Start, w.End - 1} {
			if have := l.WindowAt(moment); have != w {
				t.Fatalf("%s in %s: %d is in %s and %d in %s", l, l.TimeZone, now, w.text(), moment, have.text())
			}
		}
		if next := l.WindowAt(w.End); next.Start != w.End {
			t.Fatalf("%s in %s: after %s comes %s", l, l.TimeZone, w.text(), next.text())
		}
		if !l.mayHave(w) {
			t.Fatalf("%s in %s: may not have %s", l, l.TimeZone, w.text())
		}
	})
}

// Days at which a zone's clocks change are few, so a walk over years of days finds
// more than random moments do.
func TestDaysFollowEachOther(t *testing.T) {
	for _, zone := range []string{"America/Sao_Paulo", "Pacific/Apia", "Pacific/Kwajalein", "Asia/Beirut", "Africa/Casablanca"} {
		l := windowed(t, "unit: day", ", time_zone: "+zone)
		place, _ := time.LoadLocation(zone)
		w := l.WindowAt(at(t, "1990-01-01T12:00:00Z"))
		for range 30 * 365 {
			next := l.WindowAt(w.End)
			first, last := time.UnixMicro(int64(next.Start)).In(place), time.UnixMicro(int64(next.End-1)).In(place)
			if next.Start != w.End || first.YearDay() != last.YearDay() || !l.mayHave(next) {
				t.Fatalf("%s: after %s comes %s, from %v to %v", zone, w.text(), next.text(), first, last)
			}
			w = next
		}
	}
}

func TestWindowKeys(t *testing.T) {
	set := load(t, `
domain: d
descriptors:
- {key: one, rate_limit: {unit: day, requests_per_unit: 5, quota: {algorithm: fixed_window}}}
- {key: berlin, rate_limit: {unit: month, requests_per_unit: 5, quota: {algorithm: fixed_window, time_zone: Europe/Berlin}}}
- {key: bucket, rate_limit: {unit: day, requests_per_unit: 5}}
- key: two
  rate_limits:
  - {name: hourly, unit: hour, requests_per_unit: 5, quota: {algorithm: fixed_window}}
  - {name: burst, unit: second, requests_per_unit: 5}
`)
	for _, tt := range []struct {
		reason string
		key    quota.Key
		want   string // the limit, "" for none
	}{
		{"a day", "d|one=x##1764547200+86400", "5 per day"},
		{"another day", "d|one=x##1764633600+86400", "5 per day"},
		{"no day: it begins at one o'clock", "d|one=x##1764550800+86400", ""},
		{"no day: it has 23 hours", "d|one=x##1764547200+82800", ""},
		{"no window", "d|one=x", ""},
		{"a window of a limit without", "d|bucket=x##1764547200+86400", ""},
		{"a bucket", "d|bucket=x", "5 per day"},
		{"a limit with a name", "d|two=x#hourly#1764547200+3600", "5 per hour"},
		{"without its window", "d|two=x#hourly", ""},
		{"without its name", "d|two=x##1764547200+3600", ""},
		{"the other one", "d|two=x#burst", "5 per second"},
		{"a month of a zone that need not be known", "d|berlin=x##1764543600+2678400", "5 per month"},
		{"nobody's month", "d|berlin=x##1764543600+5356800", ""},
		{"another spelling", "d|one=x##01764547200+86400", ""},
		{"and another", "d|one=x##+1764547200+86400", ""},
		{"no length", "d|one=x##1764547200+0", ""},
		{"no number", "d|one=x##1764547200", ""},
		{"more than one", "d|one=x##1764547200+86400#1764547200+86400", ""},
		{"too far away to count", "d|one=x##9223372036854720000+86400", ""},
	} {
		have := ""
		if _, l := set.LimitOf(tt.key); l != nil {
			have = l.String()
		}
		if have != tt.want {
			t.Errorf("%s: %s is counted by %q, want %q", tt.reason, tt.key, have, tt.want)
		}
	}
	r := set.Match("d", []Entry{{"two", "a#b"}})
	w := r.Limits[0].WindowAt(1764547200 * quota.Second)
	k := r.WindowKey("d", []Entry{{"two", "a#b"}}, 0, w)
	if want := quota.Key("d|two=a%23b#hourly#1764547200+3600"); k != want || WindowOf(k) != w {
		t.Errorf("have key %s with the window %s, want %s", k, WindowOf(k).text(), want)
	}
	for _, k := range []quota.Key{"d|two=x", "d|two=x#hourly", "d|two=x#1764547200+3600", "", "#", "##"} {
		if w := WindowOf(k); !w.IsZero() {
			t.Errorf("%q has the window %s", k, w.text())
		}
	}
}

// What one machine has accepted, every other one accepts, whatever it knows of zones.
func TestZonesAreAskedOnceOnly(t *testing.T) {
	text := "domain: d\ndescriptors: [{key: k, rate_limit: {unit: month, requests_per_unit: 5, quota: {algorithm: fixed_window, time_zone: Europe/Nowhere}}}]"
	sources := []quota.Source{{Name: "a.yaml", Text: text}}
	if _, err := Parse(sources); err == nil || !strings.Contains(err.Error(), "a.yaml:2:") || !strings.Contains(err.Error(), "not known here") {
		t.Errorf("a new document: have %v", err)
	}
	set, err := Accepted(sources)
	if err != nil {
		t.Fatalf("an accepted document: %v", err)
	}
	if _, l := set.LimitOf("d|k=x##1764543600+2678400"); l == nil {
		t.Error("its month is not counted")
	}
	if _, err := Accepted([]quota.Source{{Text: strings.ReplaceAll(text, "Europe/Nowhere", "+02:00")}}); err == nil {
		t.Error("a text that no machine takes for a zone was accepted")
	}
}

func TestSampleOfWindowsIsCounted(t *testing.T) {
	for _, fields := range [][2]string{
		{"unit: minute", ""}, {"unit: week", ""}, {"unit: year", ", time_zone: Europe/Berlin"}, {"unit: month, unit_multiplier: 6", ", time_zone: Asia/Kolkata"}, {"unit: month", ", align: epoch"},
	} {
		set := load(t, "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 5, "+fields[0]+", quota: {algorithm: fixed_window"+fields[1]+"}}}]")
		rule := set.Rules()[0]
		if r, l := set.LimitOf(rule.Sample(0)); r != rule || l == nil {
			t.Errorf("%v: the sample %s is not counted by its rule", fields, rule.Sample(0))
		}
	}
}
