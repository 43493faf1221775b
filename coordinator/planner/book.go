package planner

import (
	"container/heap"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// entry is one key in the demand book: every key with an account, and keys about
// to get one.
type entry struct {
	key     quota.Key
	demands []demand     // of the regions that reported it, a few
	due     quota.Micros // when to plan it next
	index   int          // in the queue, -1 while its operations are open
	short   bool         // somebody was short of its part at the last plan
	bare    bool         // the account must be opened without credit
	scale   scale        // of the limit at the last plan
	since   quota.Micros // when it came into the book
	heard   quota.Micros // the last report, since at first
	told    []told       // what borrowers know of the loans, and since when
	toldAt  quota.Micros
	early   []string // regions whose loans ended before their time, and who may not know it
}

func (e *entry) demand(region string) *demand {
	for i := range e.demands {
		if e.demands[i].region == region {
			return &e.demands[i]
		}
	}
	return nil
}

func (e *entry) of(region string) *demand {
	if d := e.demand(region); d != nil {
		return d
	}
	e.demands = append(e.demands, demand{region: region, last: -never})
	return &e.demands[len(e.demands)-1]
}

// book holds the entries, and in a queue those that have no open operation, the
// next one due first.
type book struct {
	entries map[quota.Key]*entry
	queue   queue
}

func (b *book) add(k quota.Key, due quota.Micros) *entry {
	e := &entry{key: k, due: due}
	b.entries[k] = e
	heap.Push(&b.queue, e)
	return e
}

func (b *book) drop(e *entry) {
	delete(b.entries, e.key)
	if e.index >= 0 {
		heap.Remove(&b.queue, e.index)
	}
}

// hurry plans e at the given time at the latest.
func (b *book) hurry(e *entry, at quota.Micros) {
	if e.due <= at {
		return
	}
	e.due = at
	if e.index >= 0 {
		heap.Fix(&b.queue, e.index)
	}
}

// hurryAll plans everything.
func (b *book) hurryAll(at quota.Micros) {
	for _, e := range b.entries {
		e.due = min(e.due, at)
	}
	heap.Init(&b.queue)
}

// next takes the entry out of the queue that is due now, nil for none.
func (b *book) next(now quota.Micros) *entry {
	if len(b.queue) == 0 || b.queue[0].due > now {
		return nil
	}
	return heap.Pop(&b.queue).(*entry)
}

// park puts an entry back into the queue.
func (b *book) park(e *entry, due quota.Micros) {
	e.due = due
	heap.Push(&b.queue, e)
}

// queue orders entries by due time. Equal ones are ordered by key, so that no
// plan depends on the order of a map.
type queue []*entry

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if q[i].due != q[j].due {
		return q[i].due < q[j].due
	}
	return q[i].key < q[j].key
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	e := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	e.index = -1
	return e
}

// limitOf returns the limit of a key in force.
func limitOf(l *ledger.Ledger, k quota.Key) (quota.Limit, bool) {
	if a := l.Account(k); a != nil {
		return a.Limit(), true
	}
	if _, limit := l.Current().Rules().LimitOf(k); limit != nil {
		return limit.Limit, true
	}
	return quota.Limit{}, false
}
