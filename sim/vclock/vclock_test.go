package vclock

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// Events run in the order of their times, and of queueing where these are equal,
// also those that events queue.
func TestLoopRunsEventsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type due struct{ at, order quota.Micros }
		var l Loop
		var ran []due
		queued := quota.Micros(0)
		var queue func(depth int)
		queue = func(depth int) {
			d := quota.Micros(rapid.IntRange(-2, 20).Draw(t, "delay"))
			queued++
			want := due{l.Now() + max(d, 0), queued}
			l.After(d, func() {
				if l.Now() != want.at {
					t.Fatalf("ran at %d, want %d", l.Now(), want.at)
				}
				ran = append(ran, want)
				for range depth {
					queue(depth - 1)
				}
			})
		}
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			queue(2)
		}
		l.Run(1000)
		if len(ran) != int(queued) || l.Now() != 1000 {
			t.Fatalf("ran %d of %d events until %d", len(ran), queued, l.Now())
		}
		if !slices.IsSortedFunc(ran, func(a, b due) int {
			if a.at != b.at {
				return int(a.at - b.at)
			}
			return int(a.order - b.order)
		}) {
			t.Fatalf("out of order: %v", ran)
		}
	})
}

func TestLoopStopsAtTheEnd(t *testing.T) {
	var l Loop
	ran := 0
	for _, at := range []quota.Micros{5, 10, 11} {
		l.At(at, func() { ran++ })
	}
	if l.Run(10); ran != 2 || l.Now() != 10 {
		t.Errorf("have %d events until %d, want 2 until 10", ran, l.Now())
	}
	if l.Run(20); ran != 3 {
		t.Errorf("have %d events, want 3", ran)
	}
}

func TestClock(t *testing.T) {
	const s = quota.Second
	for _, tt := range []struct {
		reason string
		do     func(c *Clock)
		want   quota.Micros // at 10 s
	}{
		{"the truth", func(*Clock) {}, 10 * s},
		{"from another origin", func(c *Clock) { *c = NewClock(100*s, 0) }, 110 * s},
		{"one percent fast", func(c *Clock) { *c = NewClock(0, 10_000) }, 10*s + s/10},
		{"one percent slow", func(c *Clock) { *c = NewClock(0, -10_000) }, 10*s - s/10},
		{"set ahead", func(c *Clock) { c.Step(4*s, 3*s) }, 13 * s},
		{"set back", func(c *Clock) { c.Step(4*s, -3*s) }, 7 * s},
		{"stopped", func(c *Clock) { c.Freeze(4 * s) }, 4 * s},
		{"stopped for a while", func(c *Clock) { c.Freeze(4 * s); c.Thaw(6 * s) }, 8 * s},
		{"let go on while it ran", func(c *Clock) { c.Thaw(6 * s) }, 10 * s},
		{"set while it stood", func(c *Clock) { c.Freeze(4 * s); c.Step(5*s, s); c.Thaw(6 * s) }, 9 * s},
	} {
		var c Clock
		tt.do(&c)
		if have := c.Read(10 * s); have != tt.want {
			t.Errorf("%s: have %d, want %d", tt.reason, have, tt.want)
		}
	}
}
