package vclock

import "github.com/quorate/quorate/coordinator/quota"

// Loop is an event queue with the true time. It is not safe for concurrent use.
type Loop struct {
	now   quota.Micros
	heap  []event
	count uint64 // of events ever queued: the tie-break
}

type event struct {
	at    quota.Micros
	order uint64
	do    func()
}

func (e event) before(f event) bool {
	return e.at < f.at || e.at == f.at && e.order < f.order
}

// Now returns the true time since the start of the run.
func (l *Loop) Now() quota.Micros { return l.now }

// Events returns how many events were ever queued.
func (l *Loop) Events() uint64 { return l.count }

// After runs do when d has passed, at once when it is negative.
func (l *Loop) After(d quota.Micros, do func()) { l.At(l.now+max(d, 0), do) }

// At runs do at a time that is not before now.
func (l *Loop) At(at quota.Micros, do func()) {
	l.count++
	l.heap = append(l.heap, event{max(at, l.now), l.count, do})
	for i := len(l.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !l.heap[i].before(l.heap[parent]) {
			break
		}
		l.heap[i], l.heap[parent] = l.heap[parent], l.heap[i]
		i = parent
	}
}

// Run lets time go on until end. Events due then have run.
func (l *Loop) Run(end quota.Micros) {
	for len(l.heap) > 0 && l.heap[0].at <= end {
		e := l.pop()
		l.now = e.at
		e.do()
	}
	l.now = max(l.now, end)
}

func (l *Loop) pop() event {
	top := l.heap[0]
	n := len(l.heap) - 1
	l.heap[0] = l.heap[n]
	l.heap[n] = event{} // lets the closure go
	l.heap = l.heap[:n]
	for i := 0; ; {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && l.heap[child+1].before(l.heap[child]) {
			child++
		}
		if !l.heap[child].before(l.heap[i]) {
			break
		}
		l.heap[i], l.heap[child] = l.heap[child], l.heap[i]
		i = child
	}
	return top
}
