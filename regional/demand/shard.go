package demand

import (
	"container/list"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/coordinator/quota"
)

// shard holds a part of the keys under one lock.
type shard struct {
	mu      sync.Mutex
	max     int
	now     quota.Micros // of the last Collect: observations have no clock
	keys    map[quota.Key]*list.Element
	recent  list.List     // of *entry, the most recently observed first
	dirty   []*entry      // what has something to report; dropped entries linger until compacted
	gone    []quota.Usage // last words of forgotten keys, at most max
	changed *atomic.Int64
}

// entry is one key.
type entry struct {
	shard   *shard
	usage   quota.Usage
	since   quota.Micros // start of the window of usage
	touched quota.Micros
	dirty   bool
	dropped bool // forgotten; it may be in the dirty list still
	wanted  bool // a report was handed out, so a last empty one is due
	low     bool // below half the burst, until it is back at three quarters
	denying bool // denied in this window or in the one before
	denied  bool // denied in this window
}

// find returns where k is, making room if needed.
func (s *shard) find(k quota.Key) *list.Element {
	if el, ok := s.keys[k]; ok {
		return el
	}
	if len(s.keys) >= s.max {
		s.evict()
	}
	e := &entry{shard: s, since: s.now}
	e.usage.Key = k
	el := s.recent.PushFront(e)
	s.keys[k] = el
	return el
}

// touch returns an entry as the most recent one.
func (s *shard) touch(el *list.Element) *entry {
	s.recent.MoveToFront(el)
	e := el.Value.(*entry)
	e.touched = s.now
	return e
}

// evict forgets the key that was quiet for longest. The coordinator hears its
// counts, and that is the last it hears of it, if there is room for that.
func (s *shard) evict() {
	e := s.forget(s.recent.Back())
	keep := (e.dirty || e.wanted) && len(s.gone) < s.max
	if keep {
		u := e.usage
		u.Window = (s.now - e.since).Duration()
		s.gone = append(s.gone, u)
		s.changed.Add(1)
	}
	if e.dirty {
		s.changed.Add(-1)
	}
	if len(s.dirty) > 2*s.max {
		s.dirty = slices.DeleteFunc(s.dirty, func(e *entry) bool { return e.dropped })
	}
}

func (s *shard) forget(el *list.Element) *entry {
	e := el.Value.(*entry)
	s.recent.Remove(el)
	delete(s.keys, e.usage.Key)
	e.dropped = true
	return e
}

// mark puts e in the dirty list.
func (s *shard) mark(e *entry) {
	if !e.dirty {
		e.dirty = true
		s.dirty = append(s.dirty, e)
		s.changed.Add(1)
	}
}

// collect appends the reports of the shard to out, up to limit in all.
func (s *shard) collect(out []quota.Usage, now, idle quota.Micros, limit int) []quota.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = max(now, s.now)
	if len(s.keys) == 0 && len(s.dirty) == 0 && len(s.gone) == 0 {
		return out // most shards of an agent with few keys
	}
	n := min(len(s.gone), max(0, limit-len(out)))
	out = append(out, s.gone[:n]...)
	s.gone = slices.Delete(s.gone, 0, n)
	s.changed.Add(-int64(n))

	taken := 0
	for _, e := range s.dirty {
		if len(out) >= limit {
			break
		}
		taken++
		if !e.dropped {
			out = append(out, e.report(s.now))
			s.changed.Add(-1)
		}
	}
	s.dirty = slices.Delete(s.dirty, 0, taken)

	for len(out) < limit && s.recent.Len() > 0 {
		e := s.recent.Back().Value.(*entry)
		if e.dirty || s.now-e.touched < idle {
			break
		}
		if e.wanted {
			out = append(out, e.report(s.now))
		}
		s.forget(s.recent.Back())
	}
	return out
}

// observe adds o to the entry at a place and reports whether it is urgent.
func (s *shard) observe(at *list.Element, o *Observation) (urgent bool) {
	e := s.touch(at)
	urgent = e.observe(o)
	s.mark(e)
	return urgent
}

// observe adds o and reports whether it is urgent.
func (e *entry) observe(o *Observation) (urgent bool) {
	u := &e.usage
	if o.Admitted {
		u.Admitted = add(u.Admitted, o.Cost)
	} else {
		u.Denied = add(u.Denied, o.Cost)
		urgent = !e.denying
		e.denying, e.denied = true, true
	}
	u.Largest = max(u.Largest, o.Cost-o.Owed)
	if o.Blind {
		return false // nobody could be told: a sync needs the store
	}
	u.Level, u.Burst, u.Epoch = o.Level, o.Burst, o.Epoch
	switch {
	case o.Level < o.Burst/2:
		urgent = urgent || !e.low
		e.low = true
	case o.Level >= o.Burst/4*3:
		// Three quarters and not half, so that a level around half does not
		// make every observation urgent.
		e.low = false
	}
	return urgent
}

// report hands out the window and starts the next one.
func (e *entry) report(now quota.Micros) quota.Usage {
	u := e.usage
	u.Window = (now - e.since).Duration()
	e.usage.Admitted, e.usage.Denied, e.usage.Largest = 0, 0, 0
	e.since, e.touched, e.dirty, e.wanted = now, now, false, true
	e.denying, e.denied = e.denied, false
	return u
}

// restore adds a report that was not delivered.
func (e *entry) restore(u quota.Usage, now quota.Micros) {
	if !e.dirty && !e.wanted {
		e.usage.Level, e.usage.Burst, e.usage.Epoch = u.Level, u.Burst, u.Epoch
	}
	e.usage.Admitted = add(e.usage.Admitted, u.Admitted)
	e.usage.Denied = add(e.usage.Denied, u.Denied)
	e.usage.Largest = max(e.usage.Largest, u.Largest)
	e.since = min(e.since, now-quota.MicrosOf(u.Window))
}

// add saturates: absurd costs must not wrap.
func add(a, b quota.Tokens) quota.Tokens {
	if b > quota.MaxTokens-a {
		return quota.MaxTokens
	}
	return a + b
}
