package bucket

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

// lend takes the share of k away for a minute, as the coordinator says it.
func lend(epoch quota.Epoch) quota.Assignment {
	return quota.Assignment{
		Key: "k", Session: 5, Epoch: epoch, Release: true, Lend: minute.Duration(),
		Lease: quota.Capacity{Rate: quota.Rate{Per: share.Rate.Per}},
	}
}

// back is when what is lent at the start is back.
const back = start + minute

// lender is a connected region that has lent the share of k at the start.
func lender(t *testing.T) *Store {
	t.Helper()
	s := connected(t)
	mustLend(t, s, start, lend(1))
	return s
}

// mustLend applies a loan for the first time: nobody may hear of it yet.
func mustLend(t *testing.T, s *Store, at quota.Micros, a quota.Assignment) quota.Applied {
	t.Helper()
	applied, err := s.Apply(at, "one", ApplyAsk{Assignment: a, Standing: share})
	if !errors.Is(err, ErrSettling) {
		t.Fatalf("lend: have %v, want %v", err, ErrSettling)
	}
	return applied
}

func mustRenew(t *testing.T, s *Store, at quota.Micros, session quota.SessionID, deadline quota.Micros) {
	t.Helper()
	if err := s.Renew(at, "one", session, deadline); err != nil {
		t.Fatal(err)
	}
}

func TestLendingSurrendersAndIsSaidLater(t *testing.T) {
	s := connected(t)
	take(s, start, ask("k", 4, share)) // 6 left
	want := quota.Applied{Key: "k", Session: 5, Epoch: 1, Surrendered: quota.Whole(6)}
	for _, tc := range []struct {
		reason string
		after  quota.Micros
		err    error
	}{
		{"applied, but an agent may not have read it yet", 0, ErrSettling},
		{"a repeat makes nothing of it", second, ErrSettling},
		{"the last moment", Notice - 1, ErrSettling},
		{"everybody has read it", Notice, nil},
		{"the answer stays, also after the deadline", 20 * second, nil},
		{"and when the loan is over", minute + second, nil},
	} {
		have, err := s.Apply(start+tc.after, "one", ApplyAsk{Assignment: lend(1), Standing: share})
		if have != want || !errors.Is(err, tc.err) {
			t.Errorf("%s: have %+v, %v, want %+v, %v", tc.reason, have, err, want, tc.err)
		}
		if rec, _ := s.Read("k"); rec.Away != back || rec.Level != 0 {
			t.Errorf("%s: away until %d with %v, want until %d with nothing", tc.reason, rec.Away, rec.Level, back)
		}
	}
}

// A clock that steps back makes the notice no shorter.
func TestSettlingIsByTheHighestTimeSeen(t *testing.T) {
	s := lender(t)
	if _, err := s.Apply(start-second, "one", ApplyAsk{Assignment: lend(1), Standing: share}); !errors.Is(err, ErrSettling) {
		t.Errorf("have %v", err)
	}
	s.State(start + Notice)
	if _, err := s.Apply(start, "one", ApplyAsk{Assignment: lend(1), Standing: share}); err != nil {
		t.Errorf("the region has seen the time pass: have %v", err)
	}
}

