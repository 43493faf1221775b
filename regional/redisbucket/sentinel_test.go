package redisbucket

import (
	"context"
	"errors"
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

// load asks without end for one key, as an agent does: a stale answer makes it
// read the state again. It counts calls, and keeps the longest one.
type load struct {
	s       *Store
	ask     func() bucket.Ask
	view    atomic.Pointer[bucket.State]
	longest atomic.Int64 // nanoseconds of a take
	answers atomic.Int64
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

func startLoad(tb testing.TB, s *Store, workers int, next func() bucket.Ask) *load {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{s: s, ask: next, stop: cancel}
	st := state(tb, s)
	l.view.Store(&st)
	for range workers {
		l.wg.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				_, err := s.Take(ctx, of(*l.view.Load(), l.ask()))
				took := int64(time.Since(began))
				for was := l.longest.Load(); took > was && !l.longest.CompareAndSwap(was, took); was = l.longest.Load() {
				}
				switch {
				case err == nil:
					l.answers.Add(1)
				case errors.Is(err, enforce.ErrStale):
					if st, err := s.State(ctx); err == nil {
						l.view.Store(&st)
					}
				case errors.Is(err, enforce.ErrStoreDown):
					// A request that is decided by its policy takes a moment, too.
					select {
					case <-ctx.Done():
					case <-time.After(time.Millisecond):
					}
				default:
					tb.Errorf("take: %v", err)
				}
			}
		})
	}
	tb.Cleanup(l.end)
	return l
}

func (l *load) end() { l.stop(); l.wg.Wait() }

// primaryAgain waits until a server says that it is one, and returns when.
func primaryAgain(tb testing.TB, r *redistest.Server) time.Time {
	tb.Helper()
	eventually(tb, 15*time.Second, "a new primary", func() bool {
		role, err := r.Do("ROLE")
		return err == nil && strings.HasPrefix(role, "master")
	})
	return time.Now()
}

// K54: sentinels replace the primary under load, once because it died and once
// because an operator said so. Calls answer within their budget meanwhile, and
// the new primary is another incarnation.
func TestK54SentinelsReplaceThePrimary(t *testing.T) {
	share := full(per(1_000_000, quota.Second, 1_000_000))
	for _, tc := range []struct {
		reason string
		happen func(w *redistest.Watched) error
	}{
		{"the primary dies", func(w *redistest.Watched) error { return w.Servers[0].Kill() }},
		{"an operator replaces it", func(w *redistest.Watched) error {
			_, err := w.Sentinels[0].Do("SENTINEL", "FAILOVER", w.Name)
			return err
		}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := redistest.RunSentinels(t, 1, 3)
			s := openAt(t, w.URL(), func(c *Config) { c.Timeout, c.DialTimeout, c.Budget, c.PoolSize = 0, 0, 0, 8 }) // the defaults
			var st bucket.State
			eventually(t, 10*time.Second, "a state", func() bool {
				var err error
				st, err = s.State(context.Background())
				return err == nil
			})
			st = connected(t, s)
			a := quota.Assignment{Key: "k", Session: 5, Epoch: 1, Lease: share.Capacity}
			if _, err := s.Apply(context.Background(), st.Incarnation, []bucket.ApplyAsk{{Assignment: a, Standing: share}}); err != nil {
				t.Fatal(err)
			}
			l := startLoad(t, s, 16, func() bucket.Ask { return ask("k", 1, share) })
			if err := tc.happen(w); err != nil {
				t.Fatal(err)
			}
			promoted := primaryAgain(t, w.Servers[1])
			eventually(t, 15*time.Second, "the sentinels name it", func() bool {
				p, err := w.Primary()
				return err == nil && p == w.Servers[1]
			})
			named := time.Now()
			eventually(t, 15*time.Second, "an answer of the new primary", func() bool {
				return l.view.Load().Incarnation != st.Incarnation && l.view.Load().Incarnation != ""
			})
			t.Logf("served again %v after the new primary knew that it is one and %v after the sentinels named it; the longest call took %v",
				time.Since(promoted).Round(time.Millisecond), time.Since(named).Round(time.Millisecond), time.Duration(l.longest.Load()).Round(time.Millisecond))
			before := l.answers.Load()
			eventually(t, 10*time.Second, "answers go on", func() bool { return l.answers.Load() > before+100 })
			l.end()
			// The budget is 25 ms; the rest is a busy machine.
			if have := time.Duration(l.longest.Load()); have > 2*time.Second {
				t.Errorf("a call took %v", have)
			}
			now := state(t, s)
			if now.Session != 0 || now.First || s.Replaced() != st.Incarnation {
				t.Errorf("have %+v in place of %s, replaced %q", now, st.Incarnation, s.Replaced())
			}
			if v := take(t, s, of(now, ask("k", 0, share))).Verdicts[0]; v.Holding != bucket.OnStanding {
				t.Errorf("the lease is void: have %+v", v)
			}
		})
	}
}
