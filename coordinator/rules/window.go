package rules

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// Align says where the windows of a fixed window begin.
type Align uint8

const (
	// AlignCalendar has days from midnight, weeks from Monday, months and years from
	// the first, in a time zone.
	AlignCalendar Align = iota
	// AlignEpoch has blocks of the unit's length since the Unix epoch, as
	// envoyproxy/ratelimit has them: a week begins on Thursday, a month has 30 days.
	AlignEpoch
)

var alignNames = []string{"calendar", "epoch"}

// String returns the alignment as the document writes it.
func (a Align) String() string { return nameOf(alignNames, int(a)) }

// Window is one window of a limit: from Start until before End, in Unix time. Both
// are whole seconds. The zero Window is none.
type Window struct{ Start, End quota.Micros }

// IsZero reports whether w is no window.
func (w Window) IsZero() bool { return w == Window{} }

// Length returns how long the window is.
func (w Window) Length() quota.Micros { return w.End - w.Start }

// windows is what a limit with windows needs to tell them.
type windows struct {
	zone *time.Location // nil in a set of Accepted
	last atomic.Pointer[Window]
}

// Windowed reports whether the limit counts in fixed windows, each of which has a key
// of its own.
func (l *Limit) Windowed() bool { return l.Algorithm == FixedWindow }

// WindowAt returns the window that a time belongs to. The limit must be Windowed and
// of a set of Parse.
func (l *Limit) WindowAt(unix quota.Micros) Window {
	if !l.byDate() {
		start := unix - (unix%l.Rate.Per+l.Rate.Per)%l.Rate.Per
		return Window{start, start + l.Rate.Per}
	}
	if w := l.windows.last.Load(); w != nil && w.Start <= unix && unix < w.End {
		return *w
	}
	w := l.dates(unix, l.windows.zone)
	l.windows.last.Store(&w)
	return w
}

// byDate reports whether windows follow the calendar. Shorter ones than a day are the
// same ones as since the epoch, in UTC.
func (l *Limit) byDate() bool {
	return l.Align == AlignCalendar && l.Unit.Period() >= quota.MicrosOf(day)
}

// dates returns the window of a calendar.
func (l *Limit) dates(unix quota.Micros, zone *time.Location) Window {
	year, month, date := onDate(unix, zone)
	begin := func(n int) quota.Micros { return midnight(year, month, date+n, zone) }
	switch l.Unit {
	case UnitWeek:
		weekday := time.Date(year, month, date, 0, 0, 0, 0, time.UTC).Weekday()
		date -= (int(weekday) + 6) % 7 // since Monday
		begin = func(n int) quota.Micros { return midnight(year, month, date+7*n, zone) }
	case UnitMonth:
		every := int(l.Multiplier)
		month -= time.Month((int(month) - 1) % every)
		begin = func(n int) quota.Micros { return midnight(year, month+time.Month(n*every), 1, zone) }
	case UnitYear:
		begin = func(n int) quota.Micros { return midnight(year+n, time.January, 1, zone) }
	}
	// Where clocks are changed at midnight a moment may be before the midnight of
	// its date, or after the next.
	n := 0
	for begin(n) > unix {
		n--
	}
	for begin(n+1) <= unix {
		n++
	}
	return Window{begin(n), begin(n + 1)}
}

var epoch = time.Date(1970, time.January, 1, 0, 0, 0, 0, time.UTC)

// onDate returns the date of a Unix time in a zone.
func onDate(unix quota.Micros, zone *time.Location) (year int, month time.Month, date int) {
	return epoch.Add(unix.Duration()).In(zone).Date()
}

// midnight returns when a date begins in a zone, which may be at one o'clock, and
// the same moment as the date after it where a date is left out.
func midnight(year int, month time.Month, date int, zone *time.Location) quota.Micros {
	want := time.Date(year, month, date, 0, 0, 0, 0, time.UTC)
	t := time.Date(year, month, date, 0, 0, 0, 0, zone)
	y, m, d := t.Date()
	if time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Before(want) {
		// There is no such time; this one is as long before the change as it should
		// be after.
		if _, change := t.ZoneBounds(); !change.IsZero() {
			t = change
		}
	}
	return quota.MicrosOf(t.Sub(epoch).Truncate(time.Second))
}

// mayHave reports whether w can be a window of the limit. Time zones are not asked:
// the answer must be the same on every machine, whatever it knows of them.
func (l *Limit) mayHave(w Window) bool {
	length := w.Length()
	switch {
	case !l.Windowed():
		return w.IsZero()
	case w.IsZero():
		return false
	case !l.byDate():
		return l.WindowAt(w.Start) == w
	case l.TimeZone == utc:
		return l.dates(w.Start, time.UTC) == w
	}
	// No zone has ever changed its clocks by more than from one side of the date
	// line to the other.
	const change = 25 * time.Hour
	least, most := l.Unit.Period(), l.Unit.Period()
	switch l.Unit {
	case UnitMonth:
		least, most = quota.MicrosOf(28*day), quota.MicrosOf(31*day)
	case UnitYear:
		most += quota.MicrosOf(day)
	}
	least, most = least*quota.Micros(l.Multiplier), most*quota.Micros(l.Multiplier)
	return length >= least-quota.MicrosOf(change) && length <= most+quota.MicrosOf(change)
}

// AnyWindow returns a window that the limit may have, none for a limit without.
func (l *Limit) AnyWindow() Window {
	switch {
	case !l.Windowed():
		return Window{}
	case l.byDate():
		return l.dates(0, time.UTC)
	}
	return l.WindowAt(0)
}

// WindowOf returns the window that a key names, none for the key of a limit without
// windows, or of no key at all.
func WindowOf(k quota.Key) Window {
	i := strings.LastIndexByte(string(k), '#')
	if i < 0 || !strings.Contains(string(k[:i]), "#") {
		return Window{}
	}
	w, _ := parseWindow(string(k[i+1:]))
	return w
}

// appendWindow writes a window as keys have it.
func appendWindow(dst []byte, w Window) []byte {
	dst = strconv.AppendInt(dst, int64(w.Start/quota.Second), 10)
	return strconv.AppendInt(append(dst, '+'), int64(w.Length()/quota.Second), 10)
}

// farthest bounds what a key may say in seconds: until the year 2242 nothing overflows.
const farthest = 1 << 33

// parseWindow undoes appendWindow, and accepts no other spelling.
func parseWindow(text string) (w Window, ok bool) {
	at, length, ok := strings.Cut(text, "+")
	start, err1 := strconv.ParseInt(at, 10, 64)
	span, err2 := strconv.ParseInt(length, 10, 64)
	if !ok || err1 != nil || err2 != nil || start <= -farthest || start >= farthest || span <= 0 || span >= farthest ||
		strconv.FormatInt(start, 10) != at || strconv.FormatInt(span, 10) != length {
		return Window{}, false
	}
	w.Start = quota.Micros(start) * quota.Second
	w.End = w.Start + quota.Micros(span)*quota.Second
	return w, true
}
