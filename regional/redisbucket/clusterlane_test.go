package redisbucket

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// in returns n keys of one partition.
func in(p, n int) (keys []quota.Key) {
	for i := 0; len(keys) < n; i++ {
		if k := quota.Key("api|user=" + strconv.Itoa(i)); partitionOf(k) == p {
			keys = append(keys, k)
		}
	}
	return keys
}

// What waits for a partition shares one script call, requests with several of its
// keys too; other partitions go on meanwhile.
func testPartitionsShareCalls(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	st := connected(t, s)
	share := full(per(0, day, 10))
	keys := in(7, 6)
	node := c.Nodes[slotOf(tags[7])*3/clusterSlots]
	take(t, s, of(st, ask(keys[0], 0, share))) // the connections are there
	l := &s.lanes[7]
	eventually(t, patient, "a flush that takes its time", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.occupy(s)
	})
	var wg sync.WaitGroup
	for i := range 54 {
		asks := []bucket.Ask{ask(keys[i%6], 1, share)}
		if i < 6 {
			asks = append(asks, ask(keys[(i+1)%6], 1, share))
		}
		wg.Go(func() {
			res, err := s.Take(t.Context(), of(st, asks...))
			if err != nil || !res.Admitted {
				t.Errorf("want admitted, have %+v, %v", res, err)
			}
		})
	}
	queued(t, s, 54)
	if res := take(t, s, of(st, ask(in(8, 1)[0], 1, share))); !res.Admitted {
		t.Errorf("another partition: have %+v", res)
	}
	before := executed(t, node)["evalsha"]
	go l.run(s)
	wg.Wait()
	if have := executed(t, node)["evalsha"] - before; have != 1 {
		t.Errorf("script calls: want 1, have %d", have)
	}
	for _, k := range keys {
		if v := take(t, s, of(st, ask(k, 0, share))).Verdicts[0]; v.Level != 0 {
			t.Errorf("%s: want 0 left, have %v", k, v.Level)
		}
	}
}

// Crowds on keys in two partitions: each is admitted as often as it holds, and what
// a denial gave back is there again.
func testCrowdsAcrossPartitions(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	st := connected(t, s)
	keys := apart(2)
	one, two := full(per(0, day, 500)), full(per(0, day, 300))
	var first, second, both atomic.Int64
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for range 25 {
				asks := []bucket.Ask{ask(keys[0], 1, one), ask(keys[1], 1, two)}
				count := &both
				switch i % 4 {
				case 0:
					asks, count = asks[:1], &first
				case 1:
					asks, count = asks[1:], &second
				}
				if take(t, s, of(st, asks...)).Admitted {
					count.Add(1)
				}
			}
		})
	}
	wg.Wait()
	v := take(t, s, of(st, ask(keys[0], 0, one), ask(keys[1], 0, two))).Verdicts
	left := []int64{500 - first.Load() - both.Load(), 300 - second.Load() - both.Load()}
	for i, v := range v {
		if left[i] < 0 || v.Level != quota.Whole(1)*quota.Tokens(left[i]) {
			t.Errorf("bucket %d: want %d left, have %v; admitted %d, %d and %d", i, left[i], v.Level, first.Load(), second.Load(), both.Load())
		}
	}
}

// A reply that is lost in the middle of a request: what was charged before it is
// given back, what it says is spent, and nothing after it is asked.
func testLostInTheMiddle(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	var lose, sent atomic.Int64
	s.cluster.client.Options().Dialer = lossyDialer(&lose, &sent)
	st := connected(t, s)
	share := full(per(0, day, 10))
	var asks []bucket.Ask
	for _, k := range apart(3) {
		asks = append(asks, ask(k, 1, share))
	}
	lose.Store(2)
	if _, err := s.Take(t.Context(), of(st, asks...)); !errors.Is(err, enforce.ErrStoreDown) {
		t.Errorf("want %v, have %v", enforce.ErrStoreDown, err)
	}
	for i, want := range []uint64{10, 9, 10} {
		asks[i].Cost = 0
		if v := take(t, s, of(st, asks[i])).Verdicts[0]; v.Level != quota.Whole(want) {
			t.Errorf("key %d: want %d left, have %v", i, want, v.Level)
		}
	}
}

