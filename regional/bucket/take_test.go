package bucket

import (
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

const (
	second = quota.Second
	minute = 60 * second
	day    = 86400 * second
	start  = 1_700_000_000 * second
)

func per(tokens uint64, period quota.Micros, burst uint64) quota.Capacity {
	return quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(tokens), Per: period}, Burst: quota.Whole(burst)}
}

// full is a standing share whose missing record counts as full.
func full(c quota.Capacity) Standing { return Standing{Capacity: c, Base: c.Burst} }

func ask(key quota.Key, cost uint64, st Standing) Ask {
	return Ask{Key: key, Cost: quota.Whole(cost), Standing: st}
}

// region is a store in its first incarnation, without a session.
func region() *Store {
	s := NewStore()
	s.Incarnate(start, "one")
	return s
}

// take takes once from one bucket.
func take(s *Store, at quota.Micros, a Ask) Verdict {
	admitted, v := s.Take(at, []Ask{a})
	if admitted != v[0].Admitted {
		panic("the take and its only verdict disagree")
	}
	return v[0]
}

// step is one take of a little play on one bucket.
type step struct {
	at    quota.Micros // after start
	cost  uint64
	want  bool
	level string // afterwards, in whole tokens; empty: not looked at
}

func TestTakeAlone(t *testing.T) {
	for _, tc := range []struct {
		name  string
		share quota.Capacity
		steps []step
	}{
		{"K02 refill is credited under steady load", per(10, 30*second, 10), []step{
			{0, 1, true, "9"}, {second, 1, true, ""}, {2 * second, 1, true, ""}, {3 * second, 1, true, "7"},
			{4 * second, 1, true, ""}, {5 * second, 1, true, ""}, {6 * second, 1, true, "5"},
			{7 * second, 1, true, ""}, {8 * second, 1, true, ""}, {9 * second, 1, true, "3"}, {10 * second, 1, true, ""},
		}},
		{"K03 an idle bucket is full and no more", per(10, second, 10), []step{
			{0, 1, true, "9"}, {10 * second, 0, true, "10"},
		}},
		{"K05 a fast rate still counts", per(1000, minute, 1000), []step{
			{0, 1, true, "999"}, {0, 1, true, "998"}, {0, 1, true, "997"},
		}},
		{"K06 a rate above one per millisecond", per(8000, second, 8000), []step{
			{0, 8000, true, "0"}, {second / 2, 4001, false, "4000"}, {second / 2, 4000, true, "0"},
		}},
		{"K07 a very large limit counts down", per(1_000_000, 3600*second, 1_000_000), []step{
			{0, 1, true, "999999"}, {0, 1, true, "999998"}, {0, 8, true, "999990"},
		}},
		{"K08 a zero limit denies", per(0, second, 0), []step{{0, 1, false, "0"}, {day, 1, false, "0"}}},
		{"K09 a zero rate never refills", per(0, second, 1), []step{
			{0, 1, true, "0"}, {second, 1, false, "0"}, {399 * day, 1, false, "0"},
		}},
		{"K12 a denied request burns no tokens", per(10, 3600*second, 10), []step{
			{0, 8, true, "2"}, {0, 5, false, "2"}, {0, 1, true, "1"},
		}},
		{"K20 half the wait is not enough", per(6, minute, 6), []step{
			{0, 6, true, "0"}, {5_100_000, 1, false, "0.51"}, {9_999_999, 1, false, "0.999999"}, {10 * second, 1, true, "0"},
		}},
		{"K22 time that steps back refills nothing and loses nothing", per(10, second, 10), []step{
			{second, 5, true, "5"}, {0, 0, true, "5"}, {0, 1, true, "4"}, {second, 0, true, "4"}, {second + second/10, 0, true, "5"},
		}},
		{"K23 a cost of zero only looks", per(2, day, 2), []step{
			{0, 0, true, "2"}, {0, 0, true, "2"}, {0, 1, true, "1"}, {0, 1, true, "0"}, {0, 1, false, "0"}, {0, 0, true, "0"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := region()
			for i, st := range tc.steps {
				v := take(s, start+st.at, ask("k", st.cost, full(tc.share)))
				if v.Admitted != st.want {
					t.Fatalf("step %d: admitted: want %v, have %v (level %v)", i, st.want, v.Admitted, v.Level)
				}
				if st.level != "" && v.Level.String() != st.level {
					t.Errorf("step %d: level: want %s, have %v", i, st.level, v.Level)
				}
			}
		})
	}
}

func TestK01NoJumpToFullOncePerPeriod(t *testing.T) {
	s, admitted := region(), 0
	for i := range 30 {
		if take(s, start+quota.Micros(i)*second/10, ask("k", 1, full(per(3, second, 3)))).Admitted {
			admitted++
		}
	}
	if admitted != 11 {
		t.Errorf("admitted in 3 s at 3/s with a burst of 3: want 11, have %d", admitted)
	}
}

func TestK04RoundingDoesNotAccumulate(t *testing.T) {
	s := region()
	share := per(65535, second, 65535)
	for i := range 20 {
		v := take(s, start+quota.Micros(i)*second/10, ask("k", 1, full(share)))
		if v.Level < quota.Whole(65515) {
			t.Fatalf("take %d: level: want at least 65515, have %v", i, v.Level)
		}
	}
}

func TestK21NoUnderfill(t *testing.T) {
	s := region()
	share := per(1000, second, 1000)
	take(s, start, ask("k", 1000, full(share)))
	for sec := range 3 {
		admitted := 0
		for i := range 5000 { // 5k/s offered
			at := start + quota.Micros(sec)*second + quota.Micros(i+1)*200
			if take(s, at, ask("k", 1, full(share))).Admitted {
				admitted++
			}
		}
		if admitted != 1000 {
			t.Errorf("second %d: admitted: want 1000, have %d", sec, admitted)
		}
	}
}

func TestK11CostAboveBurstIsNeverSatisfiable(t *testing.T) {
	v := take(region(), start, ask("k", 10, full(per(5, second, 5))))
	if v.Admitted || !v.Never || v.Retry != Forever {
		t.Errorf("want denied for ever, have %+v", v)
	}
}

// A wait is told in whole microseconds, rounded up.
func TestRetryIsLongEnoughAndNoLonger(t *testing.T) {
	share := full(per(7, minute, 7))
	for _, offset := range []quota.Micros{1, 333, 1_234_567, 7_999_999} {
		s := region()
		take(s, start, ask("k", 7, share))
		take(s, start+offset, ask("k", 0, share))
		v := take(s, start+offset, ask("k", 1, share))
		if v.Admitted {
			t.Fatalf("after %d us: want denied", offset)
		}
		if early := take(s, start+offset+v.Retry-2, ask("k", 1, share)); early.Admitted {
			t.Errorf("after %d us: admitted before the told wait of %d us", offset, v.Retry)
		}
		if late := take(s, start+offset+v.Retry, ask("k", 1, share)); !late.Admitted {
			t.Errorf("after %d us: denied after the told wait of %d us", offset, v.Retry)
		}
	}
}

func TestTakeIsAllOrNothing(t *testing.T) {
	s := region()
	wide, narrow := full(per(10, day, 10)), full(per(1, day, 1))
	for i, want := range []bool{true, false, false} {
		admitted, v := s.Take(start, []Ask{ask("wide", 1, wide), ask("narrow", 1, narrow)})
		if admitted != want {
			t.Fatalf("take %d: want %v, have %v", i, want, admitted)
		}
		if v[0].Level != quota.Whole(9) {
			t.Errorf("take %d: the wide bucket pays once: want 9, have %v", i, v[0].Level)
		}
		if !v[0].Admitted {
			t.Errorf("take %d: the wide bucket itself had enough", i)
		}
	}
}

func TestOneKeyTwiceInATakePaysTwice(t *testing.T) {
	s := region()
	st := full(per(3, day, 3))
	admitted, v := s.Take(start, []Ask{ask("k", 1, st), ask("k", 1, st), ask("other", 1, st)})
	if !admitted || len(v) != 3 || v[0].Level != quota.Whole(1) || v[1].Level != quota.Whole(1) || v[2].Level != quota.Whole(2) {
		t.Fatalf("want levels 1, 1, 2, have %v %+v", admitted, v)
	}
	if admitted, _ = s.Take(start, []Ask{ask("k", 1, st), ask("k", 1, st)}); admitted {
		t.Error("two costs of 1 fit a level of 1: they must be added")
	}
}

func TestK25AChargeAboveTheLevelIsKeptAsDebt(t *testing.T) {
	s := region()
	st := full(per(10, 10*second, 10))
	s.Charge(start, []Charge{{Key: "k", Tokens: quota.Whole(15), Standing: st}})
	if v := take(s, start, ask("k", 1, st)); v.Admitted || v.Level != quota.Whole(5)*-1 {
		t.Errorf("want denied at -5, have %+v", v)
	}
	if v := take(s, start+5*second, ask("k", 1, st)); v.Admitted || v.Level != 0 {
		t.Errorf("after 5 s: want denied at 0, have %+v", v)
	}
	if v := take(s, start+6*second, ask("k", 1, st)); !v.Admitted {
		t.Errorf("after 6 s: want admitted, have %+v", v)
	}
	s.Charge(start, []Charge{{Key: "k", Tokens: quota.MaxTokens, Standing: st}, {Key: "k", Tokens: quota.MaxTokens, Standing: st}})
	if rec, _ := s.Read("k"); rec.Level != Debt {
		t.Errorf("want the lowest level %d, have %d", Debt, rec.Level)
	}
}

func TestMissingRecordIsWhatTheStandingSays(t *testing.T) {
	share := per(10, 10*second, 10)
	for _, tc := range []struct {
		name string
		st   Standing
		want string
	}{
		{"first incarnation: full", Standing{Capacity: share, Base: share.Burst, Since: start}, "10"},
		{"later incarnation: what time gave since it began", Standing{Capacity: share, Since: start - 3*second}, "3"},
		{"a base and time", Standing{Capacity: share, Base: quota.Whole(2), Since: start - 3*second}, "5"},
		{"never above the burst", Standing{Capacity: share, Since: start - day}, "10"},
		{"a beginning in the future gives nothing", Standing{Capacity: share, Since: start + second}, "0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if v := take(region(), start, ask("k", 0, tc.st)); v.Level.String() != tc.want {
				t.Errorf("level: want %s, have %v", tc.want, v.Level)
			}
		})
	}
}

