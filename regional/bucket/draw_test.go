package bucket

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

const ms = quota.Second / 1000

// hundred gains 10 in a slot.
var hundred = full(per(100, second, 100))

func ahead(cost, tokens uint64, st Standing) Ask {
	a := ask("k", cost, st)
	a.Ahead = quota.Whole(tokens)
	return a
}

func granted(tokens uint64, span quota.Micros) Grant {
	return Grant{Tokens: quota.Whole(tokens), Span: span}
}

func TestASlotOfDrawnTokens(t *testing.T) {
	s := region()
	for _, tc := range []struct {
		reason string
		after  quota.Micros
		ask    Ask
		grant  Grant
		level  uint64 // that the verdict tells
		drawn  uint64
		until  quota.Micros
	}{
		{"the first opens a slot", 0, ahead(1, 4, hundred), granted(4, 100*ms), 99, 4, 100 * ms},
		{"while it is open the bucket gets to 96", 20 * ms, ahead(0, 0, hundred), Grant{}, 96, 4, 100 * ms},
		{"the second ends with it", 50 * ms, ahead(1, 4, hundred), granted(4, 50*ms), 95, 8, 100 * ms},
		{"the slot has what the bucket gains in it", 60 * ms, ahead(1, 4, hundred), granted(2, 40*ms), 91, 10, 100 * ms},
		{"it has all", 70 * ms, ahead(0, 4, hundred), Grant{}, 90, 10, 100 * ms},
		{"nothing in its last tenth, of which there is more", 91 * ms, ahead(0, 1, full(per(1000, second, 100))), Grant{}, 90, 10, 100 * ms},
		{"full beside it until it is over", 100 * ms, ahead(0, 0, hundred), Grant{}, 90, 10, 100 * ms},
		{"the next one", 150 * ms, ahead(1, 8, hundred), granted(8, 100*ms), 94, 8, 250 * ms},
		{"which keeps its room from the refill before and after", 2 * second, ahead(1, 0, hundred), Grant{}, 99, 8, 250 * ms},
	} {
		v := take(s, start+tc.after, tc.ask)
		if !v.Admitted || v.Grant != tc.grant || v.Level != quota.Whole(tc.level) {
			t.Errorf("%s: have %+v, want %+v of %d", tc.reason, v, tc.grant, tc.level)
		}
		if rec, _ := s.Read("k"); rec.Drawn != quota.Whole(tc.drawn) || rec.DrawnUntil != start+tc.until {
			t.Errorf("%s: have %v until %d, want %d until %d", tc.reason, rec.Drawn, rec.DrawnUntil-start, tc.drawn, tc.until)
		}
	}
}

// A bucket that nobody looks at while a slot is open gains beside it and then on.
func TestARefillOverTheEndOfASlot(t *testing.T) {
	for _, tc := range []struct {
		reason string
		cost   uint64
		after  quota.Micros
		level  uint64
	}{
		{"full beside it, then 5 more", 1, 150 * ms, 95},
		{"full again", 1, second, 100},
		{"never full beside it", 30, 150 * ms, 75},
		{"at its end", 5, 100 * ms, 90},
	} {
		s := region()
		take(s, start, ahead(tc.cost, 10, hundred))
		if v := take(s, start+tc.after, ahead(0, 0, hundred)); v.Level != quota.Whole(tc.level) {
			t.Errorf("%s: have %v, want %d", tc.reason, v.Level, tc.level)
		}
	}
}

// What of the time has not become tokens when the slot ends counts for the next one.
func TestASlotCostsNoFractions(t *testing.T) {
	slow := full(per(1, 3*second, 100)) // a micro-token in 3 us
	s := region()
	a := ask("k", 1, slow)
	a.Ahead = 33_333
	if v := take(s, start, a); v.Grant.Tokens != 33_333 {
		t.Fatalf("have %+v", v)
	}
	if v := take(s, start+100*ms+2, ask("k", 0, slow)); v.Level != quota.Whole(99)-33_333+33_334 || v.Unspent != 0 {
		t.Errorf("have %d and %d us", v.Level, v.Unspent)
	}
}