// Whatever happens to the region meanwhile, nothing of the share is there before
// it is back, and then it begins again, empty.
func TestNothingOfALentShareUntilItIsBack(t *testing.T) {
	pool := assign(2, per(20, second, 20), 20)
	release := quota.Assignment{Key: "k", Session: 5, Epoch: 3, Release: true, Lease: lend(3).Lease}
	for _, tc := range []struct {
		reason string
		play   func(t *testing.T, s *Store)
	}{
		{"nothing happens, and the session ends", func(*testing.T, *Store) {}},
		{"the session goes on", func(t *testing.T, s *Store) { mustRenew(t, s, start, 5, back+minute) }},
		{"the session is dropped", func(_ *testing.T, s *Store) { s.Drop(5) }},
		{"another session comes", func(t *testing.T, s *Store) { mustRenew(t, s, start+second, 6, back+minute) }},
		{"another configuration is adopted", func(t *testing.T, s *Store) {
			if err := s.Adopt(start, "one", 9, nil); err != nil {
				t.Fatal(err)
			}
		}},
		{"a lease from the pool comes and is given back", func(t *testing.T, s *Store) {
			mustApply(t, s, start+second, pool)
			if a := mustApply(t, s, start+2*second, release); a.Surrendered != quota.Whole(20) {
				t.Errorf("given back: have %v surrendered, want all", a.Surrendered)
			}
		}},
		{"a lease from the pool ends full with its session", func(t *testing.T, s *Store) {
			mustApply(t, s, start+second, pool)
		}},
		{"one that was used just before", func(t *testing.T, s *Store) {
			mustApply(t, s, start+second, pool)
			if v := take(s, start+10*second-1, ask("k", 1, share)); !v.Admitted || v.Level != quota.Whole(19) {
				t.Errorf("on the lease: have %+v", v)
			}
		}},
		{"one is dropped, and another session writes the record", func(t *testing.T, s *Store) {
			mustApply(t, s, start+second, pool)
			mustRenew(t, s, start+2*second, 6, start+9*second)
			a := pool
			a.Session, a.Epoch = 6, 1
			mustApply(t, s, start+2*second, a)
			take(s, start+3*second, ask("k", 1, share))
		}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := lender(t)
			tc.play(t, s)
			for _, at := range []quota.Micros{start + 11*second, start + 30*second, back - 1} {
				v := take(s, at, ask("k", 1, share))
				if v.Admitted || v.Holding != OnNothing || v.Level != 0 || v.Capacity.Burst != 0 || v.Retry != Forever {
					t.Errorf("after %v: have %+v, want nothing", (at - start).Duration(), v)
				}
			}
			for _, p := range []struct {
				at    quota.Micros
				level uint64
			}{{back, 0}, {back + second - 1, 0}, {back + second, 1}, {back + 3*second, 3}, {back + minute, 10}} {
				v := take(s, p.at, ask("k", 0, share))
				if v.Holding != OnStanding || v.Level.Floor() != int64(p.level) || v.Capacity != share.Capacity {
					t.Errorf("%v after it is back: have %+v, want %d", (p.at - back).Duration(), v, p.level)
				}
			}
		})
	}
}

// A region that has no session says what its rule's on_disconnect says; only a lease
// from the pool is held, and no share.
func TestModesOfADisconnectedLender(t *testing.T) {
	for _, tc := range []struct {
		mode    Mode
		leased  bool
		holding Holding
	}{
		{ModeStanding, false, OnNothing},
		{ModeStanding, true, OnNothing},
		{ModeHold, false, OnNothing},
		{ModeHold, true, OnHold},
		{ModeDeny, true, Denied},
		{ModeAllow, true, Allowed},
	} {
		s := lender(t)
		if tc.leased {
			mustApply(t, s, start+second, assign(2, per(20, second, 20), 20))
		}
		a := ask("k", 1, share)
		a.Mode = tc.mode
		v := take(s, start+20*second, a)
		if v.Holding != tc.holding {
			t.Errorf("mode %d, leased %v: have %v, want %v", tc.mode, tc.leased, v.Holding, tc.holding)
		}
		if v.Holding == OnHold && v.Capacity != per(20, second, 20) {
			t.Errorf("held: have %v, want the lease alone", v.Capacity)
		}
	}
}

func TestLendingAgainMakesItLonger(t *testing.T) {
	s := lender(t)
	mustRenew(t, s, start, 5, back+minute)
	if a := mustLend(t, s, start+40*second, lend(2)); a.Surrendered != 0 {
		t.Errorf("there is nothing to surrender: have %v", a.Surrendered)
	}
	short := lend(3)
	short.Lend = (5 * second).Duration()
	mustLend(t, s, start+41*second, short)
	want := start + 40*second + minute
	lent, version := s.Lent(start+42*second), s.State(start+42*second).Lent
	if rec, _ := s.Read("k"); rec.Away != want || lent["k"] != want || version != 3 {
		t.Errorf("away until %d, lent %v in version %d, want until %d in version 3", rec.Away, lent, version, want)
	}
	if v := take(s, want-1, ask("k", 1, share)); v.Holding != OnNothing {
		t.Errorf("just before: have %v", v.Holding)
	}
	if v := take(s, want+second, ask("k", 0, share)); v.Level != quota.Whole(1) {
		t.Errorf("a second after: have %v", v.Level)
	}
	if lent := s.Lent(want); len(lent) != 0 {
		t.Errorf("all is back: have %v", lent)
	}
}

