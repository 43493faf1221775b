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
	denied fraction     // of them
	last   quota.Micros // when something was asked for, -never at first
	seen   quota.Micros // the last report

	largest   quota.Tokens // single cost, of the last while
	largestAt quota.Micros

	level, burst quota.Tokens // of the region's bucket at seen
	epoch        quota.Epoch

	applied quota.Applied // the last answer to an assignment
	settled quota.Micros  // when the lease was last confirmed
	// Of a sliding window, what the region admits by since an epoch.
	aimed   quota.Tokens
	aimedAt quota.Epoch
}

// scale is what the planner needs of a limit.
type scale struct {
	burst  int64        // whole tokens
	second float64      // tokens a second
	denied float64      // tokens a second that denials may add to the demand
	per    float64      // seconds of the limit's period
	full   float64      // seconds from empty to full
	span   quota.Micros // memory of the steady rate
	idle   quota.Micros // quiet for that long, a region is idle
}

func scaleOf(l quota.Limit, cfg Config) scale {
	s := scale{burst: l.Burst.Floor(), second: l.Rate.PerSecond(), per: seconds(l.Rate.Per), full: math.Inf(1)}
	if l.Window > 0 {
		s.second = l.Steady(l.Capacity).PerSecond()
	}
	s.denied = 2 * s.second
	if s.second == 0 {
		s.denied = 2 * float64(s.burst) / seconds(horizon) // of a window: twice all of it
	}
	if s.second > 0 {
		s.full = float64(s.burst) / s.second
	}
	// A steady rate is known after an eighth of the time in which it matters; a
	// limit by the hour sees requests minutes apart that are not idle.
	s.span = quota.Micros(min(max(s.full/8, 5), 30) * float64(quota.Second))
	if l.Window > 0 {
		// What arrives in a window is the question, so the memory is as long as one.
		s.span = quota.Micros(min(max(s.full, 5), 300) * float64(quota.Second))
	}
	s.idle = quota.Micros(min(max(s.full, cfg.Idle.Seconds()), 300) * float64(quota.Second))
	return s
}

// observe takes a report of the region.
func (d *demand) observe(now quota.Micros, u quota.Usage, agent string, s scale) {
	d.agent, d.seen = agent, now
	d.level, d.burst, d.epoch = u.Level, u.Burst, u.Epoch
	if u.Largest >= d.largest || now-d.largestAt > s.idle {
		d.largest, d.largestAt = u.Largest, now
	}
	window := quota.MicrosOf(u.Window)
	// A retry storm must not look like demand without end.
	denied := min(tokens(u.Denied), s.denied*max(seconds(window), 0.001))
	asked := tokens(u.Admitted) + denied
	d.asked.add(now, asked, d.step(), window, s.span)
	if asked > 0 {
		d.denied.add(now, denied/asked, window)
		d.last = now
	}
}

// assume stands for the reports that a leader has not got yet: the region uses
// what it holds. It weighs as little as a short report: the first one that comes
// says more.
func (d *demand) assume(now quota.Micros, rate quota.Rate) {
	const w = 0.05
	d.asked = arrivals{count: rate.PerSecond() * w, windows: w, time: w, at: now}
	d.last, d.seen, d.settled = now, now, now
}

func tokens(t quota.Tokens) float64 { return float64(t) / float64(quota.Token) }

// step is the size of one arrival in tokens.
func (d *demand) step() float64 { return max(1, tokens(d.largest)) }

// rate returns the arrivals a second.
func (d *demand) rate(now quota.Micros, r *region, s scale) float64 {
	agents, since := 1, quota.Micros(0)
	if r != nil {
		agents, since = len(r.agents), r.since
	}
	return d.asked.rate(agents, d.step(), now-max(d.last, since), s.span)
}

// fresh reports whether the level is worth something.
func (d *demand) fresh(now quota.Micros) bool { return now-d.seen <= quota.Second }

// presses reports whether the region runs into its capacity: it denies, it is
// low, or one request needs more than its bucket can ever hold.
func (d *demand) presses(now quota.Micros, share quota.Tokens) bool {
	if now-d.last > routeAge {
		return false
	}
	return share == 0 || d.level < d.burst/2 || d.refused(now) || d.largest > share
}

