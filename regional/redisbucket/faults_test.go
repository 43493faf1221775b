package redisbucket

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// A reply that never comes leaves the outcome unknown: the script has run once,
// and nobody sends it again.
func TestK58ALostReplyMeansExactlyOneExecution(t *testing.T) {
	lease := per(1, 86400*quota.Second, 100)
	for _, tc := range []struct {
		name string
		do   func(s *Store, st bucket.State) error
		want quota.Tokens
	}{
		{"take", func(s *Store, st bucket.State) error {
			_, err := s.Take(context.Background(), of(st, ask("k", 1, full(lease))))
			return err
		}, quota.Whole(99)},
		{"charge", func(s *Store, st bucket.State) error {
			return s.Charge(context.Background(), st.Incarnation, []bucket.Charge{{Key: "k", Tokens: quota.Whole(1), Standing: full(lease)}})
		}, quota.Whole(99)},
		{"apply in a pipeline", func(s *Store, st bucket.State) error {
			a := quota.Assignment{Key: "k", Session: 5, Epoch: 1, Lease: per(1, 86400*quota.Second, 200), Credit: quota.Whole(10)}
			_, err := s.Apply(context.Background(), st.Incarnation, []bucket.ApplyAsk{{Assignment: a, Standing: full(lease)}})
			return err
		}, quota.Whole(110)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := redistest.Run(t)
			p := newProxy(t, r.Addr())
			s := openAt(t, p.url(), nil)
			st := connected(t, s)
			before := p.calls.Load()
			p.swallow.Store(true)
			if err := tc.do(s, st); !errors.Is(err, enforce.ErrStoreDown) {
				t.Fatalf("want %v, have %v", enforce.ErrStoreDown, err)
			}
			if sent := p.calls.Load() - before; sent != 1 {
				t.Errorf("scripts sent: want 1, have %d", sent)
			}
			rec, ok, err := s.Read(context.Background(), "k")
			if err != nil || !ok || rec.Level != tc.want {
				t.Errorf("level: want %v, have %v %v %v", tc.want, rec.Level, ok, err)
			}
		})
	}
}

func TestK51ScriptFlushMidRun(t *testing.T) {
	r := redistest.Run(t)
	s := openAt(t, r.URL(), nil)
	st := connected(t, s)
	share := full(per(1, 86400*quota.Second, 100))
	for i := range 50 {
		if i%10 == 5 {
			if _, err := r.Do("SCRIPT", "FLUSH"); err != nil {
				t.Fatal(err)
			}
		}
		if res := take(t, s, of(st, ask("k", 1, share))); !res.Admitted || res.Verdicts[0].Level != quota.Whole(uint64(99-i)) {
			t.Fatalf("take %d: have %+v", i, res)
		}
	}
	if _, err := r.Do("SCRIPT", "FLUSH"); err != nil {
		t.Fatal(err)
	}
	var asks []bucket.ApplyAsk
	for i := range 20 {
		key := quota.Key(fmt.Sprintf("p%d", i))
		asks = append(asks, bucket.ApplyAsk{Assignment: quota.Assignment{Key: key, Session: 5, Epoch: 1, Lease: share.Capacity}, Standing: share})
	}
	applied, err := s.Apply(context.Background(), st.Incarnation, asks)
	if err != nil || len(applied) != len(asks) {
		t.Errorf("a pipeline after a flush: want %d applied, have %d, %v", len(asks), len(applied), err)
	}
	if _, err := r.Do("SCRIPT", "FLUSH"); err != nil {
		t.Fatal(err)
	}
	state(t, s)
}

func TestK55TheDeadlineOfTheContextWins(t *testing.T) {
	p := newProxy(t, shared.Addr())
	s := openAt(t, p.url(), nil)
	st := state(t, s)
	p.delay.Store(int64(200 * time.Millisecond))
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := s.Take(ctx, of(st, ask("k", 1, full(per(1, quota.Second, 1)))))
	took := time.Since(began)
	if !errors.Is(err, enforce.ErrStoreDown) || took > 120*time.Millisecond {
		t.Errorf("want %v at about 25 ms, have %v after %v", enforce.ErrStoreDown, err, took)
	}
}