func TestARaisedShareGivesNothingForTimeBeforeIt(t *testing.T) {
	s := region()
	old := full(per(10, 1000*second, 10))
	take(s, start, ask("k", 10, old))
	raised := Standing{Capacity: per(1000, second, 1000), Base: quota.Whole(10), Since: start + 100*second}
	if v := take(s, start+100*second, ask("k", 0, raised)); v.Level != 0 {
		t.Errorf("at the raise: want 0, have %v", v.Level)
	}
	if v := take(s, start+101*second, ask("k", 0, raised)); v.Level != quota.Whole(1000) {
		t.Errorf("a second later: want 1000, have %v", v.Level)
	}
}

func TestK19LifetimeIsAlwaysPositiveAndBounded(t *testing.T) {
	for _, tokens := range []uint64{0, 1, 60, 1000, 1_000_000, 1_000_000_000, quota.MaxWhole} {
		for _, period := range []quota.Micros{second, minute, 3600 * second, day, 30 * day, 365 * day, MaxPeriod} {
			c := per(tokens, period, tokens)
			for _, level := range []quota.Tokens{Debt, -1, 0, c.Burst / 2, c.Burst} {
				for _, leased := range []bool{false, true} {
					life := Lifetime(level, c, c, leased)
					if life < second || life > maxLife {
						t.Fatalf("%v at %v: lifetime %d us", c, level, life)
					}
					if need, ok := c.TimeTo(level, c.Burst); ok && life < maxLife && life < need+second {
						t.Fatalf("%v at %v: lives %d us but needs %d us to fill", c, level, life, need)
					}
				}
			}
		}
	}
}
