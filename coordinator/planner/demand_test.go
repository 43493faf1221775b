package planner

import (
	"math"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

func perMinute(n uint64) scale {
	l := quota.Limit{Capacity: quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(n), Per: 60 * quota.Second}, Burst: quota.Whole(n)}}
	return scaleOf(l, Config{}.withDefaults())
}

// A steady rate is read exactly, whatever the windows, by one agent or several.
func TestMeterReadsASteadyRate(t *testing.T) {
	for _, window := range []quota.Micros{10_000, 150_000, 200_000, 3 * quota.Second} {
		var m meter
		now := quota.Micros(0)
		for now < 60*quota.Second {
			now += window
			m.add(now, 100*seconds(window), window, 3*quota.Second)
		}
		if have := m.read(now, 3*quota.Second) / 3; math.Abs(have-100) > 0.1 {
			t.Errorf("windows of %v: have %.2f a second, want 100", window.Duration(), have)
		}
	}
}

func TestArrivals(t *testing.T) {
	const span = 10 * quota.Second
	feed := func(a *arrivals, from quota.Micros, rate float64, d time.Duration) quota.Micros {
		for end := from + quota.MicrosOf(d); from < end; {
			from += 100_000
			a.add(from, rate/10, 100_000, span)
		}
		return from
	}
	for _, tt := range []struct {
		reason   string
		old, new float64
		after    time.Duration
		low, top float64
	}{
		{"a step up shows within a second", 10, 1000, time.Second, 700, 1000},
		{"a step down shows within two", 1000, 10, 2 * time.Second, 10, 80},
		{"steady stays steady", 100, 100, time.Second, 99, 101},
		{"one more is noise", 1, 1.1, time.Second, 1, 1.1},
	} {
		var a arrivals
		now := feed(&a, 0, tt.old, time.Minute)
		now = feed(&a, now, tt.new, tt.after)
		if have := a.rate(now, span, 1, 0); have < tt.low || have > tt.top {
			t.Errorf("%s: have %.1f, want %.1f to %.1f", tt.reason, have, tt.low, tt.top)
		}
	}
	var a arrivals
	now := feed(&a, 0, 100, time.Minute)
	if have := a.rate(now+quota.Second, span, 1, quota.Second); have > 3 {
		t.Errorf("silent for a second: have %.1f, want at most 3", have)
	}
}

// Clients that try again and again must not win by that.
func TestRetryStormIsCapped(t *testing.T) {
	s := perMinute(60)
	var d demand
	for i := range 200 {
		d.observe(quota.Micros(i+1)*100_000, quota.Usage{Window: 100 * time.Millisecond, Denied: 1000 * quota.Token, Largest: quota.Token}, "a", s)
	}
	if have := d.rate(d.seen, 0, s); have > 2.2 {
		t.Errorf("10,000 denials a second count as %.1f, want at most twice the limit of 1", have)
	}
}

func TestWant(t *testing.T) {
	s := perMinute(600) // ten a second, a minute to fill
	for _, tt := range []struct {
		reason   string
		admitted int64 // a second
		denied   int64
		largest  int64
		level    int64 // of 100
		leased   bool
		low, top int64
	}{
		{"what it asks for in a minute, three quarters full", 5, 0, 1, 75, true, 295, 305},
		{"more when the bucket is empty", 5, 0, 1, 0, true, 330, 345},
		{"less when it overflows", 5, 0, 1, 100, true, 280, 292},
		{"denied means it wants more than it shows", 2, 3, 1, 0, true, 550, 600},
		{"never more than the limit", 50, 50, 1, 0, true, 600, 600},
		{"a large request must fit", 1, 0, 400, 75, true, 400, 400},
		{"one that never fits does not count", 1, 0, 700, 75, true, 40, 80},
		{"low on its standing share, it wants twice of it", 1, 0, 1, 30, false, 200, 200},
	} {
		var d demand
		for i := range 600 {
			d.observe(quota.Micros(i+1)*100_000, quota.Usage{
				Window:   100 * time.Millisecond,
				Admitted: quota.Tokens(tt.admitted) * quota.Token / 10, Denied: quota.Tokens(tt.denied) * quota.Token / 10,
				Largest: quota.Tokens(tt.largest) * quota.Token, Level: quota.Tokens(tt.level) * quota.Token, Burst: 100 * quota.Token,
			}, "a", s)
		}
		if have := d.want(d.seen, 0, 100, tt.leased, s); have < tt.low || have > tt.top {
			t.Errorf("%s: have %d, want %d to %d", tt.reason, have, tt.low, tt.top)
		}
	}
}

func TestRateZeroDoesNotDivide(t *testing.T) {
	s := scaleOf(quota.Limit{Capacity: quota.Capacity{Rate: quota.Rate{Per: quota.Second}, Burst: 7 * quota.Token}}, Config{}.withDefaults())
	var d demand
	d.observe(1, quota.Usage{Admitted: quota.Token, Largest: quota.Token}, "a", s)
	if have := d.want(2, 0, 0, false, s); have != 7 {
		t.Errorf("have %d, want all of it", have)
	}
}
