package enforce

import (
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// Sliding windows without the store. Nobody but the store knows what is in use, so for
// one window all of the share counts as in use, and an agent admits nothing; after it
// nothing of before the outage is left, and every agent admits at most its part of the
// share in any window. So the region's share is never used twice.

// places is balance for a sliding window.
func (l *local) places(now quota.Micros, it *item, burst quota.Tokens) bucket.Balance {
	length := it.ask.Standing.Rate.Per
	var own bucket.Own
	d := l.debts[it.ask.Key]
	if d != nil {
		own = d.own
	}
	b := own.Balance(now, length, burst, it.ask.Cost)
	if burst == 0 {
		b.Holding = bucket.OnNothing
	}
	if d == nil && !l.down.Load() {
		b.Level = 0 // the store has it, and answers
	}
	if left := quota.MicrosOf(l.since) + length - now; left > 0 {
		b.Level = min(b.Level, 0)
		b.Wait = max(b.Wait, left)
		b.Reset = max(b.Reset, left)
	}
	return b
}

// occupied is what the store must be charged for a sliding window: what the agent may
// have admitted within one.
func (d *debt) occupied() quota.Tokens { return min(d.owed, d.burst) }
