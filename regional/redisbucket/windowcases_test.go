package redisbucket

import (
	"context"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// limiter is one key of a sliding window on a clock of its own: in Redis, or in the
// reference.
type limiter interface {
	set(now quota.Micros)
	take(cost uint64) (admitted bool, v bucket.Verdict)
	// life is how long the record is kept from its last write.
	life() quota.Micros
}

const sliding = quota.Key("sliding")

type inMemory struct {
	*bucket.Store
	now quota.Micros
	st  bucket.Standing
}

func (m *inMemory) set(now quota.Micros) { m.now = now }

func (m *inMemory) take(cost uint64) (bool, bucket.Verdict) {
	ok, v := m.Take(m.now, []bucket.Ask{{Key: sliding, Cost: quota.Whole(cost), Standing: m.st}})
	return ok, v[0]
}

func (m *inMemory) life() quota.Micros { return m.Life(sliding) }

type inRedis struct {
	t  *testing.T
	s  *Store
	st bucket.Standing
}

func (r *inRedis) set(now quota.Micros) {
	if err := r.s.client.Load().HSet(context.Background(), "test:clock", "s", int64(now)/1_000_000, "us", int64(now)%1_000_000).Err(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *inRedis) take(cost uint64) (bool, bucket.Verdict) {
	r.t.Helper()
	res := take(r.t, r.s, of(state(r.t, r.s), bucket.Ask{Key: sliding, Cost: quota.Whole(cost), Standing: r.st}))
	return res.Admitted, res.Verdicts[0]
}

func (r *inRedis) life() quota.Micros {
	ms, err := r.s.client.Load().HGet(context.Background(), r.s.bucketKey(sliding), "ttl").Int64()
	if err != nil {
		r.t.Fatal(err)
	}
	return quota.Micros(ms) * 1000
}

const epoch = quota.Micros(1 << 40)

// everywhere runs a case in Redis and in the reference, from epoch on.
func everywhere(t *testing.T, kind bucket.Window, limit uint64, length quota.Micros, run func(t *testing.T, l limiter)) {
	st := bucket.Standing{Capacity: quota.Capacity{Rate: quota.Rate{Per: length}, Burst: quota.Whole(limit)}, Base: quota.Whole(limit), Window: kind}
	t.Run("reference", func(t *testing.T) {
		m := &inMemory{Store: bucket.NewStore(), st: st}
		m.Incarnate(epoch, "one")
		m.set(epoch)
		run(t, m)
	})
	t.Run("redis", func(t *testing.T) {
		r := &inRedis{t: t, st: st}
		s, err := open(Config{URL: shared.URL(), Prefix: newPrefix(), ServerID: "life", Timeout: patient, DialTimeout: patient, Budget: patient}, withTestClock)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		r.s = s
		if _, err := shared.Do("HSET", "test:clock", "s", "0", "us", "0"); err != nil {
			t.Fatal(err)
		}
		r.set(epoch)
		if err := s.check(context.Background()); err != nil {
			t.Fatal(err)
		}
		run(t, r)
	})
}

// many returns how many of n takes of 1 are admitted.
func many(l limiter, n int) (admitted int) {
	for range n {
		if ok, _ := l.take(1); ok {
			admitted++
		}
	}
	return admitted
}

func TestK14HeavyThenLightCostsAreCountedAsTheyAre(t *testing.T) {
	for _, kind := range []bucket.Window{bucket.LogWindow, bucket.CounterWindow} {
		everywhere(t, kind, 10, 60*quota.Second, func(t *testing.T, l limiter) {
			for i, cost := range []uint64{8, 1, 1, 1} {
				l.set(epoch + quota.Micros(i)*quota.Second)
				if ok, _ := l.take(cost); ok != (i < 3) {
					t.Errorf("request %d of cost %d: have %v", i, cost, ok)
				}
			}
			// The heavy one leaves as a whole, and the light ones stay.
			l.set(epoch + 60*quota.Second)
			if ok, v := l.take(9); kind == bucket.LogWindow && (ok || v.Level != quota.Whole(8)) {
				t.Errorf("9 a window after the 8: have %v, %v left", ok, v.Level)
			}
		})
	}
}

func TestK15RequestsOfOneMicrosecondAllCount(t *testing.T) {
	for _, kind := range []bucket.Window{bucket.LogWindow, bucket.CounterWindow} {
		everywhere(t, kind, 19, quota.Second, func(t *testing.T, l limiter) {
			if have := many(l, 20); have != 19 {
				t.Errorf("with a clock that stands: %d admitted, want 19", have)
			}
		})
	}
	everywhere(t, bucket.LogWindow, 19, 19*quota.Second, func(t *testing.T, l limiter) {
		admitted := 0
		for i := range 1000 {
			l.set(epoch + quota.Micros(i)*18_999)
			admitted += many(l, 1)
		}
		if admitted != 19 {
			t.Errorf("a thousand in 19 s: %d admitted, want 19", admitted)
		}
	})
}

func TestK16NoBoundaryIsPassedTwice(t *testing.T) {
	const minute = 60 * quota.Second
	edge := (epoch/minute + 2) * minute
	for kind, most := range map[bucket.Window]int{bucket.LogWindow: 10, bucket.CounterWindow: 11} {
		everywhere(t, kind, 10, minute, func(t *testing.T, l limiter) {
			l.set(edge - quota.Second/10)
			first := many(l, 10)
			l.set(edge + quota.Second/10)
			if second := many(l, 10); first != 10 || first+second > most {
				t.Errorf("%d before the minute and %d after it, want 10 and no more than %d together", first, second, most)
			}
		})
	}
}

func TestK49TheLastMillisecondOfAWindowKeepsNothingAlive(t *testing.T) {
	everywhere(t, bucket.LogWindow, 10, quota.Second, func(t *testing.T, l limiter) {
		for window := range quota.Micros(5) {
			start := epoch + window*quota.Second
			l.set(start)
			if have := many(l, 12); have != 10 {
				t.Fatalf("window %d: %d admitted, want 10", window, have)
			}
			for left := range quota.Micros(5) {
				l.set(start + quota.Second - left*250 - 1)
				if have := many(l, 1); have != 0 {
					t.Fatalf("window %d: %d admitted a moment before its end", window, have)
				}
			}
			if life := l.life(); life < 2*quota.Second || life > 2*quota.Second+1000 {
				t.Fatalf("window %d: the record lives for %v more, want the window and a second", window, life.Duration())
			}
		}
	})
}

// Retry-After is the moment at which the request would be admitted, if nobody else asks.
func TestTheTimeToWaitIsExact(t *testing.T) {
	for _, kind := range []bucket.Window{bucket.LogWindow, bucket.CounterWindow} {
		everywhere(t, kind, 10, 60*quota.Second, func(t *testing.T, l limiter) {
			now := epoch
			for _, cost := range []uint64{3, 2, 4, 1} {
				now += 7 * quota.Second
				l.set(now)
				l.take(cost)
			}
			for _, cost := range []uint64{1, 4, 6, 10} {
				ok, v := l.take(cost)
				if ok || v.Never || v.Retry <= 0 {
					t.Fatalf("cost %d: have %v %+v", cost, ok, v)
				}
				l.set(now + v.Retry - 1)
				if ok, _ := l.take(cost); ok {
					t.Fatalf("cost %d is admitted before its time", cost)
				}
				now += v.Retry
				l.set(now)
				if ok, _ := l.take(cost); !ok {
					t.Fatalf("cost %d is not admitted at its time", cost)
				}
			}
			if _, v := l.take(11); !v.Never {
				t.Errorf("more than the limit: have %+v", v)
			}
		})
	}
}

func TestAClockThatStepsBackFreesNothing(t *testing.T) {
	for _, kind := range []bucket.Window{bucket.LogWindow, bucket.CounterWindow} {
		everywhere(t, kind, 10, quota.Second, func(t *testing.T, l limiter) {
			l.set(epoch + 900_000)
			many(l, 10)
			for _, at := range []quota.Micros{0, 500_000, 899_999, 1_000_000, 1_899_999} {
				l.set(epoch + at)
				if kind == bucket.LogWindow && many(l, 1) > 0 || at < 1_000_000 && many(l, 1) > 0 {
					t.Errorf("admitted at %d", at)
				}
			}
		})
	}
}

// What happens beside it does not matter: one bucket that denies takes from no window,
// and one window that denies takes from no bucket.
func TestWindowsAndBucketsAreTakenFromTogetherOrNotAtAll(t *testing.T) {
	s := openAt(t, shared.URL(), nil)
	st := connected(t, s)
	window := func(key quota.Key, limit uint64) bucket.Ask {
		a := ask(key, 1, full(per(0, 60*quota.Second, limit)))
		a.Standing.Window = bucket.LogWindow
		return a
	}
	tokens := ask("tokens", 1, full(per(1, day, 3)))
	for i, want := range []bool{true, true, false, false} { // the narrow one denies
		res := take(t, s, of(st, window("wide", 10), tokens, window("narrow", 2)))
		if res.Admitted != want {
			t.Fatalf("request %d: have %v", i, res.Admitted)
		}
	}
	tokens.Cost = quota.Whole(2)
	if res := take(t, s, of(st, window("wide", 10), tokens)); res.Admitted {
		t.Fatal("two tokens of one are admitted")
	}
	res, err := s.Take(context.Background(), enforce.Take{Incarnation: st.Incarnation, Config: st.Config, Asks: []bucket.Ask{ask("tokens", 0, full(per(1, day, 3))), func() bucket.Ask { a := window("wide", 10); a.Cost = 0; return a }()}})
	if err != nil || res.Verdicts[0].Level.Floor() != 1 || res.Verdicts[1].Level != quota.Whole(8) {
		t.Errorf("have %+v, %v", res.Verdicts, err)
	}
}
