package bucket

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

var share = full(per(10, 10*second, 10))

// connected is a region with session 5 and ten seconds on its deadline.
func connected(t *testing.T) *Store {
	t.Helper()
	s := region()
	if err := s.Renew(start, "one", 5, start+10*second); err != nil {
		t.Fatal(err)
	}
	return s
}

func assign(epoch quota.Epoch, lease quota.Capacity, credit uint64) quota.Assignment {
	return quota.Assignment{Key: "k", Session: 5, Epoch: epoch, Lease: lease, Credit: quota.Whole(credit)}
}

func mustApply(t *testing.T, s *Store, at quota.Micros, a quota.Assignment) quota.Applied {
	t.Helper()
	applied, err := s.Apply(at, "one", ApplyAsk{Assignment: a, Standing: share})
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

func TestApplyGrowsAndShrinks(t *testing.T) {
	s := connected(t)
	take(s, start, ask("k", 4, share)) // 6 left
	if a := mustApply(t, s, start, assign(1, per(100, second, 100), 50)); a.Surrendered != 0 {
		t.Errorf("growing surrenders nothing: have %v", a.Surrendered)
	}
	v := take(s, start, ask("k", 0, share))
	if v.Holding != OnLease || v.Level != quota.Whole(56) || v.Epoch != 1 || v.Capacity != per(100, second, 100) {
		t.Errorf("want lease 1 with 6+50, have %+v", v)
	}
	if a := mustApply(t, s, start, assign(2, per(20, second, 20), 0)); a.Surrendered != quota.Whole(36) {
		t.Errorf("shrinking to 20 surrenders 36: have %v", a.Surrendered)
	}
	if v := take(s, start, ask("k", 0, share)); v.Level != quota.Whole(20) {
		t.Errorf("want 20 left, have %v", v.Level)
	}
}

func TestApplyAgainGivesTheStoredAnswer(t *testing.T) {
	s := connected(t)
	shrink := assign(1, per(1, second, 4), 0)
	first := mustApply(t, s, start, shrink)
	take(s, start, ask("k", 3, share))
	again := mustApply(t, s, start+second, shrink)
	if first != again || first.Surrendered != quota.Whole(6) {
		t.Errorf("want %+v with 6 surrendered, have %+v", first, again)
	}
	if rec, _ := s.Read("k"); rec.Level != quota.Whole(1) {
		t.Errorf("a repeat changes nothing: want level 1, have %v", rec.Level)
	}
	// The answer is still due after the deadline: the ledger decides what it is worth.
	if late := mustApply(t, s, start+20*second, shrink); late != first {
		t.Errorf("after the deadline: want %+v, have %+v", first, late)
	}
}

func TestApplyRefuses(t *testing.T) {
	lease := per(1, second, 20)
	for _, tc := range []struct {
		name string
		make func(t *testing.T) *Store
		at   quota.Micros
		a    quota.Assignment
		want error
	}{
		{"another incarnation", func(t *testing.T) *Store { s := connected(t); s.Incarnate(start, "two"); return s }, start, assign(1, lease, 0), ErrIncarnation},
		{"no session", func(*testing.T) *Store { return region() }, start, assign(1, lease, 0), ErrOldSession},
		{"an older session", connected, start, quota.Assignment{Key: "k", Session: 4, Epoch: 9, Lease: lease}, ErrOldSession},
		{"a session not renewed here yet", connected, start, quota.Assignment{Key: "k", Session: 6, Epoch: 9, Lease: lease}, ErrOldSession},
		{"deadline passed", connected, start + 10*second, assign(1, lease, 0), ErrExpired},
		{"older epoch", func(t *testing.T) *Store { s := connected(t); mustApply(t, s, start, assign(3, lease, 0)); return s }, start, assign(2, lease, 0), ErrStaleEpoch},
		{"epoch zero", connected, start, assign(0, lease, 0), ErrStaleEpoch},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := tc.make(t)
			before, _ := s.Read("k")
			if _, err := s.Apply(tc.at, "one", ApplyAsk{Assignment: tc.a, Standing: share}); !errors.Is(err, tc.want) {
				t.Errorf("want %v, have %v", tc.want, err)
			}
			if after, _ := s.Read("k"); after != before {
				t.Errorf("a refusal changed the record: %+v, then %+v", before, after)
			}
		})
	}
}

