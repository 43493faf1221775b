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
	boxes   [len(boxes)]box
}

// box is what the last reports say: a short one shows a large step at once, a
// long one a smaller step, or a slope.
type box struct {
	count, windows float64
}

// boxes are the seconds that a box covers, and how many standard deviations of a
// Poisson count it must be off to be believed. A short box is cheap to fool: what
// is left after a false alarm is what it saw itself.
var boxes = [...]struct{ seconds, surprise float64 }{{0.1, 3.5}, {0.6, 2.5}, {1.5, 2}}

// add counts tokens that arrived in the window that ends now. step is the size of
// one arrival in tokens.
func (a *arrivals) add(now quota.Micros, tokens, step float64, window, span quota.Micros) {
	w := max(seconds(window), 0.001)
	elapsed := seconds(max(now-a.at, 0))
	if a.windows == 0 {
		// The first few arrivals of a key say little of its rate.
		w = max(w, seconds(span)/30)
		elapsed = w
	}
	d := decay(now-a.at, span)
	a.count, a.windows, a.time, a.at = a.count*d+tokens, a.windows*d+w, a.time*d+elapsed, now
	each := a.count / a.windows
	for i := range a.boxes {
		b := &a.boxes[i]
		b.count += tokens
		b.windows += w
		if b.windows < boxes[i].seconds {
			continue
		}
		n, expect := b.count, each*b.windows
		if math.Abs(n-expect) > boxes[i].surprise*math.Sqrt(step*max(n, expect)) {
			a.time *= b.windows / a.windows
			a.count, a.windows = b.count, b.windows
			a.boxes = [len(boxes)]box{}
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
	rate := n * a.count / a.windows
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
	part float64
	at   quota.Micros
}

// lately is the memory of a fraction. It forgets by time and not by arrivals:
// many denials of a moment ago must not outweigh few arrivals of now.
const lately = quota.Second / 4

func (f *fraction) add(now quota.Micros, part float64, window quota.Micros) {
	d := decay(window, lately)
	if f.at == 0 {
		d = 0
	}
	f.part, f.at = f.part*d+part*(1-d), now
}

func (f *fraction) read(now quota.Micros) float64 {
	if now-f.at > routeAge {
		return 0 // it says nothing of now
	}
	return f.part
}

func seconds(m quota.Micros) float64 { return float64(m) / float64(quota.Second) }
