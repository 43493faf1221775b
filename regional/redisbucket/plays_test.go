package redisbucket

import (
	"strconv"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/bucket/buckettest"
)

const playStart = 1_700_000_000 * quota.Second

// openWithClock returns a store with its own prefix, and what sets its server's
// clock, which is playStart at first.
func openWithClock(t *testing.T) (s *Store, set func(at quota.Micros)) {
	t.Helper()
	// The first connection reads the clock already.
	if _, err := shared.Do("HSET", "test:clock", "s", strconv.Itoa(int(playStart/quota.Second)), "us", "0"); err != nil {
		t.Fatal(err)
	}
	s, err := open(Config{URL: shared.URL(), Prefix: newPrefix(), ServerID: "plays", Timeout: patient, DialTimeout: patient, Budget: patient}, withTestClock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	now := playStart
	return s, func(at quota.Micros) {
		if at == now {
			return
		}
		now = at
		if err := s.client.Load().HSet(t.Context(), "test:clock", "s", int64(at/quota.Second), "us", int64(at%quota.Second)).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCases plays the cases on the scripts of a real Redis.
func TestCases(t *testing.T) {
	buckettest.Run(t, func(t *testing.T, share quota.Capacity) buckettest.Taker {
		s, set := openWithClock(t)
		st := state(t, s)
		return func(at quota.Micros, cost quota.Tokens) bucket.Verdict {
			set(playStart + at)
			res := take(t, s, of(st, bucket.Ask{Key: "k", Cost: cost, Standing: full(share)}))
			if res.Admitted != res.Verdicts[0].Admitted {
				t.Fatal("the take and its only verdict disagree")
			}
			return res.Verdicts[0]
		}
	})
}

// K81: the server's clock steps an hour, either way. No lease outlives its
// deadline because of it, and none comes back to life.
func TestK81ServersClockSteps(t *testing.T) {
	const hour = 3600 * quota.Second
	for _, tc := range []struct {
		reason string
		steps  []quota.Micros
		want   bucket.Holding
		level  quota.Tokens
	}{
		{"no step", []quota.Micros{5 * quota.Second}, bucket.OnLease, quota.Whole(50)},
		{"forward, past the deadline", []quota.Micros{hour}, bucket.OnStanding, quota.Whole(10)},
		{"forward and back: the region has seen the deadline pass", []quota.Micros{hour, 0}, bucket.OnStanding, 0},
		{"back: time stands still until the agent drops the session", []quota.Micros{-hour}, bucket.OnLease, 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s, set := openWithClock(t)
			st := state(t, s)
			if err := s.Renew(t.Context(), st.Incarnation, 5, playStart+10*quota.Second); err != nil {
				t.Fatal(err)
			}
			lease, share := per(10, quota.Second, 100), full(per(1, quota.Second, 10))
			a := quota.Assignment{Key: "k", Session: 5, Epoch: 1, Lease: lease, Credit: quota.Whole(90)}
			if _, err := s.Apply(t.Context(), st.Incarnation, []bucket.ApplyAsk{{Assignment: a, Standing: share}}); err != nil {
				t.Fatal(err)
			}
			take(t, s, of(st, ask("k", 100, share)))
			for _, at := range tc.steps {
				set(playStart + at)
				state(t, s)
			}
			if v := take(t, s, of(st, ask("k", 0, share))).Verdicts[0]; v.Holding != tc.want || v.Level != tc.level {
				t.Errorf("have holding %v with %v, want %v with %v", v.Holding, v.Level, tc.want, tc.level)
			}
		})
	}
}
