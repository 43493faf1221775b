package redisbucket

import (
	"context"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// A place that is given back is free again if it is one of the last, and nobody else's
// ever is: no window has more than its limit of what was admitted for good.
func TestRefundsOfPlacesKeepTheLimit(t *testing.T) {
	ctx := context.Background()
	s, err := open(Config{URL: shared.URL(), ServerID: "refunds", Prefix: newPrefix(), Timeout: patient, DialTimeout: patient, Budget: patient}, withTestClock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	now := 1000 * quota.Second
	tick := func(t failing) {
		if _, err := shared.Do("HSET", "test:clock", "s", strconv.Itoa(int(now/quota.Second)), "us", strconv.Itoa(int(now%quota.Second))); err != nil {
			t.Fatal(err)
		}
	}
	tick(t)
	st := state(t, s)
	give := &script{name: "refund", source: withTestClock(preludeSource + bucketSource + windowSource + refundSource)}
	given := 0
	rapid.Check(t, func(t *rapid.T) {
		key := quota.Key(newPrefix())
		share := full(per(0, quota.Second, 10))
		share.Window = bucket.LogWindow
		type charge struct {
			at quota.Micros
			n  quota.Tokens
		}
		var admitted, open []charge
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += quota.Second / 20 * quota.Micros(rapid.IntRange(0, 4).Draw(t, "wait"))
			tick(t)
			n := rapid.Uint64Range(1, 4).Draw(t, "tokens")
			switch step := rapid.IntRange(0, 3).Draw(t, "step"); {
			case step <= 1: // 0: for good, 1: to be given back
				res := take(t, s, of(st, ask(key, n, share)))
				switch {
				case !res.Admitted:
				case step == 0:
					admitted = append(admitted, charge{now, quota.Whole(n)})
				default:
					open = append(open, charge{now, quota.Whole(n)})
				}
			case len(open) > 0:
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				c := open[i]
				open = append(open[:i], open[i+1:]...)
				was := take(t, s, of(st, ask(key, 0, share))).Verdicts[0].Level
				argv := append([]any{st.Incarnation, st.Config, int64(c.n), int64(bucket.ModeStanding)}, standingWords(share)...)
				if _, err := runInts(ctx, s.client.Load(), give, append([]any{"eval", give.source, 2, s.stateKey, s.bucketKey(key)},
					append(argv, 0, int64(c.at), 0)...)); err != nil {
					t.Fatal(err)
				}
				is := take(t, s, of(st, ask(key, 0, share))).Verdicts[0].Level
				if is != was && is != was+c.n {
					t.Fatalf("a refund of %v took the level from %v to %v", c.n, was, is)
				}
				if is > was {
					given++
				}
			}
		}
		for i := range admitted {
			sum := quota.Tokens(0)
			for _, e := range admitted[i:] {
				if e.at < admitted[i].at+quota.Second {
					sum += e.n
				}
			}
			if sum > quota.Whole(10) {
				t.Fatalf("%v admitted within a window: %+v", sum, admitted)
			}
		}
	})
	if given == 0 {
		t.Error("nothing was given back")
	}
}

func testClusterWindows(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	st := connected(t, s)
	keys := apart(2)
	for _, kind := range []bucket.Window{bucket.LogWindow, bucket.CounterWindow} {
		window := func(key quota.Key, cost, limit uint64) bucket.Ask {
			share := full(per(0, day, limit))
			share.Window, share.Config = kind, st.Config
			return ask(key+quota.Key(strconv.Itoa(int(kind))), cost, share)
		}
		wide, narrow := keys[0], keys[1]
		for i, want := range []bool{true, true, false, false, false} {
			res := take(t, s, of(st, window(wide, 1, 10), window(narrow, 1, 2)))
			if res.Admitted != want {
				t.Errorf("kind %d: request %d: have %v", kind, i, res.Admitted)
			}
		}
		if have := take(t, s, of(st, window(wide, 0, 10))).Verdicts[0].Level; have != quota.Whole(8) {
			t.Errorf("kind %d: what denied requests occupied is given back: have %v left, want 8", kind, have)
		}
		// A lease takes what the share has occupied.
		a := window(wide, 0, 10)
		lease := bucket.ApplyAsk{Assignment: quota.Assignment{Key: a.Key, Session: 5, Epoch: 1, Lease: per(0, day, 1)}, Standing: a.Standing}
		applied, err := s.Apply(t.Context(), st.Incarnation, []bucket.ApplyAsk{lease})
		if err != nil || applied[0].Surrendered != quota.Whole(8) {
			t.Errorf("kind %d: have %+v, %v", kind, applied, err)
		}
		if err := s.Charge(t.Context(), st.Incarnation, []bucket.Charge{{Key: a.Key, Tokens: quota.Whole(3), Standing: a.Standing}}); err != nil {
			t.Fatal(err)
		}
		if have := take(t, s, of(st, a)).Verdicts[0]; have.Level != -quota.Whole(4) || have.Capacity.Burst != quota.Whole(1) || have.Holding != bucket.OnLease {
			t.Errorf("kind %d: have %+v", kind, have)
		}
	}
}