func TestWhatIsDrawn(t *testing.T) {
	wide := full(per(200, second, 100)) // gains 20 in a slot: an eighth of the burst counts
	debt := func(a Ask) Ask { a.Debt = quota.Whole(50); return a }
	mode := func(m Mode, a Ask) Ask { a.Mode = m; return a }
	settle := ahead(40, 10, wide)
	settle.Settle, settle.Debt = true, quota.Whole(50)
	fixed := full(quota.Capacity{Burst: quota.Whole(100)})
	fixed.Lasts = minute
	window := full(quota.Capacity{Rate: quota.Rate{Per: second}, Burst: quota.Whole(100)})
	window.Window = LogWindow
	for _, tc := range []struct {
		reason string
		ask    Ask
		want   uint64
	}{
		{"all", ahead(1, 10, wide), 10},
		{"a look, too", ahead(0, 10, wide), 10},
		{"an eighth of the burst at most", ahead(1, 48, full(per(200, second, 96))), 12},
		{"the gain of a slot at most", ahead(1, 39, hundred), 10},
		{"a quarter of what is asked for is enough", ahead(1, 40, hundred), 10},
		{"less is nothing", ahead(1, 44, hundred), 0},
		{"nothing of the lower half", ahead(45, 10, wide), 5},
		{"nothing from it", ahead(50, 10, wide), 0},
		{"where an eighth of the burst is half of the gain", ahead(1, 10, full(per(250, second, 100))), 10},
		{"or less", ahead(1, 10, full(per(252, second, 100))), 0},
		{"nor by who makes a debt", debt(ahead(120, 1, wide)), 0},
		{"nothing with a denial", ahead(101, 10, wide), 0},
		{"with what is settled", settle, 10},
		{"where a mode denies", mode(ModeDeny, ahead(0, 10, wide)), 0},
		{"where a mode admits all", mode(ModeAllow, ahead(1, 10, wide)), 0},
		{"of no share", ahead(0, 10, Standing{Capacity: quota.Capacity{Rate: wide.Rate}}), 0},
		{"of a fixed window", ahead(1, 10, fixed), 0},
		{"of a sliding window", ahead(1, 10, window), 0},
	} {
		v := take(region(), start, tc.ask)
		if v.Grant.Tokens != quota.Whole(tc.want) || (tc.want > 0) != (v.Grant.Span > 0) {
			t.Errorf("%s: have %+v, want %d", tc.reason, v.Grant, tc.want)
		}
	}
}

// Drawn tokens end with what they were drawn from.
func TestDrawnTokensEndWithTheLeaseOrTheLoan(t *testing.T) {
	const deadline = 10 * second
	leased := func(t *testing.T) *Store {
		s := connected(t)
		mustApply(t, s, start, assign(1, lease, 90))
		return s
	}
	borrowed := func(t *testing.T) *Store { return borrower(t, deadline-second) }
	hold := ahead(1, 4, share)
	hold.Mode = ModeHold
	for _, tc := range []struct {
		reason string
		store  func(t *testing.T) *Store
		at     quota.Micros
		ask    Ask
		span   quota.Micros
	}{
		{"before the deadline", leased, deadline - 200*ms, ahead(1, 4, share), 100 * ms},
		{"close to it", leased, deadline - 60*ms, ahead(1, 4, share), 60 * ms},
		{"too close", leased, deadline - 10*ms + 1, ahead(1, 4, share), 0},
		{"on hold", leased, deadline, hold, 0},
		{"before the loan ends", borrowed, deadline - second - 200*ms, ahead(1, 4, share), 100 * ms},
		{"close to it", borrowed, deadline - second - 60*ms, ahead(1, 4, share), 60 * ms},
		{"too close", borrowed, deadline - second - 9*ms, ahead(1, 4, share), 0},
		{"after it", borrowed, deadline - second, ahead(1, 4, share), 100 * ms},
	} {
		s := tc.store(t)
		v := take(s, start+tc.at, tc.ask)
		rec, _ := s.Read("k")
		if v.Grant.Span != tc.span || tc.span > 0 && rec.DrawnUntil != start+tc.at+tc.span {
			t.Errorf("%s: have %+v, until %d", tc.reason, v.Grant, rec.DrawnUntil-start)
		}
	}
	// A slot that is open stays open when a loan comes that ends before it, and what is
	// drawn of that ends with it.
	s := leased(t)
	take(s, start, ahead(30, 4, share))
	mustBorrow(t, s, start, borrowing(2, loaned), start+60*ms)
	v := take(s, start, ahead(1, 4, share))
	if rec, _ := s.Read("k"); v.Grant != granted(4, 60*ms) || rec.DrawnUntil != start+100*ms || rec.Drawn != quota.Whole(8) {
		t.Errorf("have %+v, %+v", v.Grant, rec)
	}
}

