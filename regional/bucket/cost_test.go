package bucket

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// owing is an ask on a limit with a max_debt.
func owing(key quota.Key, cost int64, debt uint64, st Standing) Ask {
	return Ask{Key: key, Cost: quota.Tokens(cost) * quota.Token, Debt: quota.Whole(debt), Standing: st}
}

func settling(key quota.Key, cost int64, debt uint64, st Standing) Ask {
	a := owing(key, cost, debt, st)
	a.Settle = true
	return a
}

func TestDebtIsMadeOnceAndPaidFirst(t *testing.T) {
	share := full(per(10, 10*second, 10))
	s := region()
	for _, tc := range []struct {
		reason string
		at     quota.Micros
		cost   int64
		want   bool
		level  string
		retry  quota.Micros
		never  bool
	}{
		{"more than the burst and the debt", 0, 16, false, "10", Forever, true},
		{"within the burst", 0, 7, true, "3", 0, false},
		{"a peek above zero", 0, 0, true, "3", 0, false},
		{"too deep: it would be -6", 0, 9, false, "3", second, false},
		{"down to -5", 0, 8, true, "-5", 0, false},
		{"nothing at -5", 0, 1, false, "-5", 5*second + 1, false},
		{"no peek either", 0, 0, false, "-5", 5*second + 1, false},
		{"nothing at zero", 5 * second, 1, false, "0", 1, false},
		{"a peek when it is paid", 5*second + 1, 0, true, "0.000001", 0, false},
		{"a cost above the burst waits for what it may not owe", 5*second + 1, 12, false, "0.000001", 7*second - 1, false},
		{"which is there then", 12 * second, 12, true, "-5", 0, false},
	} {
		v := take(s, start+tc.at, owing("k", tc.cost, 5, share))
		if v.Admitted != tc.want || v.Level.String() != tc.level || v.Retry != tc.retry || v.Never != tc.never {
			t.Errorf("%s: have %v with %v, retry %d, never %v", tc.reason, v.Admitted, v.Level, v.Retry, v.Never)
		}
	}
}

// Of n equal requests in one step floor(level/cost) fit, then at most one makes a debt.
func TestOneOfARunMakesADebt(t *testing.T) {
	share := full(per(10, day, 10))
	for _, tc := range []struct {
		reason string
		cost   int64
		debt   uint64
		want   int
		level  string
	}{
		{"a debt of what is missing", 4, 100, 3, "-2"},
		{"none where the last one fits exactly", 5, 100, 2, "0"},
		{"a debt that is just deep enough", 4, 2, 3, "-2"},
		{"a debt that is too small", 4, 1, 2, "2"},
		{"one far above the burst", 90, 80, 1, "-80"},
		{"peeks charge nothing", 0, 5, 100, "10"},
	} {
		s := region()
		a := owing("k", 0, tc.debt, share)
		_, n, _, _ := s.TakeRuns(start, []Ask{a}, []Run{{Count: 100, Costs: []quota.Tokens{quota.Tokens(tc.cost) * quota.Token}}})
		v := take(s, start, ask("k", 0, share))
		if n[0] != tc.want || v.Level.String() != tc.level {
			t.Errorf("%s: have %d admitted and %v left, want %d and %s", tc.reason, n[0], v.Level, tc.want, tc.level)
		}
	}
}

func TestSettlingChargesDownToTheFloor(t *testing.T) {
	share := full(per(10, day, 10))
	for _, tc := range []struct {
		reason    string
		used      uint64
		charged   uint64 // while the store was away, beyond that
		cost      int64
		debt      uint64
		level     string
		uncharged string
	}{
		{"what is there", 4, 0, 6, 0, "0", "0"},
		{"without a debt not below zero", 4, 0, 8, 0, "0", "2"},
		{"with one down to it", 4, 0, 20, 5, "-5", "9"},
		{"a level below the floor stays", 4, 16, 3, 5, "-10", "3"},
		{"too much was estimated", 4, 0, -3, 0, "9", "0"},
		{"by more than the bucket has room for", 4, 0, -30, 0, "10", "0"},
		{"nothing to settle", 10, 0, 0, 5, "0", "0"},
	} {
		s := region()
		take(s, start, ask("k", tc.used, share))
		if err := s.Charge(start, "one", []Charge{{Key: "k", Tokens: quota.Whole(tc.charged), Standing: share}}); err != nil {
			t.Fatal(err)
		}
		v := take(s, start, settling("k", tc.cost, tc.debt, share))
		if !v.Admitted || v.Level.String() != tc.level || v.Uncharged.String() != tc.uncharged {
			t.Errorf("%s: have %+v", tc.reason, v)
		}
	}
}

