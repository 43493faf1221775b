package rules

import (
	"regexp"
	"time"
	_ "time/tzdata" // the zones, where the machine has none

	"github.com/quorate/quorate/coordinator/quota"
)

const (
	utc = "UTC"
	// minWindow is the shortest window: each has a key, and an account where more is
	// wanted than the standing shares.
	minWindow = time.Minute
)

// zoneName is what a name of the time zone database looks like.
var zoneName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`)

// extras are the fields of `quota:` whose sense depends on the rest of the limit.
type extras struct{ algorithm, shape, burst, debt, settle, align, zone field }

// zone reads a time zone. Whether this machine knows it is asked of new documents
// only: what was accepted once must be accepted everywhere.
func (w *walk) zone(f field, l *Limit) {
	name, ok := w.text(f)
	switch {
	case !ok:
		return
	case len(name) > 64 || name == "Local" || !zoneName.MatchString(name):
		w.problem(f.value, f.trail, "%s must be a name of the time zone database like Europe/Berlin, or UTC, not %s", f.trail.what(), quoted(name))
		return
	}
	l.TimeZone = name
	if w.accepted {
		return
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		w.problem(f.value, f.trail, "the time zone %s is not known here; write a name of the time zone database like Europe/Berlin, or UTC", quoted(name))
		return
	}
	l.windows = &windows{zone: zone}
}

// fixed settles the windows of a limit when all of it has been read. Its bucket is
// filled once, at the start of the window, by being another one.
func (w *walk) fixed(x extras, unit, multiplier field, l *Limit) {
	if !l.Windowed() {
		for _, f := range []field{x.align, x.zone} {
			if f.value != nil {
				w.problem(f.key, f.trail, "%s has a meaning with `algorithm: fixed_window` only", f.trail.what())
			}
		}
		return
	}
	if x.burst.value != nil {
		w.problem(x.burst.key, x.burst.trail, "`burst` has no meaning with `algorithm: fixed_window`: a window admits `requests_per_unit`, at any pace")
	}
	if x.debt.value != nil {
		w.problem(x.debt.key, x.debt.trail, "`max_debt` has no meaning with `algorithm: fixed_window`: nothing is refilled in a window that could pay a debt")
	}
	if l.TimeZone == "" {
		l.TimeZone = utc
	}
	if l.windows == nil && (!w.accepted || l.TimeZone == utc) {
		l.windows = &windows{zone: time.UTC}
	}
	l.Rate.Tokens, l.Burst = 0, quota.Whole(uint64(l.RequestsPerUnit))
	if l.Rate.Per == 0 {
		return // unit or multiplier are wrong, which has been said
	}
	at := multiplier
	if at.value == nil {
		at = unit
	}
	long := l.Unit.Period() >= quota.MicrosOf(day)
	switch {
	case l.Rate.Per < quota.MicrosOf(minWindow):
		w.problem(at.value, at.trail, "a fixed window must be a minute or longer; use `algorithm: token_bucket` for shorter periods")
	case x.zone.value != nil && !(long && l.Align == AlignCalendar):
		w.problem(x.zone.key, x.zone.trail, "`time_zone` has a meaning with `align: calendar` and units of a day or longer only: other windows are counted from the Unix epoch, in UTC")
	case !l.byDate() || l.Multiplier == 1:
	case l.Unit != UnitMonth:
		w.problem(at.value, at.trail, "a calendar has no windows of %d %ss; leave `unit_multiplier` out, or write `align: epoch` for blocks since the Unix epoch", l.Multiplier, l.Unit)
	case 12%l.Multiplier != 0:
		w.problem(at.value, at.trail, "a year is not divided into windows of %d months; write 2, 3, 4, 6 or 12, or `align: epoch` for blocks of 30 days since the Unix epoch", l.Multiplier)
	}
}

// alignment reads where windows begin.
func (w *walk) alignment(f field, l *Limit) {
	i, _ := w.choice(f, alignNames, false)
	l.Align = Align(i)
}
