package fasttime

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/sim/check"
	"github.com/quorate/quorate/sim/workload"
)

// key is the one counted identity of these tests.
const key = quota.Key("api|service=all")

var request = enforce.Request{Domain: "api", Hits: 1, Descriptors: []enforce.Descriptor{
	{Entries: []rules.Entry{{Key: "service", Value: "all"}}},
}}

// arrival is one request and what became of it.
type arrival struct {
	sent, answered quota.Micros
	region         string
	admitted       bool
}

// log is everything that arrived, in the order of time.
type log struct {
	mu    sync.Mutex
	start time.Time
	all   []arrival
	seed  uint64
}

func (l *log) begin() { l.start = time.Now() }

// load offers requests to the agents of a region in turn until stop is called.
// They arrive at random; nobody waits for an answer.
func (w *world) load(name string, perSecond float64) (stop func()) {
	w.log.mu.Lock()
	w.log.seed++
	arrivals := workload.NewArrivals(workload.Steady(perSecond), 1, w.log.seed)
	w.log.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var open sync.WaitGroup
		defer open.Wait()
		began := time.Now()
		for {
			at, ok := arrivals.Next()
			if !ok || sleep(ctx, time.Until(began.Add(at))) != nil {
				return
			}
			w.offer(name)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	w.stops = append(w.stops, stop)
	return stop
}

// offer sends one request. Without an agent it is lost; it still counts as demand.
func (w *world) offer(name string) {
	r := w.regions[name]
	a := arrival{sent: now(), region: name}
	w.log.mu.Lock()
	var to *agent
	if len(r.agents) > 0 {
		r.turn++
		to = r.agents[r.turn%len(r.agents)]
	}
	w.log.mu.Unlock()
	if to != nil {
		d, err := to.Decide(context.Background(), request)
		a.admitted = err == nil && !d.Over
	}
	a.answered = now()
	w.log.mu.Lock()
	w.log.all = append(w.log.all, a)
	w.log.mu.Unlock()
}

// capacity is a limit per second with a burst.
func capacity(perSecond, burst uint64) quota.Capacity {
	return quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(perSecond), Per: quota.Second}, Burst: quota.Whole(burst)}
}

// bound fails the test unless the admissions since from kept the Bound of limit
// in every window.
func (w *world) bound(limit quota.Capacity, from quota.Micros) check.Report {
	w.t.Helper()
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	var list []check.Admission
	for _, a := range w.log.all {
		if a.admitted && a.sent >= from {
			list = append(list, check.Admission{Cost: quota.Whole(1), Sent: a.sent, Answered: a.answered})
		}
	}
	r := check.Audit(limit, 0, list)
	if r.Possible > 0 {
		w.t.Errorf("the Bound is broken by up to %v of %d tokens: %+v", r.Possible, limit.Burst/quota.Whole(1), r)
	}
	return r
}

// share returns how much of what one central bucket admits between two moments
// was admitted, here in all regions.
func (w *world) share(limit quota.Capacity, from, to quota.Micros) float64 {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	ideal := check.NewIdeal(limit)
	var got, best int
	for _, a := range w.log.all {
		ok := ideal.Offer(a.sent, quota.Whole(1))
		if a.sent < from || a.sent >= to {
			continue
		}
		if ok {
			best++
		}
		if a.admitted {
			got++
		}
	}
	if best == 0 {
		return 0
	}
	return float64(got) / float64(best)
}

// rate returns how many requests a second a region admitted between two moments.
func (w *world) rate(name string, from, to quota.Micros) float64 {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	n := 0
	for _, a := range w.log.all {
		if a.region == name && a.admitted && a.sent >= from && a.sent < to {
			n++
		}
	}
	return float64(n) / (to - from).Duration().Seconds()
}