func TestRefundsThatChangeNothing(t *testing.T) {
	share := per(10, 10*second, 10)
	for _, tc := range []struct {
		reason string
		st     Standing
		mode   Mode
		level  string
	}{
		{"no record: it is full", full(share), ModeStanding, "10"},
		{"no record in a later incarnation: what time gave", Standing{Capacity: share, Since: start - 3*second}, ModeStanding, "3"},
		{"everything is denied", Standing{Capacity: share, Since: start - 3*second}, ModeDeny, "3"},
		{"nothing is counted", Standing{Capacity: share, Since: start - 3*second}, ModeAllow, "3"},
	} {
		s := region()
		a := ask("k", 0, tc.st)
		a.Cost, a.Mode = -5*quota.Token, tc.mode
		if v := take(s, start, a); !v.Admitted || v.Level.String() != tc.level || s.Len() != 0 {
			t.Errorf("%s: have %+v and %d records", tc.reason, v, s.Len())
		}
	}
}

func TestRefundsAndChargesAreAllOrNothing(t *testing.T) {
	s := region()
	share := full(per(10, day, 10))
	take(s, start, ask("a", 10, share))
	take(s, start, ask("b", 8, share))
	back := ask("a", 0, share)
	back.Cost = -4 * quota.Token
	if ok, v := s.Take(start, []Ask{back, ask("b", 3, share)}); ok || v[0].Level != 0 || !v[0].Admitted || v[1].Admitted {
		t.Errorf("b denies: have %v %+v", ok, v)
	}
	if ok, v := s.Take(start, []Ask{back, ask("b", 2, share)}); !ok || v[0].Level != quota.Whole(4) || v[1].Level != 0 {
		t.Errorf("b admits: have %v %+v", ok, v)
	}
}

// A refund finds what was charged in the same step, and no sum is beyond 2^53.
func TestExtremeSumsStayExact(t *testing.T) {
	const most = quota.MaxTokens
	for _, tc := range []struct {
		reason         string
		level, x, edge quota.Tokens
		n              int64
		want           quota.Tokens
		compute        func(level, x quota.Tokens, n int64, edge quota.Tokens) quota.Tokens
	}{
		{"given back from the deepest debt", -most, most, most, 2, most, give},
		{"past zero in the middle", -5, 3, 100, 4, 7, give},
		{"to the burst from far below", -most, most - 1, 5, 3, 5, give},
		{"many small ones", -10, 1, 5, 1 << 40, 5, give},
		{"settled from the highest level", most, most, -most, 2, -most, settle},
		{"past zero in the middle", 5, 3, -100, 4, -7, settle},
		{"to the floor", 5, 3, -6, 4, -6, settle},
		{"below the floor already", -9, 3, -9, 4, -9, settle},
	} {
		if have := tc.compute(tc.level, tc.x, tc.n, tc.edge); have != tc.want {
			t.Errorf("%s: want %d, have %d", tc.reason, tc.want, have)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		level, x := quota.Tokens(rapid.Int64Range(-100, 100).Draw(t, "level")), quota.Tokens(rapid.Int64Range(1, 30).Draw(t, "x"))
		burst := max(level, quota.Tokens(rapid.Int64Range(0, 100).Draw(t, "burst")))
		floor := min(level, -quota.Tokens(rapid.Int64Range(0, 100).Draw(t, "debt")))
		up, down := level, level
		for range n {
			up, down = min(up+x, burst), max(down-x, floor)
		}
		if have := give(level, x, int64(n), burst); have != up {
			t.Fatalf("give: want %d, have %d", up, have)
		}
		if have := settle(level, x, int64(n), floor); have != down {
			t.Fatalf("settle: want %d, have %d", down, have)
		}
	})
}

// TestNetBoundOfOneBucket checks the promise of a bucket with refunds and a debt, for
// every interval of a random history: what is charged less what is given back is at
// most burst + debt + rate*W.
func TestNetBoundOfOneBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCapacity(t)
		debt := quota.Tokens(rapid.SampledFrom([]int64{0, 0, 1, 1e8, 1e10}).Draw(t, "debt"))
		s := region()
		var log []event
		at, real := start, quota.Micros(0) // the clock may be set back, time cannot
		for range rapid.IntRange(1, 60).Draw(t, "takes") {
			step := quota.Micros(rapid.Int64Range(-1000, 100_000).Draw(t, "step"))
			at, real = at+step, real+max(step, 0)
			a := Ask{Key: "k", Standing: full(c), Debt: debt, Settle: rapid.IntRange(0, 3).Draw(t, "settle") == 0}
			a.Cost = quota.Tokens(rapid.Int64Range(-int64(c.Burst), max(1, int64(c.Burst+debt))).Draw(t, "cost"))
			admitted, v := s.Take(at, []Ask{a})
			if admitted {
				log = append(log, event{real, a.Cost - v[0].Uncharged})
			}
			if v[0].Level < -debt || v[0].Level > c.Burst {
				t.Fatalf("level %d of %v with debt %d", v[0].Level, c, debt)
			}
			if rapid.IntRange(0, 9).Draw(t, "sweep") == 0 {
				s.Sweep(at)
			}
		}
		withinBound(t, c, debt, log)
	})
}
