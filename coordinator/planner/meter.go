package planner

import (
	"math"

	"github.com/quorate/quorate/coordinator/quota"
)

func decay(d, span quota.Micros) float64 {
	return math.Exp(-float64(max(d, 0)) / float64(span))
}

// arrivals estimates a rate from reports. Counts and the time they cover are
// forgotten together, so the rate is right from the first report on and steady
// later. Where the last reports say for certain that the rate is another now,
// everything older is forgotten at once.
type arrivals struct {
	count   float64      // tokens
	windows float64      // seconds that reports covered: of n agents, n times the time
	time    float64      // seconds
	at      quota.Micros // the last report
	boxes   [2]box
}

// box is what the last reports say: a short one shows a large step at once, a
// long one a smaller step.
type box struct {
	count, windows float64
}

var boxSpans = [2]float64{0.1, 0.6}

// surprise is how many standard deviations of a Poisson count a box may be off.
const surprise = 3.5

// add counts tokens that arrived in the window that ends now. step is the size of
// one arrival in tokens.
func (a *arrivals) add(now quota.Micros, tokens, step float64, window, span quota.Micros) {
	w := max(seconds(window), 0.001)
	elapsed := w
	if a.windows > 0 {
		elapsed = seconds(max(now-a.at, 0))
	}
	d := decay(now-a.at, span)
	a.count, a.windows, a.time, a.at = a.count*d+tokens, a.windows*d+w, a.time*d+elapsed, now
	each := a.count / a.windows
	for i := range a.boxes {
		b := &a.boxes[i]
		b.count += tokens
		b.windows += w
		if b.windows < boxSpans[i] {
			continue
		}
		n, expect := b.count, each*b.windows
		if math.Abs(n-expect) > surprise*math.Sqrt(step*max(n, expect)) {
			a.time *= b.windows / a.windows
			a.count, a.windows = b.count, b.windows
			a.boxes = [2]box{}
			return
		}
		*b = box{}
	}
}

// rate returns tokens a second of a region with that many agents. step is the
// size of one arrival, silence the time since the last one.
func (a *arrivals) rate(agents int, step float64, silence, span quota.Micros) float64 {
	if a.windows <= 0 {
		return 0
	}
	// Reports of several agents come staggered. How many of them report the key
	// is seen over a longer time only.
	n := min(max(a.windows/max(a.time, 0.001), 1), float64(max(agents, 1)))
	// The first few arrivals of a key say little of its rate.
	rate := n * a.count / max(a.windows, seconds(span)/30)
	if silence > quiet {
		rate = min(rate, 3*step/seconds(silence))
	}
	return rate
}

// quiet is how long nothing may arrive between two reports: then the rate is
// probably less than three in that time.
const quiet = quota.Second * 4 / 10

// fraction is the part of the arrivals that was denied lately.
type fraction struct {
	denied, asked float64
	at            quota.Micros
}

// lately is the memory of a fraction.
const lately = quota.Second / 2

func (f *fraction) add(now quota.Micros, denied, asked float64) {
	d := decay(now-f.at, lately)
	f.denied, f.asked, f.at = f.denied*d+denied, f.asked*d+asked, now
}

func (f *fraction) read(now quota.Micros) float64 {
	// After a while the arrivals of then say nothing of now.
	if f.asked <= 0 || now-f.at > routeAge {
		return 0
	}
	return min(1, f.denied/f.asked)
}

func seconds(m quota.Micros) float64 { return float64(m) / float64(quota.Second) }
