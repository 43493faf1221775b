package workload

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func curves() *rapid.Generator[Curve] {
	return rapid.Custom(func(t *rapid.T) Curve {
		var c Curve
		at := time.Duration(0)
		for range rapid.IntRange(1, 6).Draw(t, "points") {
			at += time.Duration(rapid.IntRange(0, 3000).Draw(t, "gap")) * time.Millisecond
			c.Points = append(c.Points, Point{at, float64(rapid.IntRange(0, 400).Draw(t, "rate"))})
		}
		if rapid.Bool().Draw(t, "repeats") {
			c.Period = at + time.Duration(rapid.IntRange(1, 3000).Draw(t, "rest"))*time.Millisecond
		}
		return c
	})
}

// integral sums the curve in small steps: the dumb way.
func integral(c Curve, until time.Duration) float64 {
	const step = time.Millisecond
	sum := 0.0
	for t := time.Duration(0); t < until; t += step {
		sum += c.At(t+step/2) * step.Seconds()
	}
	return sum
}

// The number of arrivals is the integral of the curve, within what chance allows.
func TestArrivalsFollowTheCurve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := curves().Draw(t, "curve")
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		const until = 20 * time.Second
		arrivals := NewArrivals(c, rapid.Uint64().Draw(t, "seed"), 0)
		n, last := 0, time.Duration(0)
		for {
			at, ok := arrivals.Next()
			if !ok || at >= until {
				break
			}
			if at < last {
				t.Fatalf("arrival at %v after one at %v", at, last)
			}
			last = at
			n++
		}
		want := integral(c, until)
		if math.Abs(float64(n)-want) > 6*math.Sqrt(want)+2 {
			t.Fatalf("have %d arrivals, want about %.1f", n, want)
		}
	})
}

func TestArrivalsRepeatForTheSameSeed(t *testing.T) {
	draw := func(seed, stream uint64) (times []time.Duration) {
		a := NewArrivals(Steady(100), seed, stream)
		for range 100 {
			at, _ := a.Next()
			times = append(times, at)
		}
		return times
	}
	same := func(a, b []time.Duration) bool {
		for i := range a {
			if a[i] != b[i] {
				return false
			}
		}
		return true
	}
	if !same(draw(7, 1), draw(7, 1)) {
		t.Error("the same seed and stream gave other arrivals")
	}
	if same(draw(7, 1), draw(7, 2)) || same(draw(7, 1), draw(8, 1)) {
		t.Error("another seed or stream gave the same arrivals")
	}
}

func TestArrivalsEndWhenDemandDoes(t *testing.T) {
	for _, tt := range []struct {
		reason string
		curve  Curve
	}{
		{"no points", Curve{}},
		{"zero for ever", Steady(0)},
		{"zero in every period", Curve{Points: []Point{{0, 0}, {time.Second, 0}}, Period: 2 * time.Second}},
		{"down to zero", Step(100, 0, time.Second)},
	} {
		a := NewArrivals(tt.curve, 1, 1)
		for i := 0; ; i++ {
			if _, ok := a.Next(); !ok {
				break
			}
			if i > 1000 {
				t.Fatalf("%s: arrivals go on", tt.reason)
			}
		}
	}
}

func TestCurves(t *testing.T) {
	sun := FollowTheSun(3, 10, 110, 30*time.Second)
	for _, tt := range []struct {
		reason string
		curve  Curve
		at     time.Duration
		want   float64
	}{
		{"steady stays", Steady(5), time.Hour, 5},
		{"before the step", Step(1, 9, time.Second), 999 * time.Millisecond, 1},
		{"from the step on", Step(1, 9, time.Second), time.Second, 9},
		{"before the flash", Flash(1, 50, time.Second, time.Second), 0, 1},
		{"in the flash", Flash(1, 50, time.Second, time.Second), 1500 * time.Millisecond, 50},
		{"after the flash", Flash(1, 50, time.Second, time.Second), 2 * time.Second, 1},
		{"the first region's noon", sun[0], 5 * time.Second, 110},
		{"the second region's noon", sun[1], 15 * time.Second, 110},
		{"the third region's noon, a day later", sun[2], 55 * time.Second, 110},
		{"the first region's night", sun[0], 20 * time.Second, 10},
		{"a line between two points", Curve{Points: []Point{{0, 0}, {time.Second, 10}}}, 300 * time.Millisecond, 3},
		{"scaled", Steady(5).Scale(3), 0, 15},
	} {
		if have := tt.curve.At(tt.at); math.Abs(have-tt.want) > 1e-9 {
			t.Errorf("%s: have %g, want %g", tt.reason, have, tt.want)
		}
		if err := tt.curve.Validate(); err != nil {
			t.Errorf("%s: %v", tt.reason, err)
		}
	}
}

func TestInvalidCurvesAreRefused(t *testing.T) {
	for _, tt := range []struct {
		reason string
		curve  Curve
	}{
		{"negative demand", Steady(-1)},
		{"infinite demand", Steady(math.Inf(1))},
		{"no number", Steady(math.NaN())},
		{"out of order", Curve{Points: []Point{{time.Second, 1}, {0, 1}}}},
		{"negative time", Curve{Points: []Point{{-time.Second, 1}}}},
		{"period too short", Curve{Points: []Point{{0, 1}, {time.Second, 1}}, Period: time.Millisecond}},
	} {
		if tt.curve.Validate() == nil {
			t.Errorf("%s: accepted", tt.reason)
		}
	}
}
