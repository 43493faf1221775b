package planner

import (
	"math"

	"github.com/quorate/quorate/coordinator/quota"
)

// meter sums arrivals and forgets them exponentially. Several agents of a region
// add to one meter.
type meter struct {
	sum float64 // tokens, as of at
	at  quota.Micros
}

// ripple is how long a sum is read without decay: reports come in steps, and
// between two of them the rate has not fallen.
const ripple = quota.Second * 3 / 10

func decay(d, span quota.Micros) float64 {
	return math.Exp(-float64(max(d, 0)) / float64(span))
}

// add counts tokens that arrived evenly over the window that ends now. With one
// agent that reports without gaps, sum/span is its rate exactly.
func (m *meter) add(now quota.Micros, tokens float64, window, span quota.Micros) {
	m.sum *= decay(now-m.at, span)
	m.at = now
	if window = max(window, 1000); tokens > 0 {
		w := float64(window) / float64(span)
		m.sum += tokens * -math.Expm1(-w) / w
	}
}

func (m meter) read(now, span quota.Micros) float64 {
	return m.sum * decay(now-m.at-ripple, span)
}

// arrivals estimates a rate from two meters. The slow one is steady; the fast
// one corrects it where it says for certain that the rate is another now, so
// that a step shows at once and the noise of a few arrivals does not.
type arrivals struct {
	slow, fast meter
}

// fastSpan is the memory of the fast meter.
const fastSpan = quota.Second / 2

func (a *arrivals) add(now quota.Micros, tokens float64, window, slowSpan quota.Micros) {
	a.slow.add(now, tokens, window, slowSpan)
	a.fast.add(now, tokens, window, fastSpan)
}

// rate returns tokens a second. step is the size of one arrival in tokens,
// silence the time since the last one.
func (a arrivals) rate(now, slowSpan quota.Micros, step float64, silence quota.Micros) float64 {
	steady := a.slow.read(now, slowSpan) / seconds(slowSpan)
	// The spread of a Poisson count n is about sqrt(n); twice that is rare.
	n := a.fast.read(now, fastSpan) / step
	low := step * (n - 2*math.Sqrt(n)) / seconds(fastSpan)
	high := step * (n + 2*math.Sqrt(n) + 3) / seconds(fastSpan)
	rate := min(max(steady, low), high)
	if silence > fastSpan {
		rate = min(rate, 3*step/seconds(silence))
	}
	return rate
}

func seconds(m quota.Micros) float64 { return float64(m) / float64(quota.Second) }
