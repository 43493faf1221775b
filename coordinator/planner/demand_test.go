package planner

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

func limitPer(n uint64, per quota.Micros) scale {
	l := quota.Limit{Capacity: quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(n), Per: per}, Burst: quota.Whole(n)}}
	return scaleOf(l, Config{}.withDefaults())
}

// A steady rate is read exactly from the first report on, whatever the windows,
// of one agent or of several whose reports come staggered.
func TestArrivalsReadASteadyRate(t *testing.T) {
	const span = 3 * quota.Second
	for _, window := range []quota.Micros{10_000, 150_000, 200_000, 3 * quota.Second} {
		for agents := 1; agents <= 3; agents++ {
			var a arrivals
			now := quota.Micros(0)
			for now < 60*quota.Second {
				now += window / quota.Micros(agents)
				a.add(now, 100*seconds(window)/float64(agents), 1, window, span)
			}
			if have := a.rate(agents, 1, 0, span); have < 97 || have > 103 {
				t.Errorf("%d agents, windows of %v: have %.2f a second, want 100", agents, window.Duration(), have)
			}
		}
	}
	var a arrivals
	a.add(150_000, 15, 1, 150_000, span)
	if have := a.rate(1, 1, 0, span); have != 100 {
		t.Errorf("after one report: have %.2f a second, want 100", have)
	}
}

func TestArrivals(t *testing.T) {
	const span = 10 * quota.Second
	feed := func(a *arrivals, from quota.Micros, rate float64, d time.Duration) quota.Micros {
		for end := from + quota.MicrosOf(d); from < end; {
			from += 100_000
			a.add(from, rate/10, 1, 100_000, span)
		}
		return from
	}
	for _, tt := range []struct {
		reason   string
		old, new float64
		after    time.Duration
		low, top float64
	}{
		{"a step up shows with the first report", 10, 1000, 100 * time.Millisecond, 1000, 1000},
		{"a step down shows with the first report", 400, 20, 100 * time.Millisecond, 20, 20},
		{"a smaller step shows soon", 50, 20, 2 * time.Second, 18, 25},
		{"steady stays steady", 100, 100, time.Second, 99.9, 100.1},
		{"one more is noise", 1, 1.1, time.Second, 1, 1.1},
	} {
		var a arrivals
		now := feed(&a, 0, tt.old, time.Minute)
		feed(&a, now, tt.new, tt.after)
		if have := a.rate(1, 1, 0, span); have < tt.low || have > tt.top {
			t.Errorf("%s: have %.1f, want %.1f to %.1f", tt.reason, have, tt.low, tt.top)
		}
	}
	var a arrivals
	feed(&a, 0, 100, time.Minute)
	if have := a.rate(1, 1, quota.Second, span); have > 3 {
		t.Errorf("silent for a second: have %.1f, want at most 3", have)
	}
}

// The noise of a Poisson stream does not look like steps.
func TestArrivalsAreSteadyInNoise(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var a arrivals
	off, reports := 0, 0
	for now := quota.Micros(0); now < 600*quota.Second; {
		now += 150_000
		n := 0
		for range 75 { // 50 a second
			if random.Float64() < 0.1 {
				n++
			}
		}
		a.add(now, float64(n), 1, 150_000, 5*quota.Second)
		if have := a.rate(1, 1, 0, 5*quota.Second); now > 5*quota.Second {
			reports++
			if have < 40 || have > 60 {
				off++
			}
		}
	}
	if off > reports/20 {
		t.Errorf("%d of %d estimates are off by more than a fifth", off, reports)
	}
}

// Clients that try again and again must not win by that.
func TestRetryStormIsCapped(t *testing.T) {
	s := limitPer(60, 60*quota.Second)
	var d demand
	for i := range 200 {
		d.observe(quota.Micros(i+1)*100_000, quota.Usage{Window: 100 * time.Millisecond, Denied: 1000 * quota.Token, Largest: quota.Token}, "a", s)
	}
	if have := d.rate(d.seen, &region{}, s); have > 2.2 {
		t.Errorf("10,000 denials a second count as %.1f, want at most twice the limit of 1", have)
	}
}

