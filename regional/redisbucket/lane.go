package redisbucket

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// A lane is a queue of takes and the one flush that serves it.
//
//	Take ──► group of its set of buckets ─┐
//	Take ──► the same group               ├─ queue ──► flush: one script call ──► answers
//	Take ──► group of another set ────────┘     ▲             for all groups
//	                                            └── what comes meanwhile waits here
//
// A request that finds the lane idle is flushed at once and alone. While a flush is
// under way, requests for the same set of buckets gather in one group, and the next
// flush carries all groups that wait. So a busy key costs one script call for each
// round trip however many requests it has, and many keys share the cost of a call.
// Nobody waits for company.
//
// A set of buckets always has the same lane, and a lane has one flush at a time.
// With that its requests are served in the order of their arrival, exactly as if
// each had a call of its own. In a cluster each partition has a lane.
//
// Bounds: a lane holds maxWaiting requests and refuses more at once. The memory of
// a request that waits is that of its caller, who waits too.
type lane struct {
	mu      sync.Mutex
	queue   []*group          // in the order of their first requests
	spare   []*group          // the memory of the queue before
	open    map[uint64]*group // those of queue that can be joined, by identity
	waiting int               // requests in queue
	busy    bool              // a flush is under way
	closed  bool
	flusher flusher // of the flush under way

	// In a cluster only: the partition that the lane is for, and what goes before
	// the queue.
	partition int
	refunds   []refund
}

const (
	// lanes is how many flushes are under way at once.
	lanes = 2
	// maxWaiting is how many requests may wait in one lane. At a round trip of 1 ms
	// and what a lane can flush in it, the last of them waits for some 50 ms; more
	// would only wait to be too late.
	maxWaiting = 8192
	// maxGroup bounds the requests of one group, and with it the longest part of a
	// script call that cannot be split.
	maxGroup = 1024
)

// group is requests for the same buckets that can be served by one look at them.
type group struct {
	id          uint64
	incarnation string
	config      uint64
	asks        []bucket.Ask // a copy: without regard to the costs and to what is drawn ahead
	waiters     []*waiter
	// ahead is how much the call draws ahead of each bucket; empty where nobody asks.
	ahead []quota.Tokens
}

// waiter is one request in a lane.
type waiter struct {
	asks []bucket.Ask
	gone bool          // its caller has gone; guarded by the lane's lock
	done chan struct{} // holds a token when answer is there
	// budget is the caller's, and runs only while it waits.
	budget *time.Timer
	answer
}

// answer is what a flush has for one request.
type answer struct {
	err      error
	now      quota.Micros     // on the clock of the server that gave it
	start    []bucket.Balance // before the request's run; shared by its group
	place, n int              // in the run, and how many of the run were admitted
	grants   []bucket.Grant   // nil where nothing was drawn for it
}

func newWaiter() any {
	w := &waiter{done: make(chan struct{}, 1), budget: time.NewTimer(0)}
	w.budget.Stop()
	return w
}

// result is what the answer says to a request for asks.
func (a *answer) result(asks []bucket.Ask) (enforce.TakeResult, error) {
	if a.err != nil {
		return enforce.TakeResult{}, a.err
	}
	verdicts := bucket.Verdicts(asks, a.start, a.place, a.n)
	for i, g := range a.grants {
		verdicts[i].Grant = g
	}
	return enforce.TakeResult{Now: a.now, Admitted: a.place < a.n, Verdicts: verdicts}, nil
}

// fits reports whether a take can be served with the group's others.
func (g *group) fits(incarnation string, config uint64, asks []bucket.Ask) bool {
	if len(g.waiters) >= maxGroup || g.config != config || g.incarnation != incarnation || len(g.asks) != len(asks) {
		return false
	}
	for i := range asks {
		a, b := &g.asks[i], &asks[i]
		if a.Key != b.Key || a.Mode != b.Mode || a.Standing != b.Standing || a.Debt != b.Debt || a.Settle != b.Settle {
			return false
		}
	}
	return true
}

// join puts w into the lane, and sees that somebody flushes it. On an error the
// lane knows nothing of w.
func (l *lane) join(s *Store, id uint64, incarnation string, config uint64, w *waiter) error {
	l.mu.Lock()
	if l.closed || l.waiting >= maxWaiting {
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return fmt.Errorf("take in regional store: %w: the store is closed", enforce.ErrStoreDown)
		}
		s.metrics.failed("take", "queue_full")
		return fmt.Errorf("take in regional store: %w: %d requests wait for it already", enforce.ErrStoreDown, maxWaiting)
	}
	g := l.open[id]
	if g == nil || !g.fits(incarnation, config, w.asks) {
		g = s.groups.Get().(*group)
		g.id, g.incarnation, g.config = id, incarnation, config
		g.asks = append(g.asks[:0], w.asks...)
		l.queue = append(l.queue, g)
		l.open[id] = g
	}
	g.waiters = append(g.waiters, w)
	l.waiting++
	idle := l.occupy(s)
	l.mu.Unlock()
	if idle {
		go l.run(s) // ends when nobody waits any more
	}
	return nil
}

// occupy reports whether nobody flushes the lane yet; the caller has to, then. It
// has the lock, so that Close does not miss the flush.
func (l *lane) occupy(s *Store) (idle bool) {
	if l.busy {
		return false
	}
	l.busy = true
	s.flushes.Add(1)
	return true
}

// leave says that nobody waits for w any more. What is not on its way yet is not
// sent; the outcome of what is, is unknown.
func (l *lane) leave(w *waiter) {
	l.mu.Lock()
	w.gone = true
	l.mu.Unlock()
}

// run flushes until nobody waits.
func (l *lane) run(s *Store) {
	defer s.flushes.Done()
	for {
		// Those who were just answered get to ask their next question first: it may
		// still go with this flush.
		runtime.Gosched()
		groups, refunds := l.next()
		if len(groups)+len(refunds) == 0 {
			return
		}
		if s.cluster != nil {
			s.cluster.flush(&l.flusher, l.partition, groups, refunds)
		} else {
			l.flusher.flush(s, groups)
		}
		for _, g := range groups {
			clear(g.waiters)
			clear(g.asks)
			g.waiters = g.waiters[:0]
			s.groups.Put(g)
		}
		clear(groups)
	}
}

// next takes all that waits. Nothing says that the lane is idle now.
func (l *lane) next() (groups []*group, refunds []refund) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue)+len(l.refunds) == 0 {
		l.busy = false
		return nil, nil
	}
	groups, refunds, l.refunds = l.queue, l.refunds, nil
	l.queue, l.spare, l.waiting = l.spare[:0], groups, 0
	clear(l.open)
	for _, g := range groups {
		g.waiters = slices.DeleteFunc(g.waiters, func(w *waiter) bool { return w.gone })
	}
	return groups, refunds
}

// close refuses all further requests.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}
