package redisbucket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// held returns a store whose server answers only after release, with a take on
// each lane that waits for it: whatever is asked meanwhile has to queue.
func held(t *testing.T, r *redistest.Server) (s *Store, st bucket.State, release func()) {
	t.Helper()
	s = openAt(t, r.URL(), nil)
	st = connected(t, s)
	return s, st, hold(t, r, s, st)
}

// hold is held for a store that is open.
func hold(t *testing.T, r *redistest.Server, s *Store, st bucket.State) (release func()) {
	t.Helper()
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	share := full(per(1000, quota.Second, 1000))
	for i := range s.lanes {
		l := &s.lanes[i]
		wg.Go(func() {
			w := newWaiter().(*waiter)
			w.asks = []bucket.Ask{ask(quota.Key(fmt.Sprintf("first-%d", i)), 1, share)}
			if err := l.join(s, uint64(i), st.Incarnation, st.Config, w); err != nil {
				t.Error(err)
				return
			}
			<-w.done
			if w.err != nil {
				t.Error(w.err)
			}
		})
		eventually(t, patient, "the first take is on its way", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.busy && len(l.queue) == 0
		})
	}
	return func() {
		t.Helper()
		if err := r.Resume(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
}

// queued waits until n requests wait in the lanes of s.
func queued(t *testing.T, s *Store, n int) {
	t.Helper()
	eventually(t, patient, fmt.Sprintf("%d requests wait", n), func() bool {
		have := 0
		for i := range s.lanes {
			l := &s.lanes[i]
			l.mu.Lock()
			have += l.waiting
			l.mu.Unlock()
		}
		return have == n
	})
}

// What waits while a flush is under way shares the next one: one script call for
// each lane, whatever the keys are.
func TestWhatWaitsSharesACall(t *testing.T) {
	r := redistest.Run(t)
	s, st, release := held(t, r)
	share := full(per(1, 86400*quota.Second, 10))
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			res, err := s.Take(context.Background(), of(st, ask(quota.Key(fmt.Sprintf("k%d", i%6)), 1, share)))
			if err != nil || !res.Admitted {
				t.Errorf("want admitted, have %+v, %v", res, err)
			}
		})
	}
	queued(t, s, 60)
	release()
	wg.Wait()
	// Beside one for the first take of each lane, one for each new connection, of
	// which a slow machine makes some more, and those that read and renew the session.
	if have, most := executed(t, r)["evalsha"], 60/2; have > most {
		t.Errorf("script calls: want %d at most, have %d", most, have)
	}
	for i := range 6 {
		if rec, _, err := s.Read(context.Background(), quota.Key(fmt.Sprintf("k%d", i))); err != nil || rec.Level != 0 {
			t.Errorf("key %d: want 0 left, have %v, %v", i, rec.Level, err)
		}
	}
}

// A bucket that does not have enough for all serves those who came first, and a
// small request behind a large one that is denied still gets what is left (K12).
func TestFirstComeFirstServed(t *testing.T) {
	r := redistest.Run(t)
	s, st, release := held(t, r)
	share := full(per(1, 86400*quota.Second, 10))
	costs := []uint64{3, 3, 5, 3, 1, 1}
	want := []string{"7", "4", "4 denied", "1", "0", "0 denied"}
	have := make([]string, len(costs))
	var wg sync.WaitGroup
	for i, cost := range costs {
		wg.Go(func() {
			res, err := s.Take(context.Background(), of(st, ask("k", cost, share)))
			if err != nil {
				t.Error(err)
				return
			}
			have[i] = res.Verdicts[0].Level.String()
			if !res.Admitted {
				have[i] += " denied"
			}
		})
		queued(t, s, i+1)
	}
	release()
	wg.Wait()
	if !slices.Equal(want, have) {
		t.Errorf("want %q, have %q", want, have)
	}
}

// A caller that gives up is answered at once; what has not been sent for it yet is
// not sent, and the others of its flush are served.
func TestACallerThatGivesUpLeavesTheOthers(t *testing.T) {
	r := redistest.Run(t)
	s, st, release := held(t, r)
	share := full(per(1, 86400*quota.Second, 10))
	ctx, cancel := context.WithCancel(context.Background())
	impatient := make(chan error)
	go func() {
		_, err := s.Take(ctx, of(st, ask("k", 1, share)))
		impatient <- err
	}()
	queued(t, s, 1)
	patient := make(chan enforce.TakeResult)
	go func() { patient <- take(t, s, of(st, ask("k", 1, share))) }()
	queued(t, s, 2)
	cancel()
	if err := <-impatient; !errors.Is(err, enforce.ErrStoreDown) || !errors.Is(err, context.Canceled) {
		t.Errorf("want %v and the cause, have %v", enforce.ErrStoreDown, err)
	}
	release()
	if res := <-patient; !res.Admitted || res.Verdicts[0].Level != quota.Whole(9) {
		t.Errorf("want admitted with 9 left, have %+v", res)
	}
}