// A slot moves under load: every request is counted once or its outcome is unknown,
// in the partition that moves and in those that stay.
func testMovesUnderLoad(t *testing.T, c *redistest.Cluster) {
	const burst = 1_000_000
	s := openAt(t, c.URL(), nil)
	st := connected(t, s)
	share := full(per(0, day, burst))
	keys := apart(4)
	moved := partitionOf(keys[0])
	type counts struct{ admitted, unknown atomic.Int64 }
	var mu sync.Mutex
	seen := make(map[string]*[4]counts) // by incarnation
	of1 := func(incarnation string) *[4]counts {
		mu.Lock()
		defer mu.Unlock()
		if seen[incarnation] == nil {
			seen[incarnation] = new([4]counts)
		}
		return seen[incarnation]
	}
	var view atomic.Pointer[bucket.State]
	view.Store(&st)
	var stop atomic.Bool
	var answers atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := i; !stop.Load(); n++ {
				now := view.Load()
				at := &of1(now.Incarnation)[n%4]
				switch res, err := s.Take(t.Context(), of(*now, ask(keys[n%4], 1, share))); {
				case err == nil && res.Admitted:
					at.admitted.Add(1)
					answers.Add(1)
				case errors.Is(err, enforce.ErrStale):
					if st, err := s.State(t.Context()); err == nil {
						view.Store(&st)
					}
				case errors.Is(err, enforce.ErrStoreDown):
					at.unknown.Add(1)
				default:
					t.Errorf("have %+v, %v", res, err)
				}
			}
		})
	}
	eventually(t, patient, "a load", func() bool { return answers.Load() > 200 })
	slot := slotOf(tags[moved])
	from, to := -1, -1
	for i, n := range c.Nodes[:3] {
		size, err := n.Do("CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot))
		if err != nil {
			t.Fatal(err)
		}
		if size != "0" {
			from, to = i, (i+1)%3
		}
	}
	if err := c.Move(slot, c.Nodes[from], c.Nodes[to]); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*patient, "a new incarnation", func() bool { return view.Load().Incarnation != st.Incarnation })
	before := answers.Load()
	eventually(t, 2*patient, "answers in it", func() bool { return answers.Load() > before+200 })
	stop.Store(true)
	wg.Wait()
	now := state(t, s)
	for i, k := range keys {
		var admitted, unknown int64
		for incarnation, counts := range seen {
			// The record that moved is void, the others go on.
			if incarnation == now.Incarnation || partitionOf(k) != moved {
				admitted += counts[i].admitted.Load()
			}
			unknown += counts[i].unknown.Load()
		}
		level := take(t, s, of(now, ask(k, 0, share))).Verdicts[0].Level
		spent := int64(burst - level/quota.Whole(1))
		if spent < admitted || spent > admitted+unknown {
			t.Errorf("%s: %d admitted, %d of unknown outcome, %d spent", k, admitted, unknown, spent)
		}
	}
}

// One gauge and one line tell of all breakers of a cluster, and end with the last.
func TestOneGaugeForAllBreakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		reg := prometheus.NewRegistry()
		s := &Store{cfg: Config{Probe: time.Second}, metrics: newMetrics(reg), log: slog.New(slog.NewTextHandler(&log, nil))}
		gauge := func(want float64) {
			t.Helper()
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if have := f.GetMetric()[0].GetGauge().GetValue(); f.GetName() == "quorate_store_breaker_open" && have != want {
					t.Errorf("gauge: want %v, have %v", want, have)
				}
			}
		}
		down := errors.New("down")
		a, b := s.newBreaker(), s.newBreaker()
		for range tripAfter {
			_, _ = a.Execute(func() (struct{}, error) { return struct{}{}, down })
			_, _ = b.Execute(func() (struct{}, error) { return struct{}{}, down })
		}
		gauge(1)
		time.Sleep(2 * s.cfg.Probe)
		up := func() (struct{}, error) { return struct{}{}, nil }
		if _, err := a.Execute(up); err != nil {
			t.Fatal(err)
		}
		gauge(1)
		if _, err := b.Execute(up); err != nil {
			t.Fatal(err)
		}
		gauge(0)
		if have := fmt.Sprint(strings.Count(log.String(), "does not answer"), strings.Count(log.String(), "answers again")); have != "1 1" {
			t.Errorf("lines: have %s\n%s", have, &log)
		}
	})
}
