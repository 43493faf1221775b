package demand

import (
	"container/list"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// Config sets the bounds of a Tracker.
type Config struct {
	// MaxKeys is how many keys are remembered; the key that was quiet for
	// longest is forgotten first. Default 200,000.
	MaxKeys int
	// MaxReport is how many keys one Collect returns; the others follow with
	// the next. Default 10,000, about 1 MB on the wire.
	MaxReport int
	// Idle is how long a key must be quiet before its last, empty report.
	// Default 2 s.
	Idle time.Duration
}

const shardCount = 32

// Tracker sums observations per key. It is safe for concurrent use.
type Tracker struct {
	idle      quota.Micros
	maxReport int
	first     atomic.Uint64 // shard to collect first, so that a full report starves none
	changed   atomic.Int64  // keys with something to report
	shards    [shardCount]shard
}

// New returns an empty tracker.
func New(cfg Config) *Tracker {
	if cfg.MaxKeys <= 0 {
		cfg.MaxKeys = 200_000
	}
	if cfg.MaxReport <= 0 {
		cfg.MaxReport = 10_000
	}
	if cfg.Idle <= 0 {
		cfg.Idle = 2 * time.Second
	}
	t := &Tracker{idle: quota.MicrosOf(cfg.Idle), maxReport: cfg.MaxReport}
	for i := range t.shards {
		t.shards[i] = shard{
			max:     max(1, cfg.MaxKeys/shardCount),
			keys:    make(map[quota.Key]*list.Element),
			changed: &t.changed,
		}
	}
	return t
}

// Observe adds one decision. It reports whether the coordinator should hear of
// the key at once: it fell below half its burst, or denies after a window
// without denials.
func (t *Tracker) Observe(o Observation) (urgent bool) {
	if o.Place != nil {
		if at := o.Place.at.Load(); at != nil {
			if urgent, ok := observeAt(at, &o); ok {
				return urgent
			}
		}
	}
	s := t.shard(o.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(o.Key)
	if o.Place != nil {
		o.Place.at.Store(at)
	}
	return s.observe(at, &o)
}

// observeAt adds an observation to the entry at a place, unless the shard has forgotten
// that.
func observeAt(at *list.Element, o *Observation) (urgent, ok bool) {
	e := at.Value.(*entry)
	e.shard.mu.Lock()
	defer e.shard.mu.Unlock()
	if e.dropped {
		return false, false
	}
	return e.shard.observe(at, o), true
}

// Changed returns the number of keys that have something to report.
func (t *Tracker) Changed() int { return int(t.changed.Load()) }

// Collect returns what was observed of each changed key since its last report,
// sorted by key, and one last empty report of each key that has become idle. now
// is a monotonic clock.
func (t *Tracker) Collect(now quota.Micros) []quota.Usage {
	var out []quota.Usage
	first := t.first.Add(1)
	for i := range uint64(shardCount) {
		out = t.shards[(first+i)%shardCount].collect(out, now, t.idle, t.maxReport)
	}
	slices.SortStableFunc(out, func(a, b quota.Usage) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return merge(out)
}

// Return takes back reports that did not reach the coordinator: they are
// collected again, together with what was observed since.
func (t *Tracker) Return(usage []quota.Usage) {
	for _, u := range usage {
		s := t.shard(u.Key)
		s.mu.Lock()
		e := s.touch(s.find(u.Key))
		e.restore(u, s.now)
		s.mark(e)
		s.mu.Unlock()
	}
}

func (t *Tracker) shard(k quota.Key) *shard {
	// FNV-1a, and not a seeded hash, so that a simulation can be replayed.
	h := uint32(2166136261)
	for i := range len(k) {
		h = (h ^ uint32(k[i])) * 16777619
	}
	return &t.shards[h%shardCount]
}

// merge joins reports of one key: a key that was forgotten and came back has two,
// the older one first.
func merge(sorted []quota.Usage) []quota.Usage {
	out := sorted[:0]
	for _, u := range sorted {
		if n := len(out); n > 0 && out[n-1].Key == u.Key {
			old := out[n-1]
			u.Admitted, u.Denied = add(u.Admitted, old.Admitted), add(u.Denied, old.Denied)
			u.Largest, u.Window = max(u.Largest, old.Largest), max(u.Window, old.Window)
			out[n-1] = u
			continue
		}
		out = append(out, u)
	}
	return out
}