// refused reports whether requests are denied, by more than an accident.
func (d *demand) refused(now quota.Micros) bool { return d.denied.read(now) > 0.01 }

const (
	// filled is how full a bucket should stay: there is room for what flows in and
	// enough for a burst.
	filled = 0.5
	// headroom is what a region gets beyond its arrivals.
	headroom = 1.01
	// shy is how much more than it shows a region wants that is denied everything:
	// not all clients come again. More would take from others what nobody uses.
	shy = 0.25
	// spread is how many standard deviations of the arrivals during a correction a
	// bucket should hold.
	spread = 4
	// few is a number of arrivals whose noise is too much to correct it.
	few = 50
	// lags is how many times as long as an assignment takes a correction takes, up
	// to slow seconds: rate that is on its way serves nobody, so moving it costs.
	lags, slow = 40, 4
	// A correction is weak where the level is noise, as moving rate costs. When the
	// bucket is full rate is wasted: there it is as quick far away as it is near.
	gentle, wasted = 0.8, 1.25
)

// wish is what one region should have.
type wish struct {
	part       // rate and burst
	low  bool  // it runs out of tokens
	full int64 // whole tokens in its bucket
	lump int64 // the largest single cost, 0 when nothing is known of it
}

// wish returns what the region should have when it holds a lease, or its share.
// The two dimensions are apart: it needs the rate at which requests arrive, and a
// bucket that takes their noise. What is above the middle of that bucket says
// that the rate is too large, and what is below that it is too small; the
// correction vanishes as the level gets there, so nothing swings.
func (d *demand) wish(now quota.Micros, r *region, lease quota.Capacity, leased bool, s scale) wish {
	w := wish{full: lease.Burst.Floor()}
	if s.second <= 0 {
		w.part, w.low = part{0, s.burst}, true
		return w
	}
	step, asked := d.step(), d.rate(now, r, s)
	calm := max(1, min(lags*seconds(r.lag), slow), min(few*step/max(asked, 1e-9), s.full)) // seconds
	need := max(1, spread*math.Sqrt(step*calm*min(asked, s.second)))
	if largest := tokens(d.largest); largest <= float64(s.burst) && now-d.largestAt <= s.idle {
		need = max(need, largest)
		w.lump = int64(math.Ceil(largest))
	}
	need = math.Ceil(min(need, float64(s.burst)))
	w.low = d.refused(now) || d.level < min(d.burst/2, quota.Tokens(need/3*float64(quota.Token)))

	want := asked * headroom * (1 + shy*d.denied.read(now))
	if d.fresh(now) {
		w.full = max(d.level.Floor(), 0)
		room := need
		if leased {
			room = max(1, min(need, tokens(d.burst)))
		}
		off := filled - min(max(tokens(d.level), 0), room)/room
		over := 4 * min(off, 0) * min(off, 0) // from 0 in the middle to 1 when full
		want += off * room * (gentle/calm + wasted*over*over)
	}
	want = min(max(want, 0), s.second)
	w.part = part{int64(want * s.per * float64(quota.Token)), int64(need)}
	return w
}

// lacks reports whether the region's bucket is smaller than what it is counted with
// under its last assignment, since it has confirmed that.
func (d *demand) lacks(epoch quota.Epoch, counted quota.Capacity) bool {
	return d.seen > d.settled && d.epoch == epoch && d.burst < counted.Burst
}

// without reports whether the region has nothing at all: it does without a share of which
// the loan has ended before its time, as nobody had taken it. An assignment tells it.
func (d *demand) without() bool {
	return d.seen == d.last && d.seen > d.settled+routeAge && d.burst == 0
}

// forgot reports whether the region's bucket has lost a lease that it confirmed.
// Reports from before the confirmation may still be under way, and one without
// arrivals repeats what was seen before.
func (d *demand) forgot(epoch quota.Epoch, lease quota.Capacity) bool {
	return d.seen == d.last && d.seen > d.settled+routeAge && (d.epoch < epoch || d.burst < lease.Burst)
}
