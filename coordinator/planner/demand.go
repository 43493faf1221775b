package planner

import (
	"math"

	"github.com/quorate/quorate/coordinator/quota"
)

// demand is what is known of one region's wish for one key.
type demand struct {
	region string
	agent  string // the one that last reported the key

	asked  arrivals     // admitted and denied
	denied meter        // fast
	last   quota.Micros // when something was asked for
	seen   quota.Micros // the last report

	largest   quota.Tokens // single cost, of the last while
	largestAt quota.Micros

	level, burst quota.Tokens // of the region's bucket at seen
	epoch        quota.Epoch

	applied quota.Applied // the last answer to an assignment
	settled quota.Micros  // when the lease was last confirmed
}

// scale is what the planner needs of a limit.
type scale struct {
	burst  int64        // whole tokens
	second float64      // tokens a second
	full   float64      // seconds from empty to full
	span   quota.Micros // memory of the steady rate
	idle   quota.Micros // quiet for that long, a region is idle
}

func scaleOf(l quota.Limit, cfg Config) scale {
	s := scale{burst: l.Burst.Floor(), second: l.Rate.PerSecond(), full: math.Inf(1)}
	if s.second > 0 {
		s.full = float64(s.burst) / s.second
	}
	// A steady rate is known after an eighth of the time in which it matters; a
	// limit by the hour sees requests minutes apart that are not idle.
	s.span = quota.Micros(min(max(s.full/8, 3), 30) * float64(quota.Second))
	s.idle = quota.Micros(min(max(s.full, cfg.Idle.Seconds()), 300) * float64(quota.Second))
	return s
}

// observe takes a report of the region.
func (d *demand) observe(now quota.Micros, u quota.Usage, agent string, s scale) {
	d.agent, d.seen = agent, now
	d.level, d.burst, d.epoch = u.Level, u.Burst, u.Epoch
	window := quota.MicrosOf(u.Window)
	// A retry storm must not look like demand without end.
	denied := min(tokens(u.Denied), 2*s.second*max(seconds(window), 0.001))
	asked := tokens(u.Admitted) + denied
	d.asked.add(now, asked, window, s.span)
	d.denied.add(now, denied, window, fastSpan)
	if u.Admitted > 0 || u.Denied > 0 {
		d.last = now
	}
	if u.Largest >= d.largest || now-d.largestAt > s.idle {
		d.largest, d.largestAt = u.Largest, now
	}
}

// assume stands for the reports that a leader has not got yet: the region uses
// what it holds.
func (d *demand) assume(now quota.Micros, lease quota.Capacity, s scale) {
	rate := lease.Rate.PerSecond()
	d.asked.slow = meter{rate * seconds(s.span), now}
	d.asked.fast = meter{rate * seconds(fastSpan), now}
	d.last, d.seen, d.settled = now, now, now
}

func tokens(t quota.Tokens) float64 { return float64(t) / float64(quota.Token) }

// rate returns the arrivals a second. since is when the region was back in touch.
func (d *demand) rate(now, since quota.Micros, s scale) float64 {
	step := max(1, tokens(d.largest))
	return d.asked.rate(now, s.span, step, now-max(d.last, since))
}

// refused returns the part of the arrivals that was denied lately.
func (d *demand) refused(now quota.Micros) float64 {
	asked := d.asked.fast.read(now, fastSpan)
	if asked <= 0 {
		return 0
	}
	return min(1, d.denied.read(now, fastSpan)/asked)
}

// fresh reports whether the level is worth something.
func (d *demand) fresh(now quota.Micros) bool { return now-d.seen <= quota.Second }

// fill returns how full the bucket was, 0 to 1.
func (d *demand) fill() float64 {
	if d.burst <= 0 {
		return 0
	}
	return min(max(float64(d.level)/float64(d.burst), 0), 1)
}

// presses reports whether the region runs into its capacity: it denies, it is
// low, or one request needs more than its bucket can ever hold.
func (d *demand) presses(now quota.Micros, share quota.Tokens) bool {
	if now-d.last > routeAge {
		return false
	}
	return share == 0 || d.low(now) || d.largest > share
}

// low reports whether the region runs out of tokens.
func (d *demand) low(now quota.Micros) bool { return d.fill() < 0.5 || d.refused(now) > 0.01 }

const (
	// filled is how full a bucket should stay: enough to take a burst, with room
	// for what flows in.
	filled = 0.75
	// throttled is the part of denials at which arrivals say little of what is
	// wanted.
	throttled = 0.25
)

// want returns how many whole tokens of burst the region should have, when it
// has cur of them. What it asks for in the time in which the limit refills,
// corrected so that its bucket comes back to three quarters: a lease whose bucket
// is always full is too large, one whose bucket is empty too small. The
// correction vanishes as the level gets there, so nothing swings; it takes two
// refills, and a few seconds at least because a level of now is mostly noise.
func (d *demand) want(now, since quota.Micros, cur int64, leased bool, s scale) int64 {
	if s.second <= 0 {
		return s.burst
	}
	refused := d.refused(now)
	want := d.rate(now, since, s) * s.full * (1 + min(1, 2*refused))
	if d.fresh(now) {
		want += (filled - d.fill()) * float64(cur) * min(0.5, s.full/4)
		if refused > throttled || !leased && d.fill() < 0.5 {
			want = max(want, 2*float64(cur))
		}
	}
	units := int64(math.Ceil(min(max(want, 1), float64(s.burst))))
	if single := int64(math.Ceil(tokens(d.largest))); single <= s.burst && now-d.largestAt <= s.idle {
		units = max(units, single)
	}
	return units
}

// forgot reports whether the region's bucket has lost a lease that it confirmed.
// Reports from before the confirmation may still be under way, and one without
// arrivals repeats what was seen before.
func (d *demand) forgot(epoch quota.Epoch, lease quota.Capacity) bool {
	return d.seen == d.last && d.seen > d.settled+routeAge && (d.epoch < epoch || d.burst < lease.Burst)
}
