package enforce

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// denials remembers buckets that the store has denied from, so that a client that
// asks again at once costs no script call.
//
// What it remembers is not "denied" but the bucket: its level, and what refills it.
// While nothing else happens to it, the level of the store's bucket can only be
// lower than this copy's, as other requests take from it. So what the copy cannot
// pay the store cannot pay either, whatever it costs; what the copy can pay, a
// smaller cost or the same one later, is asked of the store. A denial from memory
// thus ends no later than the store's, and its Retry counts down.
//
// What else can happen makes the bucket hold more than the copy says. What this
// agent does itself (it applies an assignment, adopts a configuration, renews a
// session, gives tokens back) drops the copy. What it does not see, another agent of
// the region doing the same, a deadline that passes, a loan that ends, is why no copy
// is believed for longer than believed. That leaves ten script calls a second for a
// key that is denied thousands of times, and is well below the round trip to the
// coordinator that a larger lease takes.
//
// It is bounded: maxDenials keys of maxDenialKey bytes, at most 24 MB and usually a
// tenth of it. Where there is no room, and when an entry is forgotten, the store is
// asked: forgetting can neither admit nor deny anything.
type denials struct {
	// changes counts what drops copies. An answer that was on its way meanwhile may
	// be about the time before, so it is not remembered.
	changes atomic.Uint64
	// latest is when the latest copy was made, so that nobody looks for one where the
	// store has denied nothing in a while.
	latest atomic.Int64
	shards [denialShards]denialShard
}

const (
	// believed is how long a copy of a bucket is used.
	believed = 100 * time.Millisecond
	// ahead is what the local clock may be slow in that time, twice 1 %: the copy
	// is refilled for a longer time than has passed.
	ahead = 50

	denialShards = 32
	maxDenials   = 32_768
	maxDenialKey = 512
)

// denialShard has two generations of entries. The older one is dropped as a whole
// when the younger is as old as anything may be, so an entry costs no work to
// forget, and memory comes back whether or not anything new is denied (case K96).
type denialShard struct {
	mu         sync.Mutex
	young, old map[quota.Key]denial
	turned     time.Duration // when old was dropped last
}

// denial is a copy of a bucket.
type denial struct {
	at        time.Duration // before the store was asked
	bucket    bucket.Balance
	connected bool // the region had a session
	cost      quota.Tokens
}

func (d *denials) shard(k quota.Key) *denialShard { return &d.shards[hash(k)%denialShards] }

// turn drops what is too old.
func (s *denialShard) turn(now time.Duration) {
	age := now - s.turned
	if age < believed {
		return
	}
	s.young, s.old = nil, s.young
	if age >= 2*believed {
		s.old = nil
	}
	s.turned = now
}

// remember keeps a copy of the bucket of k as v tells of it. at is a time before the
// store was asked, and changes what d.changes was then.
func (d *denials) remember(at time.Duration, changes uint64, k quota.Key, cost quota.Tokens, v *bucket.Verdict, connected bool) {
	if len(k) > maxDenialKey {
		return
	}
	s := d.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(at)
	if len(s.young)+len(s.old) >= maxDenials/denialShards || d.changes.Load() != changes {
		return
	}
	if s.young == nil {
		s.young = make(map[quota.Key]denial)
	}
	d.latest.Store(int64(at))
	s.young[k] = denial{
		at: at, connected: connected, cost: cost,
		bucket: bucket.Balance{
			Holding: v.Holding, Level: v.Level, Unspent: v.Unspent, Capacity: v.Capacity, Epoch: v.Epoch,
			Reset: v.Full, Fresh: v.Fresh, Wait: v.Retry,
		},
	}
}

// deny returns the verdict on an ask that the store would deny as well. Where denied
// is false the store has to be asked; known says that there is a copy all the same.
func (d *denials) deny(now time.Duration, a bucket.Ask) (v bucket.Verdict, connected, known, denied bool) {
	s := d.shard(a.Key)
	s.mu.Lock()
	s.turn(now)
	e, ok := s.young[a.Key]
	if !ok {
		e, ok = s.old[a.Key]
	}
	s.mu.Unlock()
	if !ok || now < e.at || now-e.at >= believed {
		return v, false, ok, false
	}
	b, elapsed := e.bucket, quota.MicrosOf(now-e.at)
	elapsed += elapsed/ahead + 1
	if b.Fresh > 0 {
		// A sliding window does not refill: what was denied waits for its places, and
		// whoever asks for less asks the store.
		if a.Cost < e.cost || elapsed >= b.Wait {
			return v, false, true, false
		}
		b.Wait, b.Reset = b.Wait-elapsed, max(0, b.Reset-elapsed)
	}
	b.Level, b.Unspent = b.Capacity.Refill(b.Level, b.Unspent+elapsed)
	v = bucket.Judge(&a, b, false)
	return v, e.connected, true, !v.Admitted
}

// quiet reports whether no copy is young enough to be believed.
func (d *denials) quiet(now time.Duration) bool {
	return now-time.Duration(d.latest.Load()) >= believed
}

// forget drops the copy of a bucket that may hold more now.
func (d *denials) forget(k quota.Key) {
	d.changes.Add(1)
	d.drop(k)
}

// drop drops the copy of a bucket.
func (d *denials) drop(k quota.Key) {
	s := d.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.young, k)
	delete(s.old, k)
}

// clear drops all copies.
func (d *denials) clear() {
	d.changes.Add(1)
	for i := range d.shards {
		s := &d.shards[i]
		s.mu.Lock()
		s.young, s.old = nil, nil
		s.mu.Unlock()
	}
}
