package workload

import (
	"math"
	"math/rand/v2"
	"time"
)

// Arrivals draws the moments at which requests arrive, one after the other. It
// is not safe for concurrent use.
type Arrivals struct {
	curve Curve
	rnd   *rand.Rand
	// The current time is cycles whole periods and offset seconds. Kept apart,
	// a long run does not lose the digits of a short period.
	cycles int64
	offset float64
	// line is the number of the point that ends the line offset is on.
	line int
}

// NewArrivals returns the arrivals of a valid curve. Streams of one run share
// the seed and differ by stream, so that adding one does not change the others.
func NewArrivals(curve Curve, seed, stream uint64) *Arrivals {
	return &Arrivals{curve: curve, rnd: rand.New(rand.NewPCG(seed, stream))}
}

// Next returns the time of the next arrival since the start; ok is false when
// there will be none.
//
// Between arrivals lies an exponentially distributed part of the curve's
// integral (requests), of mean one; walking the lines of the curve until that
// part is used up gives the time.
func (a *Arrivals) Next() (at time.Duration, ok bool) {
	left := a.rnd.ExpFloat64()
	// A whole period without demand is followed by others like it.
	for idle := 0; idle <= len(a.curve.Points)+1; {
		end, level, slope := a.ahead()
		span := end - a.offset
		if math.IsInf(span, 1) && level <= 0 {
			return 0, false
		}
		area := math.Inf(1)
		if !math.IsInf(span, 1) {
			area = (level + slope*span/2) * span
		}
		if area > 0 && left <= area {
			// The root of level*x + slope*x*x/2 = left, in the form that loses no
			// digits when the slope is small.
			x := 2 * left / (level + math.Sqrt(max(0, level*level+2*slope*left)))
			a.offset += min(x, span)
			return a.now(), true
		}
		if area > 0 {
			idle, left = 0, left-area
		} else {
			idle++
		}
		a.pass(end)
	}
	return 0, false
}

func (a *Arrivals) now() time.Duration {
	return time.Duration(a.cycles)*a.curve.Period + time.Duration(a.offset*float64(time.Second))
}

// ahead returns the end of the current line, as an offset, the demand now and
// the slope, in seconds.
func (a *Arrivals) ahead() (end, level, slope float64) {
	points := a.curve.Points
	if len(points) == 0 {
		return math.Inf(1), 0, 0
	}
	if a.line == len(points) {
		last := points[len(points)-1].PerSecond
		if a.curve.Period > 0 {
			return a.curve.Period.Seconds(), last, 0
		}
		return math.Inf(1), last, 0
	}
	to := points[a.line]
	from := Point{0, to.PerSecond}
	if a.line > 0 {
		from = points[a.line-1]
	}
	end = to.At.Seconds()
	if to.At > from.At {
		slope = (to.PerSecond - from.PerSecond) / (end - from.At.Seconds())
	}
	return end, from.PerSecond + slope*(a.offset-from.At.Seconds()), slope
}

// pass moves on to the line after the one that ends at the offset end.
func (a *Arrivals) pass(end float64) {
	a.offset = end
	a.line++
	if a.line > len(a.curve.Points) {
		a.cycles, a.offset, a.line = a.cycles+1, 0, 0
	}
}