func TestReleaseFallsBackToStanding(t *testing.T) {
	s := connected(t)
	mustApply(t, s, start, assign(1, per(100, second, 100), 90))
	release := assign(2, share.Capacity, 0)
	release.Release = true
	if a := mustApply(t, s, start, release); a.Surrendered != quota.Whole(90) {
		t.Errorf("want 90 surrendered, have %v", a.Surrendered)
	}
	if v := take(s, start, ask("k", 1, share)); v.Holding != OnStanding || v.Level != quota.Whole(9) || v.Epoch != 0 {
		t.Errorf("want the standing share with 9 left, have %+v", v)
	}
	if a := mustApply(t, s, start, release); a.Surrendered != quota.Whole(90) {
		t.Errorf("a repeat after a take: want 90, have %v", a.Surrendered)
	}
}

func TestLeaseEndsWithItsDeadlineUnlessHeld(t *testing.T) {
	for _, tc := range []struct {
		name    string
		mode    Mode
		after   quota.Micros
		want    bool
		holding Holding
		level   string
	}{
		{"before the deadline", ModeDeny, 10*second - 1, true, OnLease, "99"},
		{"standing: cut to the share, then refilled at its rate", ModeStanding, 10 * second, true, OnStanding, "9"},
		{"hold: the lease stays", ModeHold, 10 * second, true, OnHold, "99"},
		{"deny", ModeDeny, 10 * second, false, Denied, ""},
		{"allow: admitted and not charged", ModeAllow, 10 * second, true, Allowed, "10"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := connected(t)
			mustApply(t, s, start, assign(1, per(100, second, 100), 90))
			a := ask("k", 1, share)
			a.Mode = tc.mode
			v := take(s, start+tc.after, a)
			if v.Admitted != tc.want || v.Holding != tc.holding {
				t.Errorf("want %v on %v, have %v on %v", tc.want, tc.holding, v.Admitted, v.Holding)
			}
			if tc.level != "" && v.Level.String() != tc.level {
				t.Errorf("level: want %s, have %v", tc.level, v.Level)
			}
		})
	}
}

func TestNothingIsHeldAfterADropOrInAnotherSession(t *testing.T) {
	hold := ask("k", 1, share)
	hold.Mode = ModeHold
	for _, tc := range []struct {
		name string
		do   func(s *Store) error
		at   quota.Micros
	}{
		{"dropped", func(s *Store) error { s.Drop(5); return nil }, start},
		{"newer session", func(s *Store) error { return s.Renew(start, "one", 6, start+20*second) }, start},
		{"newer session, expired", func(s *Store) error { return s.Renew(start, "one", 6, start+second) }, start + 5*second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := connected(t)
			mustApply(t, s, start, assign(1, per(100, second, 100), 90))
			if err := tc.do(s); err != nil {
				t.Fatal(err)
			}
			if v := take(s, tc.at, hold); v.Holding != OnStanding || v.Level != quota.Whole(9) {
				t.Errorf("want the standing share with 9, have %+v", v)
			}
			if rec, _ := s.Read("k"); rec.Epoch != 0 || rec.Lease != (quota.Capacity{}) {
				t.Errorf("a write clears the lease of an older session: have %+v", rec)
			}
		})
	}
}

func TestAClockThatStepsBackRevivesNoLease(t *testing.T) {
	s := connected(t)
	mustApply(t, s, start, assign(1, per(100, second, 100), 90))
	s.State(start + 11*second) // the region saw the deadline pass
	if v := take(s, start+second, ask("k", 1, share)); v.Holding != OnStanding {
		t.Errorf("want the standing share, have %v", v.Holding)
	}
}

// A clock that ran ahead in the old life leaves records that are not older than the
// new one.
func TestARecordOfAnotherIncarnationCountsForNothing(t *testing.T) {
	s := connected(t)
	take(s, start+3600*second, ask("k", 1, share))
	s.Incarnate(start, "two")
	later := Standing{Capacity: share.Capacity, Since: start}
	if v := take(s, start+second, ask("k", 0, later)); v.Level != quota.Whole(1) {
		t.Errorf("want what one second gave, have %+v", v)
	}
}

