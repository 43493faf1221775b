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

// Wait is a request that is denied for lack of the first leases of its keys, and
// that waits for them. It must be ended with Resume.
type Wait struct {
	enforcer *Enforcer
	turn     turn
	next     int // the item to look at next
}

// Next returns the next key to wait for and how long at most; ok is false when
// there is none any more. The wait for a key ends when an assignment for it has been
// applied; when it ends without, the others are not worth waiting for.
func (w *Wait) Next() (k quota.Key, most time.Duration, ok bool) {
	items := w.turn.p.items
	for w.next < len(items) {
		it := &items[w.next]
		w.next++
		if it.over {
			return it.ask.Key, it.limit.ColdStartWait, true
		}
	}
	return "", 0, false
}

// Resume asks once more, and returns as Begin does. The lease may have come between
// the take and the wait, so it is worth asking however the wait has ended, unless ctx
// has.
func (w *Wait) Resume(ctx context.Context) (Decision, *Wait, error) {
	e, t := w.enforcer, w.turn
	e.waits.leave()
	if ctx.Err() != nil {
		return e.end(ctx, t, nil)
	}
	t.p.waited = true
	t.p.reopen()
	err := e.take(ctx, t.now, t.s, t.p, false)
	if err == nil {
		e.observe(t.p, false, true)
		e.waits.judged(t.now, t.p)
	}
	return e.end(ctx, t, err)
}

// await waits on Config.Leases and goes on with the request.
func (e *Enforcer) await(ctx context.Context, w *Wait) (Decision, *Wait, error) {
	for {
		k, most, ok := w.Next()
		if !ok || e.cfg.Leases.Await(ctx, k, most) != nil {
			return w.Resume(ctx)
		}
	}
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
