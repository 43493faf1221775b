package workload

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Point is a demand at a time. Between two points demand is a straight line;
// two points at the same time are a step.
type Point struct {
	At        time.Duration
	PerSecond float64
}

// Curve is demand over time. Before the first point and after the last it stays
// what it is there, unless Period repeats it. The zero Curve is no demand.
type Curve struct {
	// Points are in the order of time, none negative.
	Points []Point
	// Period, when not zero, repeats the curve; it is at least the last time.
	Period time.Duration
}

// Validate reports what makes the curve meaningless.
func (c Curve) Validate() error {
	for i, p := range c.Points {
		switch {
		case p.PerSecond < 0 || math.IsNaN(p.PerSecond) || math.IsInf(p.PerSecond, 0):
			return fmt.Errorf("demand of %g requests a second at %v is not a finite number from 0 up", p.PerSecond, p.At)
		case p.At < 0:
			return fmt.Errorf("demand at %v: times start at 0", p.At)
		case i > 0 && p.At < c.Points[i-1].At:
			return fmt.Errorf("demand at %v follows %v: points must be in the order of time", p.At, c.Points[i-1].At)
		}
	}
	if n := len(c.Points); c.Period != 0 && n > 0 && c.Period < c.Points[n-1].At {
		return fmt.Errorf("period %v is shorter than the last time %v", c.Period, c.Points[n-1].At)
	}
	return nil
}

// At returns the demand at t; at a step it is the demand after it.
func (c Curve) At(t time.Duration) float64 {
	n := len(c.Points)
	if n == 0 {
		return 0
	}
	if c.Period > 0 {
		t %= c.Period
	}
	i, _ := slices.BinarySearchFunc(c.Points, t, func(p Point, t time.Duration) int {
		if p.At <= t {
			return -1
		}
		return 1
	})
	switch i {
	case 0:
		return c.Points[0].PerSecond
	case n:
		return c.Points[n-1].PerSecond
	}
	a, b := c.Points[i-1], c.Points[i]
	return a.PerSecond + (b.PerSecond-a.PerSecond)*float64(t-a.At)/float64(b.At-a.At)
}

// Scale returns the curve with every demand times factor.
func (c Curve) Scale(factor float64) Curve {
	points := slices.Clone(c.Points)
	for i := range points {
		points[i].PerSecond *= factor
	}
	return Curve{Points: points, Period: c.Period}
}

// Steady is the same demand for ever.
func Steady(perSecond float64) Curve { return Curve{Points: []Point{{0, perSecond}}} }

// Step is one demand until at and another from then on.
func Step(before, after float64, at time.Duration) Curve {
	return Curve{Points: []Point{{0, before}, {at, before}, {at, after}}}
}

// Flash is a base demand that jumps to peak at the time at, for length.
func Flash(base, peak float64, at, length time.Duration) Curve {
	return Curve{Points: []Point{{0, base}, {at, base}, {at, peak}, {at + length, peak}, {at + length, base}}}
}

// FollowTheSun returns one curve per region. The day has the length period; the
// noon of region i is i/regions of a day later than that of region 0, half a
// day's share after the start. Demand swings between night and noon as a
// raised cosine, drawn with 24 lines.
func FollowTheSun(regions int, night, noon float64, period time.Duration) []Curve {
	const lines = 24
	curves := make([]Curve, regions)
	for r := range curves {
		peak := (float64(r) + 0.5) / float64(regions)
		points := make([]Point, lines+1)
		for i := range points {
			phase := float64(i)/lines - peak
			sun := (1 + math.Cos(2*math.Pi*phase)) / 2
			points[i] = Point{
				At:        period * time.Duration(i) / lines,
				PerSecond: night + (noon-night)*sun,
			}
		}
		curves[r] = Curve{Points: points, Period: period}
	}
	return curves
}
