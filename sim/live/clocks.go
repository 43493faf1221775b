package live

import (
	"sync"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/uplink"
)

// ClockStep is by how much the clocks of an agent's machine are set, in
// microseconds. Real alone is somebody who sets the wall clock; Boot and Real
// together are a machine that was suspended, where Mono stands.
type ClockStep struct{ Mono, Boot, Real quota.Micros }

// clocks are the clocks of an agent's machine: this machine's, fast or slow by a
// rate and set now and then. The agent reads nothing else.
type clocks struct {
	mu     sync.Mutex
	offset ClockStep
	ppm    int64
	origin quota.Micros // of the drift, on the monotonic clock
}

// drift makes all clocks fast by so much from now on.
func (c *clocks) drift(ppm int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ppm = ppm
	c.origin, _, _ = uplink.ReadClocks()
}

func (c *clocks) step(s ClockStep) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset.Mono += s.Mono
	c.offset.Boot += s.Boot
	c.offset.Real += s.Real
}

// read is what the agent reads: regional.Config.Clocks.
func (c *clocks) read() (mono, boot, realtime quota.Micros) {
	mono, boot, realtime = uplink.ReadClocks()
	c.mu.Lock()
	defer c.mu.Unlock()
	drifted := (mono - c.origin) * quota.Micros(c.ppm) / quota.PPM
	return mono + drifted + c.offset.Mono, boot + drifted + c.offset.Boot, realtime + drifted + c.offset.Real
}
