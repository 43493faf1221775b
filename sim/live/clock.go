package live

import (
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// wallclock watches how this machine's wall clock, which the stores read, moves
// against the monotonic clock, which the auditor reads: not at all, unless
// somebody sets it or the machine was paused. What it jumped ahead the buckets
// rightly refill for, so the auditor has to know of it.
type wallclock struct {
	mu    sync.Mutex
	least time.Duration // the smallest offset so far
	ahead time.Duration // the largest rise of the offset since an earlier moment
	begun bool
}

// look reads both clocks and notes a rise of their difference.
func (c *wallclock) look(start time.Time) {
	// A thread may lose its core between the two readings; a median does not.
	var offsets [5]time.Duration
	for i := range offsets {
		now := time.Now()
		offsets[i] = now.Round(0).Sub(start.Round(0)) - now.Sub(start)
	}
	slices.Sort(offsets[:])
	c.note(offsets[len(offsets)/2])
}

func (c *wallclock) note(offset time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun {
		c.begun, c.least = true, offset
	}
	c.least = min(c.least, offset)
	c.ahead = max(c.ahead, offset-c.least)
}

// watch looks until done is closed.
func (c *wallclock) watch(start time.Time, done <-chan struct{}) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		c.look(start)
		select {
		case <-ticker.C:
		case <-done:
			return
		}
	}
}

// WallClockAhead returns how far this machine's wall clock has jumped ahead of
// its monotonic clock since the World began: 0 on a machine that is left alone.
// Less than a millisecond is taken for noise.
func (w *World) WallClockAhead() time.Duration {
	w.wall.look(w.start)
	w.wall.mu.Lock()
	defer w.wall.mu.Unlock()
	if w.wall.ahead < time.Millisecond {
		return 0
	}
	return w.wall.ahead
}

// slack is what a bucket of capacity c refills for a jump of the wall clock.
func slack(c quota.Capacity, ahead time.Duration) quota.Tokens {
	if ahead <= 0 {
		return 0
	}
	return c.Rate.In(quota.MicrosOf(ahead) + 1).Tokens
}