func TestANewIncarnationForgetsEverything(t *testing.T) {
	s := connected(t)
	mustApply(t, s, start, assign(1, per(100, second, 100), 90))
	if err := s.Adopt(start, "one", 7, []byte("rules")); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkFirst("one"); err != nil {
		t.Fatal(err)
	}
	s.Incarnate(start+3*second, "two")

	st := s.State(start + 4*second)
	want := State{
		Now: start + 4*second, Since: start + 3*second, ConfigSince: start,
		Region: Region{Incarnation: "two", MinSession: 6, Config: 7},
	}
	if st != want {
		t.Errorf("state:\nwant %+v\nhave %+v", want, st)
	}
	later := Standing{Capacity: share.Capacity, Since: st.Since}
	if v := take(s, start+4*second, ask("k", 0, later)); v.Holding != OnStanding || v.Level != quota.Whole(1) {
		t.Errorf("want what one second gave, have %+v", v)
	}
	if err := s.Renew(start+4*second, "two", 5, start+60*second); !errors.Is(err, ErrOldSession) {
		t.Errorf("the session of the old incarnation is over: have %v", err)
	}
	if err := s.MarkFirst("one"); !errors.Is(err, ErrIncarnation) {
		t.Errorf("mark an old incarnation: have %v", err)
	}
}

func TestRenewAndDrop(t *testing.T) {
	s := connected(t)
	for _, tc := range []struct {
		name     string
		do       func() error
		want     error
		session  quota.SessionID
		deadline quota.Micros
	}{
		{"the same session never loses time", func() error { return s.Renew(start, "one", 5, start+3*second) }, nil, 5, start + 10*second},
		{"it gains time", func() error { return s.Renew(start, "one", 5, start+12*second) }, nil, 5, start + 12*second},
		{"an older one is refused", func() error { return s.Renew(start, "one", 4, start+90*second) }, ErrOldSession, 5, start + 12*second},
		{"another incarnation is refused", func() error { return s.Renew(start, "two", 9, start+90*second) }, ErrIncarnation, 5, start + 12*second},
		{"a newer one brings its own deadline", func() error { return s.Renew(start, "one", 6, start+2*second) }, nil, 6, start + 2*second},
		{"dropping an older one changes nothing", func() error { s.Drop(5); return nil }, nil, 6, start + 2*second},
		{"a dropped one is over", func() error { s.Drop(6); return nil }, nil, 0, 0},
		{"for ever", func() error { return s.Renew(start, "one", 6, start+90*second) }, ErrOldSession, 0, 0},
		{"one dropped before it was renewed too", func() error { s.Drop(8); return s.Renew(start, "one", 8, start+90*second) }, ErrOldSession, 0, 0},
		{"the next one is welcome", func() error { return s.Renew(start, "one", 9, start+4*second) }, nil, 9, start + 4*second},
		{"no session is no session", func() error { return s.Renew(start, "one", 0, start+4*second) }, ErrOldSession, 9, start + 4*second},
	} {
		if err := tc.do(); !errors.Is(err, tc.want) {
			t.Errorf("%s: want %v, have %v", tc.name, tc.want, err)
		}
		if st := s.State(start); st.Session != tc.session || st.Deadline != tc.deadline {
			t.Errorf("%s: want session %d until %d, have %d until %d", tc.name, tc.session, tc.deadline, st.Session, st.Deadline)
		}
	}
}

func TestAdoptKeepsTheConfigurationBefore(t *testing.T) {
	s := region()
	for i, version := range []uint64{3, 3, 8} {
		if err := s.Adopt(start+quota.Micros(i)*second, "one", version, []byte{byte(version)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Adopt(start+9*second, "one", 7, nil); !errors.Is(err, ErrOldConfig) {
		t.Errorf("an older version: have %v", err)
	}
	cur, prev := s.Config()
	if cur.Version != 8 || cur.Since != start+2*second || cur.Blob[0] != 8 || prev.Version != 3 || prev.Since != start || prev.Blob[0] != 3 {
		t.Errorf("have %+v before it %+v", cur, prev)
	}
	if !s.Current("one", 8) || s.Current("one", 3) || s.Current("two", 8) {
		t.Error("only incarnation one with configuration 8 is current")
	}
}

func TestDepositNeverFormsALargerSum(t *testing.T) {
	for _, tc := range []struct{ level, credit, burst, kept, surrendered quota.Tokens }{
		{5, 3, 10, 8, 0},
		{5, 8, 10, 10, 3},
		{12, 0, 10, 10, 2},
		{-5, 3, 10, -2, 0},
		{-5, 20, 10, 10, 5},
		{quota.MaxTokens, quota.MaxTokens, 0, 0, quota.MaxTokens},
		{Debt, quota.MaxTokens, quota.MaxTokens, 0, 0},
	} {
		kept, surrendered := deposit(tc.level, tc.credit, tc.burst)
		if kept != tc.kept || surrendered != tc.surrendered {
			t.Errorf("deposit(%d, %d, %d): want %d, %d, have %d, %d", tc.level, tc.credit, tc.burst, tc.kept, tc.surrendered, kept, surrendered)
		}
	}
}
