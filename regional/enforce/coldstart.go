package enforce

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

const (
	// waitPause is how long a key that was denied after a wait is not waited
	// for again: the wait is for the first lease of a key, not for each request.
	waitPause = time.Second
	// maxPaused bounds the memory of such keys. When it is full nobody waits.
	maxPaused = 16_384
)

// waits bounds who may wait for a first lease.
type waits struct {
	mu     sync.Mutex
	max    int
	active int
	paused map[quota.Key]time.Duration // until when
	swept  time.Duration
}

func newWaits(limit int) *waits {
	return &waits{max: limit, paused: make(map[quota.Key]time.Duration)}
}

// await lets a denied request wait for the first leases of its keys, if that is
// all that denies it. It reports whether the store is worth asking again.
func (e *Enforcer) await(ctx context.Context, now time.Duration, p *plan) bool {
	if e.cfg.Leases == nil || !p.waitable() || !e.waits.enter(now, p) {
		return false
	}
	defer e.waits.leave()
	for i := range p.items {
		it := &p.items[i]
		if !it.over {
			continue
		}
		if err := e.cfg.Leases.Await(ctx, it.ask.Key, it.limit.ColdStartWait); err != nil {
			// The lease may have come between the take and the wait, so asking
			// again is worth it; waiting for yet another key is not.
			break
		}
	}
	return ctx.Err() == nil
}

// waitable reports whether the request is denied only by keys that have nothing
// to spend yet and that a connected region will get a lease for.
func (p *plan) waitable() bool {
	for i := range p.counts {
		c := &p.counts[i]
		if c.rule.Shadow || !c.over {
			continue
		}
		if c.early != "" {
			return false
		}
		for _, it := range p.items[c.first : c.first+c.n] {
			if it.over && (it.v.Holding != bucket.OnNothing || !it.connected || it.limit.ColdStartWait <= 0) {
				return false
			}
		}
	}
	return true
}

// enter reports whether one more request may wait for the items that deny.
func (w *waits) enter(now time.Duration, p *plan) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweep(now)
	if w.active >= w.max || len(w.paused) >= maxPaused {
		return false
	}
	for i := range p.items {
		it := &p.items[i]
		if until, ok := w.paused[it.ask.Key]; it.over && ok && now < until {
			return false
		}
	}
	w.active++
	return true
}

func (w *waits) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active--
}

// judged remembers the keys that denied although somebody waited for them. now
// is the time before the wait.
func (w *waits) judged(now time.Duration, p *plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range p.items {
		if it := &p.items[i]; it.over && len(w.paused) < maxPaused {
			w.paused[it.ask.Key] = now + it.limit.ColdStartWait + waitPause
		}
	}
}

// sweep forgets the keys that may be waited for again, once a pause.
func (w *waits) sweep(now time.Duration) {
	if len(w.paused) == 0 || now-w.swept < waitPause {
		return
	}
	w.swept = now
	for k, until := range w.paused {
		if until <= now {
			delete(w.paused, k)
		}
	}
}
