package bucket

import (
	"errors"
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
	charge := func(charges ...Charge) {
		t.Helper()
		if err := s.Charge(start, "one", charges); err != nil {
			t.Fatal(err)
		}
	}
	charge(Charge{Key: "k", Tokens: quota.Whole(15), Standing: st})
	if v := take(s, start, ask("k", 1, st)); v.Admitted || v.Level != quota.Whole(5)*-1 {
		t.Errorf("want denied at -5, have %+v", v)
	}
	if v := take(s, start+5*second, ask("k", 1, st)); v.Admitted || v.Level != 0 {
		t.Errorf("after 5 s: want denied at 0, have %+v", v)
	}
	if v := take(s, start+6*second, ask("k", 1, st)); !v.Admitted {
		t.Errorf("after 6 s: want admitted, have %+v", v)
	}
	charge(Charge{Key: "k", Tokens: quota.MaxTokens, Standing: st}, Charge{Key: "k", Tokens: quota.MaxTokens, Standing: st})
	if rec, _ := s.Read("k"); rec.Level != Debt {
		t.Errorf("want the lowest level %d, have %d", Debt, rec.Level)
	}
}

func TestChargeThatBelongsToAnotherIncarnationMakesNoFullBucket(t *testing.T) {
	s := region()
	err := s.Charge(start, "zero", []Charge{{Key: "k", Tokens: 1, Standing: full(per(10, 10*second, 10))}})
	if !errors.Is(err, ErrIncarnation) || s.Len() != 0 {
		t.Errorf("want ErrIncarnation and no record, have %v and %d", err, s.Len())
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

// A record that nobody touches while its share is small is cut all the same: the
// tokens above the small share have gone to others by then.
func TestAShareThatShrinksAndGrowsGivesNothingBack(t *testing.T) {
	for _, tc := range []struct {
		reason string
		left   uint64 // in the record when the share was 10
		base   uint64 // what a bucket without a record has when it grows again
		want   string
	}{
		{"cut to what the small share let it keep", 8, 3, "3"},
		{"it had less than that", 2, 3, "2"},
		{"the share has grown twice in a row: nobody knows what it kept", 8, 0, "0"},
	} {
		s := region()
		take(s, start, ask("k", 10-tc.left, full(per(10, 1000*second, 10))))
		again := Standing{Capacity: per(10, 1000*second, 10), Base: quota.Whole(tc.base), Since: start + 100*second}
		if v := take(s, start+100*second, ask("k", 0, again)); v.Level.String() != tc.want {
			t.Errorf("%s: want %s, have %v", tc.reason, tc.want, v.Level)
		}
	}
}

func TestK19LifetimeIsAlwaysPositiveAndBounded(t *testing.T) {
	for _, tokens := range []uint64{0, 1, 60, 1000, 1_000_000, 1_000_000_000, quota.MaxWhole} {
		for _, period := range []quota.Micros{second, minute, 3600 * second, day, 30 * day, 365 * day, MaxPeriod} {
			c := per(tokens, period, tokens)
			for _, level := range []quota.Tokens{Debt, -1, 0, c.Burst / 2, c.Burst} {
				for _, leased := range []bool{false, true} {
					life := Lifetime(level, c, c, leased, 0)
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

// K22: a sweep by a clock that is behind finds no record too old.
func TestK22ASweepKeepsWhatIsNewerThanItsClock(t *testing.T) {
	for _, kind := range []Window{NoWindow, LogWindow, CounterWindow} {
		s, st := region(), full(per(1, minute, 1))
		if kind != NoWindow {
			st = places(kind, 1)
		}
		s.ask(start+day, 1, st)
		for _, now := range []quota.Micros{0, start, start + day - 1, start + day} {
			if gone := s.Sweep(now); len(gone) != 0 {
				t.Errorf("kind %d: a sweep at %v dropped %v", kind, now.Duration(), gone)
			}
		}
		if ok, _ := s.ask(start+day, 1, st); ok {
			t.Errorf("kind %d: it is whole again", kind)
		}
		if gone := s.Sweep(start + 2*day); len(gone) != 1 {
			t.Errorf("kind %d: a day later have %v dropped, want the record", kind, gone)
		}
	}
}