// A lease that is smaller than what is drawn is applied, and not confirmed before the
// slot is over.
func TestALeaseBelowWhatIsDrawnSettles(t *testing.T) {
	release := func(burst uint64) quota.Assignment {
		a := assign(2, per(1, second, burst), 0)
		a.Release = true
		return a
	}
	short := assign(2, per(5, second, 5), 0)
	short.Loan = &quota.Loan{Capacity: per(5, second, 5)}
	for _, tc := range []struct {
		reason      string
		a           quota.Assignment
		loan        quota.Micros
		settles     bool
		surrendered uint64
		level       uint64
	}{
		{"enough room", assign(2, per(20, second, 20), 0), 0, false, 70, 10},
		{"all the room", assign(2, per(10, second, 10), 0), 0, false, 80, 0},
		{"more than the room", assign(2, per(9, second, 9), 0), 0, true, 80, 0},
		{"released", release(20), 0, false, 70, 10},
		{"released with too little", release(9), 0, true, 80, 0},
		{"a loan makes room", short, second, false, 80, 0},
		{"unless it ends before", short, 99 * ms, true, 80, 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := connected(t)
			mustApply(t, s, start, assign(1, lease, 90))
			if v := take(s, start, ahead(10, 10, share)); v.Grant != granted(10, 100*ms) {
				t.Fatalf("drawn: have %+v", v.Grant)
			}
			want := quota.Applied{Key: "k", Session: 5, Epoch: 2, Surrendered: quota.Whole(tc.surrendered)}
			for _, p := range []struct {
				at      quota.Micros
				settles bool
			}{{0, tc.settles}, {50 * ms, tc.settles}, {100*ms - 1, tc.settles}, {100 * ms, false}, {20 * second, false}} {
				have, err := s.Apply(start+p.at, "one", ApplyAsk{Assignment: tc.a, Standing: hundred, LoanUntil: start + tc.loan})
				if have != want || errors.Is(err, ErrSettling) != p.settles || (err != nil) != p.settles {
					t.Errorf("after %d us: have %+v, %v, want %+v", p.at, have, err, want)
				}
				if rec, _ := s.Read("k"); rec.Level != quota.Whole(tc.level) || rec.Drawn != quota.Whole(10) {
					t.Errorf("after %d us: have %+v", p.at, rec)
				}
			}
		})
	}
}

// What is given back finds no room where tokens are drawn, and debts are paid beside them.
func TestRefundsAndDebtsBesideDrawnTokens(t *testing.T) {
	refund := func(n uint64) Ask { a := ask("k", 0, hundred); a.Cost = -quota.Whole(n); return a }
	for _, tc := range []struct {
		reason string
		ask    Ask
		at     quota.Micros
		level  string
	}{
		{"a part", refund(3), 0, "88"},
		{"up to the room", refund(50), 0, "90"},
		{"up to the burst when the slot is over", refund(50), 100 * ms, "100"},
		{"a debt is made of the level", settling("k", 200, 50, hundred), 0, "-50"},
		{"no debt more is made for them", owing("k", 140, 50, hundred), 0, "85"},
	} {
		s := region()
		take(s, start, ahead(5, 10, hundred))
		if v := take(s, start+tc.at, tc.ask); v.Level.String() != tc.level {
			t.Errorf("%s: have %v, want %s", tc.reason, v.Level, tc.level)
		}
	}
}

