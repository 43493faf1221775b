package vclock

import "github.com/quorate/quorate/coordinator/quota"

// Clock is the clock of one machine: it starts anywhere, runs at its own rate,
// and may be set or stopped. The zero Clock tells the truth.
type Clock struct {
	origin quota.Micros // what it says at since
	since  quota.Micros // true time
	ppm    int64        // how much faster than true time
	frozen bool
}

// NewClock returns a clock that says origin at the true time 0 and runs ppm
// parts per million too fast.
func NewClock(origin quota.Micros, ppm int64) Clock { return Clock{origin: origin, ppm: ppm} }

// Read returns what the clock says at the true time now.
func (c *Clock) Read(now quota.Micros) quota.Micros {
	if c.frozen {
		return c.origin
	}
	d := now - c.since
	// Split, so that no product of a long run overflows.
	return c.origin + d + d/quota.PPM*quota.Micros(c.ppm) + d%quota.PPM*quota.Micros(c.ppm)/quota.PPM
}

// rebase makes now the moment from which the clock is counted.
func (c *Clock) rebase(now quota.Micros) { c.origin, c.since = c.Read(now), now }

// Step sets the clock ahead by d, or back when d is negative.
func (c *Clock) Step(now, d quota.Micros) {
	c.rebase(now)
	c.origin += d
}

// Freeze stops the clock, as a paused machine's stands; Thaw lets it go on from
// where it stood.
func (c *Clock) Freeze(now quota.Micros) {
	c.rebase(now)
	c.frozen = true
}

// Thaw lets a frozen clock go on; one that runs is left alone.
func (c *Clock) Thaw(now quota.Micros) {
	if c.frozen {
		c.since, c.frozen = now, false
	}
}
