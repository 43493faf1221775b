package enforce

import (
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// Lent is what the store has said of standing shares that are on loan to other
// regions, of which nothing may be spent here while the store is away.
type Lent struct {
	// At is the monotonic time right before the store was asked, and Now the
	// store's clock then.
	At  time.Duration
	Now quota.Micros
	// Until is when each is back, on the store's clock; it must not change any more.
	Until map[quota.Key]quota.Micros
	// All is when all are back for certain, while the store does not know what it
	// has lent; else 0.
	All quota.Micros
}

// away is what is known of loans when the store is lost.
//
// A region says that it has lent a share only bucket.Notice after its store has
// noted it, with the store alive then. So what is not known of a store that was asked
// shortly before it was lost was never used by anybody else.
type away struct {
	loan  time.Duration
	known Lent
	blind time.Duration // nothing is known until then
}

// knownFor is for how long after the store was asked its answer covers every share
// that another region may use, with room for the difference of clocks.
const knownFor = bucket.Notice * 2 / 3

func (a *away) fail(now time.Duration) {
	a.blind = 0 // what is known by now is newer than the outage before
	if now-a.known.At > knownFor.Duration() {
		a.blind = now + a.loan
	}
}

// until returns when a share is back, on the monotonic clock. It may have passed.
func (a *away) until(k quota.Key) time.Duration {
	back := a.known.All
	if len(a.known.Until) > 0 {
		back = max(back, a.known.Until[k])
	}
	if back <= a.known.Now {
		return a.blind
	}
	return max(a.blind, a.known.At+(back-a.known.Now).Duration())
}

// SetLent tells the enforcer what the store has just said of loans.
func (e *Enforcer) SetLent(l Lent) {
	e.local.mu.Lock()
	defer e.local.mu.Unlock()
	e.local.away.known = l
}

// Lost tells the enforcer that the store does not answer, though nobody has asked for
// a decision.
func (e *Enforcer) Lost(now time.Duration) { e.local.fail(now) }