// What was admitted before the store was lost is owed by a share that is lent too,
// however long the record is not touched.
func TestADebtIsKeptWhileTheShareIsLent(t *testing.T) {
	s := lender(t)
	s.Drop(5)
	if err := s.Charge(start+20*second, "one", []Charge{{Key: "k", Tokens: quota.Whole(5), Standing: share}}); err != nil {
		t.Fatal(err)
	}
	if gone := s.Sweep(back + 15*second); len(gone) != 0 {
		t.Error("dropped before it is full again")
	}
	for _, p := range []struct {
		after quota.Micros
		level quota.Tokens
	}{{0, -quota.Whole(5)}, {5 * second, 0}, {7 * second, quota.Whole(2)}} {
		if v := take(s, back+p.after, ask("k", 0, share)); v.Level != p.level {
			t.Errorf("%v after it is back: have %v, want %v", p.after.Duration(), v.Level, p.level)
		}
	}
	if gone := s.Sweep(back + 16*second); len(gone) != 1 {
		t.Error("kept when it is full, which means the same as no record")
	}
}

func TestANewIncarnationIsToldWhatIsLent(t *testing.T) {
	s := lender(t)
	if err := s.Lend(start, "one", nil, 0); err != nil {
		t.Fatal(err)
	}
	if st := s.State(start); !st.LentKnown || st.Lent != 2 {
		t.Fatalf("before: have %+v", st)
	}
	s.Incarnate(start+10*second, "two")
	if st := s.State(start + 10*second); st.LentKnown || st.Lent != 0 {
		t.Errorf("a new incarnation knows nothing of loans: have %+v", st)
	}
	asks := []LendAsk{{Key: "k", Share: share.Capacity}, {Key: "unknown rule"}}
	if err := s.Lend(start+20*second, "one", asks, minute); !errors.Is(err, ErrIncarnation) {
		t.Errorf("told another incarnation: have %v", err)
	}
	if st := s.State(start + 20*second); st.LentKnown {
		t.Error("a refusal has told it something")
	}
	if err := s.Lend(start+20*second, "two", asks, 30*second); err != nil {
		t.Fatal(err)
	}
	until := start + 50*second
	if st := s.State(start + 20*second); !st.LentKnown || st.Lent != 1 {
		t.Errorf("told: have %+v", st)
	}
	if lent := s.Lent(start + 20*second); lent["k"] != until || lent["unknown rule"] != until {
		t.Errorf("have %v, want both until %d", lent, until)
	}
	if err := s.Lend(start+21*second, "two", asks, second); err != nil {
		t.Fatal(err)
	}
	if gone := s.Sweep(until + second); len(gone) != 0 {
		t.Errorf("dropped before they are full: %v", gone)
	}
	for _, p := range []struct {
		key     quota.Key
		at      quota.Micros
		holding Holding
		level   uint64
	}{
		{"k", until - 1, OnNothing, 0},
		{"unknown rule", until - 1, OnNothing, 0},
		{"other", until - 1, OnStanding, 10},
		{"k", until, OnStanding, 0},
		{"k", until + 2*second, OnStanding, 2},
		{"unknown rule", until + 2*second, OnStanding, 2},
	} {
		if v := take(s, p.at, ask(p.key, 0, share)); v.Holding != p.holding || v.Level != quota.Whole(p.level) {
			t.Errorf("%s, %v after it is back: have %v on %v, want %d on %v", p.key, (p.at - until).Duration(), v.Level, v.Holding, p.level, p.holding)
		}
	}
}

// Told of its loans late, a region keeps the lease that it has got already.
func TestTakingOverALoanKeepsTheLease(t *testing.T) {
	s := connected(t)
	mustApply(t, s, start, assign(1, per(20, day, 20), 0)) // it has the share's 10
	if err := s.Lend(start+second, "one", []LendAsk{{Key: "k", Share: share.Capacity}}, minute); err != nil {
		t.Fatal(err)
	}
	if life := s.Life("k"); life < day/2 {
		t.Errorf("kept for %v, want until the lease is full", life.Duration())
	}
	if v := take(s, start+second, ask("k", 1, share)); v.Holding != OnLease || v.Level.Floor() != 9 {
		t.Errorf("have %+v, want the lease with 9 left", v)
	}
	if v := take(s, start+10*second, ask("k", 0, share)); v.Holding != OnNothing || v.Level != 0 {
		t.Errorf("after the deadline: have %+v, want nothing", v)
	}
}