// Many denials of a moment ago do not outweigh the few arrivals of now.
func TestDenialsAreForgottenByTime(t *testing.T) {
	var f fraction
	for i := range quota.Micros(10) {
		f.add((i+1)*100_000, 0.8, 100_000)
	}
	for i := range quota.Micros(10) {
		f.add((i+11)*100_000, 0, 100_000)
	}
	if have := f.read(2 * quota.Second); have > 0.02 {
		t.Errorf("a second after the last denial: have %.3f, want nearly nothing", have)
	}
}

func TestWish(t *testing.T) {
	s := limitPer(200, quota.Second)
	for _, tt := range []struct {
		reason     string
		admitted   float64 // a second
		denied     float64
		largest    int64
		level      int64 // of the lease
		burst      int64
		rate       [2]float64 // tokens a second
		least, top int64      // burst
	}{
		{"half full, it wants its arrivals and a little", 50, 0, 1, 14, 28, [2]float64{50, 51}, 28, 30},
		{"empty, more, to fill up", 50, 0, 1, 0, 28, [2]float64{60, 80}, 28, 30},
		{"full, less, so that nothing is lost", 50, 0, 1, 28, 28, [2]float64{15, 35}, 28, 30},
		{"a large bucket that is full counts as a small one", 50, 0, 1, 200, 200, [2]float64{15, 35}, 28, 30},
		{"denied means it wants more than it shows", 50, 50, 1, 28, 56, [2]float64{103, 125}, 35, 45},
		{"never more than the limit", 150, 400, 1, 0, 28, [2]float64{200, 200}, 50, 60},
		{"a large request must fit", 1, 0, 100, 50, 100, [2]float64{0, 2}, 100, 200},
		{"one that never fits does not count", 1, 0, 700, 14, 28, [2]float64{0, 200}, 1, 200},
	} {
		var d demand
		for i := range 600 {
			d.observe(quota.Micros(i+1)*100_000, quota.Usage{
				Window:   100 * time.Millisecond,
				Admitted: quota.Tokens(tt.admitted * float64(quota.Token) / 10), Denied: quota.Tokens(tt.denied * float64(quota.Token) / 10),
				Largest: quota.Tokens(tt.largest) * quota.Token, Level: quota.Tokens(tt.level) * quota.Token, Burst: quota.Tokens(tt.burst) * quota.Token,
			}, "a", s)
		}
		w := d.wish(d.seen, &region{}, quota.Capacity{Burst: quota.Tokens(tt.burst) * quota.Token}, true, s)
		if have := float64(w.part[rate]) / float64(quota.Token); have < tt.rate[0]-0.01 || have > tt.rate[1]+0.01 || w.part[burst] < tt.least || w.part[burst] > tt.top {
			t.Errorf("%s: have %.1f a second and a burst of %d, want %v and %d to %d", tt.reason, have, w.part[burst], tt.rate, tt.least, tt.top)
		}
	}
}

// Where assignments take long the rate is moved more slowly, and the bucket that
// bridges the time is larger.
func TestWishIsCalmerFarAway(t *testing.T) {
	s := limitPer(200, quota.Second)
	var d demand
	for i := range 600 {
		d.observe(quota.Micros(i+1)*100_000, quota.Usage{Window: 100 * time.Millisecond, Admitted: 5 * quota.Token, Largest: quota.Token, Burst: 28 * quota.Token}, "a", s)
	}
	lease := quota.Capacity{Burst: 28 * quota.Token}
	near, far := d.wish(d.seen, &region{}, lease, true, s), d.wish(d.seen, &region{lag: quota.Second / 5}, lease, true, s)
	if far.part[rate] >= near.part[rate] || far.part[burst] <= near.part[burst] {
		t.Errorf("near %v, far %v", near.part, far.part)
	}
}

func TestRateZeroDoesNotDivide(t *testing.T) {
	s := scaleOf(quota.Limit{Capacity: quota.Capacity{Rate: quota.Rate{Per: quota.Second}, Burst: 7 * quota.Token}}, Config{}.withDefaults())
	var d demand
	d.observe(1, quota.Usage{Admitted: quota.Token, Largest: quota.Token}, "a", s)
	if have := d.wish(2, &region{}, quota.Capacity{}, false, s).part; have != (part{0, 7}) {
		t.Errorf("have %v, want all of it", have)
	}
}
