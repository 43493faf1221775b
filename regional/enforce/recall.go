package enforce

import (
	"time"

	"github.com/quorate/quorate/regional/bucket"
)

// recall denies from memory what the store would deny. Like an answer of the store
// it takes those counts out of what is still to be asked: if the request is over
// with them the others are not asked at all.
func (e *Enforcer) recall(now time.Duration, p *plan) {
	if e.denials == nil {
		return
	}
	for i := range p.counts {
		c := &p.counts[i]
		if c.early != "" {
			continue
		}
		for j := c.first; j < c.first+c.n; j++ {
			it := &p.items[j]
			v, connected, known, denied := e.denials.deny(now, it.ask)
			it.known = known
			if denied {
				it.asked, it.over, it.v, it.connected = true, true, v, connected
				c.over = true
			}
		}
	}
}

// remember keeps what the store said of the buckets that denied, and drops what was
// remembered of those that admitted: they hold less now.
func (e *Enforcer) remember(now time.Duration, changes uint64, p *plan) {
	if e.denials == nil {
		return
	}
	for _, j := range p.index {
		it := &p.items[j]
		if !it.over && it.known {
			e.denials.drop(it.ask.Key)
		}
		if !it.over || it.v.Holding == bucket.OnNothing && it.connected && it.limit.ColdStartWait > 0 {
			continue // who has nothing yet may wait for a lease: see await
		}
		e.denials.remember(now, changes, it.ask.Key, it.ask.Cost, &it.v, it.connected)
	}
}

// changes is what remember has to be told of the time before the store was asked.
func (e *Enforcer) changes() uint64 {
	if e.denials == nil {
		return 0
	}
	return e.denials.changes.Load()
}
