package uplink

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// Errors of Await.
var (
	// ErrNoLease: no lease of the key arrived in time.
	ErrNoLease = errors.New("no lease arrived in time")
	// ErrTooManyWaiting: so many requests wait for a first lease that one more
	// would only add to the pile.
	ErrTooManyWaiting = errors.New("too many requests wait for a first lease")
)

// maxWaiting bounds the requests that wait at one time.
const maxWaiting = 4096

// Waiters lets requests wait for the first lease of their key. It is safe for
// concurrent use. The zero value is ready.
type Waiters struct {
	mu      sync.Mutex
	byKey   map[quota.Key]*waiting
	waiting int
}

// waiting is what all requests that wait for one key share.
type waiting struct {
	applied chan struct{} // closed by Notify
	count   int
}

// Await returns nil as soon as an assignment for k was applied after the call,
// ErrNoLease after limit, ErrTooManyWaiting at once, or the error of ctx.
func (w *Waiters) Await(ctx context.Context, k quota.Key, limit time.Duration) error {
	w.mu.Lock()
	if w.waiting >= maxWaiting {
		w.mu.Unlock()
		return ErrTooManyWaiting
	}
	if w.byKey == nil {
		w.byKey = make(map[quota.Key]*waiting)
	}
	e := w.byKey[k]
	if e == nil {
		e = &waiting{applied: make(chan struct{})}
		w.byKey[k] = e
	}
	e.count++
	w.waiting++
	w.mu.Unlock()

	defer func() {
		w.mu.Lock()
		w.waiting--
		if e.count--; e.count == 0 && w.byKey[k] == e {
			delete(w.byKey, k)
		}
		w.mu.Unlock()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-e.applied:
		return nil
	case <-timer.C:
		return ErrNoLease
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Notify wakes the requests that wait for k.
func (w *Waiters) Notify(k quota.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.byKey[k]; e != nil {
		close(e.applied)
		delete(w.byKey, k)
	}
}
