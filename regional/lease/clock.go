package lease

import (
	"github.com/quorate/quorate/coordinator/quota"
)

// Clock is one reading of the agent's three clocks. None of them is right
// always: the monotonic clock stops in suspend, the real-time clock is stepped.
// An agent without one of them repeats another.
type Clock struct {
	Mono, Boot, Real quota.Micros
}

// since returns the time since then by the fastest clock, and how far the clocks
// disagree about it.
func (c Clock) since(then Clock) (elapsed, skew quota.Micros) {
	mono, boot, real := c.Mono-then.Mono, c.Boot-then.Boot, c.Real-then.Real
	fastest := max(mono, boot, real)
	return max(0, fastest), fastest - min(mono, boot, real)
}