func TestAPausedServerFailsFastAndRecovers(t *testing.T) {
	r := redistest.Run(t)
	s := openAt(t, r.URL(), func(c *Config) { c.Timeout, c.DialTimeout = 0, 0 }) // the defaults
	st := state(t, s)
	t1 := of(st, ask("k", 1, full(per(1000, quota.Second, 1000))))
	take(t, s, t1)
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range tripAfter {
		wg.Go(func() { _, _ = s.Take(context.Background(), t1) })
	}
	wg.Wait()
	began := time.Now()
	for range 100 {
		if _, err := s.Take(context.Background(), t1); !errors.Is(err, enforce.ErrStoreDown) {
			t.Fatalf("want %v, have %v", enforce.ErrStoreDown, err)
		}
	}
	// A hundred waits of 100 ms would be ten seconds; a probe or two may wait.
	if took := time.Since(began); took > time.Second {
		t.Errorf("100 calls to a paused server took %v", took)
	}
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	eventually(t, 5*time.Second, "an answer after the server is back", func() bool {
		_, err := s.Take(context.Background(), t1)
		return err == nil
	})
	t.Logf("recovered after %v", time.Since(began))
}

// K56: Redis hangs at full load. Callers are turned away within their budget, and
// nothing piles up behind it: no goroutines, no connections.
func TestK56APausedServerPilesNothingUp(t *testing.T) {
	const workers, calls, pool = 64, 300, 8
	r := redistest.Run(t)
	s := openAt(t, r.URL(), func(c *Config) { c.Timeout, c.DialTimeout, c.Budget, c.PoolSize = 0, 0, 0, pool }) // the defaults
	share := full(per(1, 86400*quota.Second, 1_000_000))
	t1 := of(state(t, s), ask("k", 1, share))
	var wg sync.WaitGroup
	var most, admitted atomic.Int64
	before := int64(runtime.NumGoroutine())
	looks := t1
	looks.Asks = []bucket.Ask{ask("k", 0, share)}
	run := func(n int) {
		for range workers {
			wg.Go(func() {
				for range n {
					if res, err := s.Take(context.Background(), t1); err == nil && res.Admitted {
						admitted.Add(1)
					} else if !errors.Is(err, enforce.ErrStoreDown) {
						t.Errorf("want %v, have %v", enforce.ErrStoreDown, err)
					}
					if now := int64(runtime.NumGoroutine()); now > most.Load() {
						most.Store(now)
					}
				}
			})
		}
		wg.Wait()
	}
	run(20)
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	run(calls)
	// Each caller's deadline may be firing, and a dial for each connection be on its way.
	if have, limit := most.Load()-before, int64(2*workers+2*pool+8); have > limit {
		t.Errorf("%d goroutines more, want at most %d", have, limit)
	}
	if have := s.client.Load().PoolStats().TotalConns; have > pool {
		t.Errorf("%d connections, want at most %d", have, pool)
	}
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "an answer after the server is back", func() bool {
		_, err := s.Take(context.Background(), looks)
		return err == nil
	})
	// What was sent without an answer may have been executed; nothing else was.
	v := take(t, s, looks).Verdicts[0]
	spent := int64(1_000_000 - v.Level/quota.Whole(1))
	if spent < admitted.Load() || spent > admitted.Load()+workers*(20+calls) {
		t.Errorf("%d were admitted, %d are spent", admitted.Load(), spent)
	}
	t.Logf("%d admitted, %d spent; %d goroutines more", admitted.Load(), spent, most.Load()-before)
}

func TestK60StartsBeforeItsRedis(t *testing.T) {
	r := redistest.Run(t)
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, r.URL(), nil)
	if _, err := s.State(context.Background()); !errors.Is(err, enforce.ErrStoreDown) {
		t.Fatalf("want %v, have %v", enforce.ErrStoreDown, err)
	}
	if err := r.Restart(false); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "a state once the server is there", func() bool {
		st, err := s.State(context.Background())
		return err == nil && st.Incarnation != ""
	})
}

