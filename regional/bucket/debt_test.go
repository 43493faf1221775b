package bucket

import (
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// A debt is paid by the refill of whatever is in force, or by a credit, and by nothing
// else: each case leaves a bucket at -8 on a lease of 10 a second, burst 10, beside a
// standing share of 1 a second, burst 1, and says what is left of it.
func TestDebtsAreNotShed(t *testing.T) {
	leased, share := per(10, second, 10), full(per(1, second, 1))
	const key = "k"
	st := share // while the debt is made
	apply := func(t *testing.T, s *Store, at quota.Micros, a quota.Assignment) quota.Applied {
		t.Helper()
		a.Key = key
		answer, err := s.Apply(at, "one", ApplyAsk{Assignment: a, Standing: st})
		if err != nil && a.Lend == 0 {
			t.Fatal(err)
		}
		return answer
	}
	renew := func(t *testing.T, s *Store, session quota.SessionID, deadline quota.Micros) {
		t.Helper()
		if err := s.Renew(start, "one", session, deadline); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		reason string
		what   func(t *testing.T, s *Store)
		at     quota.Micros // when the level is read
		share  Standing
		level  string
	}{
		{"a smaller lease carries it over and surrenders nothing", func(t *testing.T, s *Store) {
			if a := apply(t, s, start, quota.Assignment{Session: 1, Epoch: 2, Lease: per(2, second, 2)}); a.Surrendered != 0 {
				t.Errorf("surrendered %v", a.Surrendered)
			}
		}, second, share, "-6"},
		{"a new epoch of the same lease", func(t *testing.T, s *Store) {
			apply(t, s, start, quota.Assignment{Session: 1, Epoch: 2, Lease: leased})
		}, 0, share, "-8"},
		{"a credit pays it", func(t *testing.T, s *Store) {
			apply(t, s, start, quota.Assignment{Session: 1, Epoch: 2, Lease: leased, Credit: 3 * quota.Token})
		}, 0, share, "-5"},
		{"a release leaves it to the share", func(t *testing.T, s *Store) {
			if a := apply(t, s, start, quota.Assignment{Session: 1, Epoch: 2, Release: true}); a.Surrendered != 0 {
				t.Errorf("surrendered %v", a.Surrendered)
			}
		}, 3 * second, share, "-5"},
		{"a lease after a release begins with it", func(t *testing.T, s *Store) {
			apply(t, s, start, quota.Assignment{Session: 1, Epoch: 2, Release: true})
			apply(t, s, start, quota.Assignment{Session: 1, Epoch: 3, Lease: leased})
		}, 0, share, "-8"},
		{"the session ends, and the share pays", func(_ *testing.T, s *Store) { s.Drop(1) }, 3 * second, share, "-5"},
		{"the deadline passes", func(_ *testing.T, s *Store) { s.State(start + minute) }, 3 * second, share, "-5"},
		{"another session begins", func(t *testing.T, s *Store) { renew(t, s, 2, start+minute) }, 3 * second, share, "-5"},
		{"a lease of another session", func(t *testing.T, s *Store) {
			renew(t, s, 2, start+minute)
			apply(t, s, start, quota.Assignment{Session: 2, Epoch: 1, Lease: leased})
		}, 0, share, "-8"},
		{"the share is lent: it pays when it is back", func(t *testing.T, s *Store) {
			apply(t, s, start, quota.Assignment{Session: 1, Epoch: 2, Release: true, Lease: quota.Capacity{Rate: quota.Rate{Per: second}}, Lend: 10 * time.Second})
		}, 13 * second, share, "-5"},
		{"the region's share grows later", func(_ *testing.T, s *Store) { s.Drop(1) }, 3 * second,
			Standing{Capacity: per(2, second, 20), Base: quota.Whole(20), Since: start + second}, "-4"},
		{"there is no share: nothing pays", func(_ *testing.T, s *Store) { s.Drop(1) }, 365 * day, Standing{}, "-8"},
		{"the record outlives it on the lease", func(_ *testing.T, s *Store) { s.Sweep(start + 1800*second) }, 0, share, "-8"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			st = share
			if tc.share == (Standing{}) {
				st = tc.share
			}
			s := region()
			renew(t, s, 1, start+minute)
			apply(t, s, start, quota.Assignment{Session: 1, Epoch: 1, Lease: leased, Credit: leased.Burst})
			if v := take(s, start, owing(key, 18, 8, st)); !v.Admitted || v.Level.String() != "-8" {
				t.Fatalf("have %+v", v)
			}
			tc.what(t, s)
			if v := take(s, start+tc.at, ask(key, 0, tc.share)); v.Level.String() != tc.level {
				t.Errorf("have %v, want %s", v.Level, tc.level)
			}
			// Whoever sweeps at any time finds no better bucket without the record.
			with, without := s.Clone(), s.Clone()
			for _, at := range []quota.Micros{second, 5 * second, minute, 3600 * second, 30 * day} {
				without.Sweep(start + tc.at + at)
				a, b := take(with, start+tc.at+at, ask(key, 0, tc.share)), take(without, start+tc.at+at, ask(key, 0, tc.share))
				if b.Level > a.Level {
					t.Errorf("%d us later: %v with the record and %v without", at, a.Level, b.Level)
				}
			}
		})
	}
}

// The one way to lose a debt is to lose the store.
func TestALostStoreForgetsDebts(t *testing.T) {
	s := region()
	share := full(per(1, second, 10))
	take(s, start, owing("k", 14, 8, share))
	s.Incarnate(start, "two")
	if v := take(s, start, ask("k", 0, Standing{Capacity: share.Capacity, Since: start})); v.Level != 0 {
		t.Errorf("have %v, want what a missing record means", v.Level)
	}
}