func TestAFullQueueRefusesAtOnce(t *testing.T) {
	r := redistest.Run(t)
	s, st, release := held(t, r)
	share := full(per(1, 86400*quota.Second, 10))
	l := &s.lanes[0]
	l.mu.Lock()
	l.waiting += maxWaiting
	l.mu.Unlock()
	w := newWaiter().(*waiter)
	w.asks = []bucket.Ask{ask("k", 1, share)}
	if err := l.join(s, 7, st.Incarnation, st.Config, w); !errors.Is(err, enforce.ErrStoreDown) {
		t.Errorf("want %v, have %v", enforce.ErrStoreDown, err)
	}
	l.mu.Lock()
	l.waiting -= maxWaiting
	l.mu.Unlock()
	release()
	if err := l.join(s, 7, st.Incarnation, st.Config, w); err != nil {
		t.Errorf("want a place, have %v", err)
	}
	<-w.done
}

// More buckets than one call may have go in several calls of one flush; a script
// that the server has lost meanwhile is sent again for each of them, once.
func TestAFlushOfManyCallsSurvivesAScriptFlush(t *testing.T) {
	r := redistest.Run(t)
	s := openAt(t, r.URL(), nil)
	st := connected(t, s)
	if _, err := r.Do("SCRIPT", "FLUSH"); err != nil {
		t.Fatal(err)
	}
	share := full(per(1, 86400*quota.Second, 10))
	var groups []*group
	for i := range 3*maxCallBuckets + 1 {
		w := newWaiter().(*waiter)
		w.asks = []bucket.Ask{ask(quota.Key(fmt.Sprint(i)), 1, share)}
		groups = append(groups, &group{incarnation: st.Incarnation, config: st.Config, asks: w.asks, waiters: []*waiter{w}})
	}
	f := new(flusher)
	f.flush(s, groups)
	if len(f.calls) != 4 {
		t.Errorf("calls: want 4, have %d", len(f.calls))
	}
	for _, g := range groups {
		<-g.waiters[0].done
		if res, err := g.waiters[0].result(g.asks); err != nil || res.Verdicts[0].Level != quota.Whole(9) {
			t.Fatalf("%q: want 9 left, have %+v, %v", g.asks[0].Key, res, err)
		}
	}
}

// Under load nothing is admitted twice or lost: as many as the bucket holds.
func TestCrowdsGetWhatTheBucketHolds(t *testing.T) {
	s := openAt(t, shared.URL(), nil)
	st := connected(t, s)
	one, two := full(per(1, 86400*quota.Second, 500)), full(per(1, 86400*quota.Second, 300))
	var mu sync.Mutex
	var wg sync.WaitGroup
	first, both := 0, 0
	for i := range 40 {
		wg.Go(func() {
			for range 25 {
				asks := []bucket.Ask{ask("one", 1, one)}
				if i%2 == 0 {
					asks = append(asks, ask("two", 1, two))
				}
				res := take(t, s, of(st, asks...))
				mu.Lock()
				if res.Admitted && len(asks) == 1 {
					first++
				} else if res.Admitted {
					both++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	one1, _, err1 := s.Read(context.Background(), "one")
	two1, _, err2 := s.Read(context.Background(), "two")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if first+both != 500 || one1.Level != 0 || two1.Level != quota.Whole(uint64(300-both)) {
		t.Errorf("admitted %d and %d, left %v and %v", first, both, one1.Level, two1.Level)
	}
}

func TestCloseFailsWhatWaits(t *testing.T) {
	r := redistest.Run(t)
	s, err := New(Config{URL: r.URL(), Prefix: newPrefix(), Timeout: patient})
	if err != nil {
		t.Fatal(err)
	}
	st := connected(t, s)
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	take := func() {
		_, err := s.Take(context.Background(), of(st, ask("k", 1, full(per(1, quota.Second, 1)))))
		failed <- err
	}
	go take()
	eventually(t, patient, "the first take is on its way", func() bool {
		for i := range s.lanes {
			l := &s.lanes[i]
			l.mu.Lock()
			sent := l.busy && len(l.queue) == 0
			l.mu.Unlock()
			if sent {
				return true
			}
		}
		return false
	})
	go take()
	queued(t, s, 1)
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-failed; !errors.Is(err, enforce.ErrStoreDown) {
			t.Errorf("want %v, have %v", enforce.ErrStoreDown, err)
		}
	}
	if took := time.Since(began); took >= patient {
		t.Errorf("it took %v, as long as the server's silence is borne", took)
	}
	if _, err := s.Take(context.Background(), of(st)); !errors.Is(err, enforce.ErrStoreDown) {
		t.Errorf("after Close: want %v, have %v", enforce.ErrStoreDown, err)
	}
}
