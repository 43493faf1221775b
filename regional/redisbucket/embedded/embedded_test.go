package embedded

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTheBasicScenario runs every operation once: the scripts are the ones of a
// real Redis.
func TestTheBasicScenario(t *testing.T) {
	ctx := context.Background()
	server, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s, err := redisbucket.New(server.Config(redisbucket.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing is kept

	st, err := s.State(ctx)
	if err != nil || st.Incarnation == "" {
		t.Fatalf("state: %+v %v", st, err)
	}
	if err := errors.Join(
		s.MarkFirst(ctx, st.Incarnation),
		s.Adopt(ctx, st.Incarnation, 4, []byte("rules")),
		s.Renew(ctx, st.Incarnation, 9, st.Now+60*quota.Second),
	); err != nil {
		t.Fatal(err)
	}
	if st, err = s.State(ctx); err != nil || !st.First || st.Config != 4 || st.Session != 9 {
		t.Fatalf("state: %+v %v", st, err)
	}
	if cur, prev, err := s.Config(ctx); err != nil || string(cur.Blob) != "rules" || prev.Version != 0 {
		t.Fatalf("config: %+v %+v %v", cur, prev, err)
	}

	share := bucket.Standing{
		Capacity: quota.Capacity{Rate: quota.Rate{Tokens: quota.Token, Per: 86400 * quota.Second}, Burst: quota.Whole(3)},
		Base:     quota.Whole(3),
	}
	take := func(cost uint64, want bool, holding bucket.Holding, level quota.Tokens) {
		t.Helper()
		res, err := s.Take(ctx, enforce.Take{Incarnation: st.Incarnation, Config: 4, Asks: []bucket.Ask{{Key: "k", Cost: quota.Whole(cost), Standing: share}}})
		if err != nil {
			t.Fatal(err)
		}
		v := res.Verdicts[0]
		if res.Admitted != want || v.Holding != holding || v.Level < level || v.Level > level+quota.Token/100 {
			t.Fatalf("want %v on %v with %v, have %+v", want, holding, level, v)
		}
	}
	take(2, true, bucket.OnStanding, quota.Whole(1))
	take(2, false, bucket.OnStanding, quota.Whole(1))
	lease := share.Capacity
	lease.Burst = quota.Whole(20)
	applied, err := s.Apply(ctx, st.Incarnation, []bucket.ApplyAsk{{
		Assignment: quota.Assignment{Key: "k", Session: 9, Epoch: 1, Lease: lease, Credit: quota.Whole(10)}, Standing: share,
	}})
	if err != nil || len(applied) != 1 {
		t.Fatalf("apply: %+v %v", applied, err)
	}
	take(5, true, bucket.OnLease, quota.Whole(6))
	fast := bucket.Standing{Capacity: quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(1000), Per: quota.Second}, Burst: quota.Whole(1000)}, Base: quota.Whole(1000)}
	hot := bucket.Ask{Key: "hot", Cost: quota.Token, Ahead: quota.Whole(50), Standing: fast}
	res, err := s.Take(ctx, enforce.Take{Incarnation: st.Incarnation, Config: 4, Asks: []bucket.Ask{hot}})
	if want := (bucket.Grant{Tokens: quota.Whole(50), Span: bucket.DrawSpan}); err != nil || res.Verdicts[0].Grant != want {
		t.Fatalf("drawn ahead: want %+v, have %+v %v", want, res, err)
	}
	if rec, ok, err := s.Read(ctx, "hot"); err != nil || !ok || rec.Drawn != quota.Whole(50) || rec.DrawnUntil != res.Now+bucket.DrawSpan {
		t.Fatalf("drawn ahead: have %+v %v %v", rec, ok, err)
	}
	if err := s.Charge(ctx, st.Incarnation, []bucket.Charge{{Key: "k", Tokens: quota.Whole(8), Standing: share}}); err != nil {
		t.Fatal(err)
	}
	take(0, true, bucket.OnLease, -quota.Whole(2))
	if err := s.Drop(ctx, 9); err != nil {
		t.Fatal(err)
	}
	take(0, true, bucket.OnStanding, -quota.Whole(2))
	if rec, ok, err := s.Read(ctx, "k"); err != nil || !ok || rec.Epoch != 1 {
		t.Fatalf("read: %+v %v %v", rec, ok, err)
	}
}

// The scripts of sliding windows run in the embedded store, too.
func TestSlidingWindows(t *testing.T) {
	ctx := context.Background()
	server, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s, err := redisbucket.New(server.Config(redisbucket.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing is kept
	st, err := s.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for key, kind := range map[quota.Key]bucket.Window{"log": bucket.LogWindow, "counter": bucket.CounterWindow} {
		share := bucket.Standing{Capacity: quota.Capacity{Rate: quota.Rate{Per: 3600 * quota.Second}, Burst: quota.Whole(100)}, Base: quota.Whole(100), Window: kind}
		for i := range 101 {
			res, err := s.Take(ctx, enforce.Take{Incarnation: st.Incarnation, Asks: []bucket.Ask{{Key: key, Cost: quota.Token, Standing: share}}})
			if err != nil || res.Admitted != (i < 100) {
				t.Fatalf("%s: request %d: have %v, %v", key, i, res.Admitted, err)
			}
			if v := res.Verdicts[0]; i == 100 && (v.Retry <= 0 || kind == bucket.LogWindow && v.Retry > 3600*quota.Second) {
				t.Errorf("%s: have %+v", key, v)
			}
		}
	}
}