func TestOutOfMemoryRefusesBeforeItRuns(t *testing.T) {
	r := redistest.Run(t)
	s := openAt(t, r.URL(), nil)
	st := connected(t, s)
	share := full(per(1, 86400*quota.Second, 10))
	take(t, s, of(st, ask("k", 1, share), ask("l", 1, share)))
	if _, err := r.Do("CONFIG", "SET", "maxmemory", "1"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Take(context.Background(), of(st, ask("k", 1, share), ask("l", 1, share)))
	if !errors.Is(err, enforce.ErrStoreDown) || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("want an OOM refusal, have %v", err)
	}
	if _, err := r.Do("CONFIG", "SET", "maxmemory", "0"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []quota.Key{"k", "l"} {
		if rec, _, err := s.Read(context.Background(), key); err != nil || rec.Level != quota.Whole(9) {
			t.Errorf("%s: want 9 left, have %v %v", key, rec.Level, err)
		}
	}
}

// K54: a fail-over behind one address. The old connections stay healthy, to a
// server that is a replica now.
func TestK54OldConnectionsAreGivenUpAfterAFailOver(t *testing.T) {
	for _, tc := range []struct {
		reason string
		call   func(s *Store, t enforce.Take) error
	}{
		{"decisions notice", func(s *Store, t enforce.Take) error {
			_, err := s.Take(context.Background(), t)
			if errors.Is(err, enforce.ErrStale) {
				_, err = s.State(context.Background())
			}
			return err
		}},
		{"the sync loop notices", func(s *Store, _ enforce.Take) error {
			_, err := s.State(context.Background())
			return err
		}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			a, b := redistest.Run(t), redistest.Run(t)
			if err := b.ReplicaOf(a); err != nil {
				t.Fatal(err)
			}
			p := newProxy(t, a.Addr())
			s := openAt(t, p.url(), func(c *Config) { c.CheckEvery, c.PoolSize = time.Millisecond, 30 })
			st := connected(t, s)
			t1 := of(st, ask("k", 1, full(per(1000, quota.Second, 1000))))
			// Load that has filled the pool.
			p.delay.Store(int64(20 * time.Millisecond))
			var wg sync.WaitGroup
			for range 30 {
				wg.Go(func() { _, _ = s.Take(context.Background(), t1) })
			}
			wg.Wait()
			p.delay.Store(0)

			if err := b.ReplicaOf(nil); err != nil {
				t.Fatal(err)
			}
			if err := a.ReplicaOf(b); err != nil {
				t.Fatal(err)
			}
			addr := b.Addr()
			p.backend.Store(&addr)
			began := time.Now()
			eventually(t, 2*time.Second, "the new primary answers", func() bool {
				err := tc.call(s, t1)
				if err != nil && !errors.Is(err, enforce.ErrStoreDown) {
					t.Fatalf("want %v meanwhile, have %v", enforce.ErrStoreDown, err)
				}
				return err == nil
			})
			t.Logf("recovered after %v", time.Since(began))
			now := state(t, s)
			if now.Incarnation == st.Incarnation || now.Session != 0 || s.Replaced() != st.Incarnation {
				t.Errorf("have %+v in place of %s, replaced %q", now, st.Incarnation, s.Replaced())
			}
			take(t, s, of(now, ask("k", 1, full(per(1000, quota.Second, 1000)))))
		})
	}
}

func TestK54ADemotedServerIsRefusedUntilItIsPrimaryAgain(t *testing.T) {
	a, b := redistest.Run(t), redistest.Run(t)
	s := openAt(t, a.URL(), nil)
	st := state(t, s)
	t1 := of(st, ask("k", 1, full(per(1000, quota.Second, 1000))))
	take(t, s, t1)
	if err := a.ReplicaOf(b); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.Take(context.Background(), t1); !errors.Is(err, enforce.ErrStoreDown) {
			t.Fatalf("on a replica: want %v, have %v", enforce.ErrStoreDown, err)
		}
	}
	if err := a.ReplicaOf(nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Second, "a new incarnation on the promoted server", func() bool {
		now, err := s.State(context.Background())
		return err == nil && now.Incarnation != st.Incarnation
	})
	if s.Replaced() != st.Incarnation {
		t.Errorf("replaced: want %s, have %s", st.Incarnation, s.Replaced())
	}
}