// Who comes after knows of drawn tokens in all records of the incarnation.
func TestDrawnTokensBelongToTheIncarnation(t *testing.T) {
	drawn := func(t *testing.T) *Store {
		s := connected(t)
		mustApply(t, s, start, assign(1, lease, 90))
		take(s, start, ahead(10, 10, share))
		return s
	}
	for _, tc := range []struct {
		reason string
		play   func(t *testing.T, s *Store)
		want   uint64
	}{
		{"another session", func(t *testing.T, s *Store) {
			mustRenew(t, s, start, 6, start+minute)
			take(s, start, ask("k", 1, hundred))
		}, 10},
		{"its first lease", func(t *testing.T, s *Store) {
			mustRenew(t, s, start, 6, start+minute)
			a := assign(1, lease, 0)
			a.Session = 6
			mustApply(t, s, start, a)
		}, 10},
		{"a charge", func(t *testing.T, s *Store) {
			if err := s.Charge(start, "one", []Charge{{Key: "k", Tokens: 1, Standing: share}}); err != nil {
				t.Fatal(err)
			}
		}, 10},
		{"what is on loan", func(t *testing.T, s *Store) {
			if err := s.Lend(start, "one", []LendAsk{{Key: "k"}}, minute); err != nil {
				t.Fatal(err)
			}
		}, 10},
		{"another incarnation", func(_ *testing.T, s *Store) {
			s.Incarnate(start, "two")
			take(s, start, ask("k", 1, hundred))
		}, 0},
	} {
		s := drawn(t)
		tc.play(t, s)
		if rec, _ := s.Read("k"); rec.Drawn != quota.Whole(tc.want) || (rec.DrawnUntil > 0) != (tc.want > 0) {
			t.Errorf("%s: have %+v", tc.reason, rec)
		}
	}
}

// Nobody may take the same tokens for two grants.
func TestOneKeyTwiceInATakeDrawsOnce(t *testing.T) {
	_, v := region().Take(start, []Ask{ahead(1, 2, hundred), ahead(1, 8, hundred)})
	if v[0].Grant != granted(8, 100*ms) || v[1].Grant != (Grant{}) {
		t.Errorf("have %+v and %+v", v[0].Grant, v[1].Grant)
	}
}

// After a number of runs it is drawn once, if any of them was served.
func TestManyRunsDrawOnce(t *testing.T) {
	for _, tc := range []struct {
		costs []uint64
		want  uint64
	}{{[]uint64{1, 200, 39}, 10}, {[]uint64{200, 300}, 0}} {
		var runs []Run
		for _, c := range tc.costs {
			runs = append(runs, Run{Count: 1, Costs: []quota.Tokens{quota.Whole(c)}})
		}
		_, _, _, grants := region().TakeRuns(start, []Ask{ahead(0, 10, hundred)}, runs)
		if len(grants) != 1 || grants[0].Tokens != quota.Whole(tc.want) {
			t.Errorf("%v: have %v, want %d", tc.costs, grants, tc.want)
		}
	}
}

func TestAheadIsInRange(t *testing.T) {
	for _, bad := range []quota.Tokens{-1, quota.MaxTokens + 1} {
		if err := (&Ask{Ahead: bad}).Valid(); !errors.Is(err, ErrRange) {
			t.Errorf("%d: have %v", bad, err)
		}
	}
	if err := (&Ask{Ahead: quota.MaxTokens}).Valid(); err != nil {
		t.Error(err)
	}
}
