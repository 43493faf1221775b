package bucket

import (
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

var (
	lease  = per(100, second, 100)
	loaned = per(10, second, 10)
)

// borrowing is an assignment of the lease with a loan beside it, and 4 tokens.
func borrowing(epoch quota.Epoch, c quota.Capacity) quota.Assignment {
	a := assign(epoch, lease, 0)
	a.Loan = &quota.Loan{Capacity: c, Credit: quota.Whole(4)}
	return a
}

func mustBorrow(t *testing.T, s *Store, at quota.Micros, a quota.Assignment, until quota.Micros) quota.Applied {
	t.Helper()
	applied, err := s.Apply(at, "one", ApplyAsk{Assignment: a, Standing: share, LoanUntil: until})
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

// borrower is a connected region with a lease of 100 that borrows 10 until start + until.
func borrower(t *testing.T, until quota.Micros) *Store {
	t.Helper()
	s := connected(t)
	mustApply(t, s, start, assign(1, lease, 50))
	mustBorrow(t, s, start, borrowing(2, loaned), start+until)
	return s
}

func TestALoanIsBesideTheLeaseUntilItEnds(t *testing.T) {
	const until = 5 * second
	both := lease.Add(loaned)
	hold := func(a Ask) Ask { a.Mode = ModeHold; return a }
	for _, tc := range []struct {
		reason   string
		until    quota.Micros
		play     func(t *testing.T, s *Store)
		at       quota.Micros
		ask      Ask
		holding  Holding
		capacity quota.Capacity
		level    uint64
	}{
		{"at once, with its credit", until, nil, 0, ask("k", 0, share), OnLease, both, 64},
		{"it accrues", until, nil, second / 10, ask("k", 0, share), OnLease, both, 75},
		{"the last microsecond", until, nil, until - 1, ask("k", 0, share), OnLease, both, 110},
		{"over", until, nil, until, ask("k", 0, share), OnLease, lease, 100},
		{"over before it was written: what accrued of it is given up", second / 10, nil, second / 10, ask("k", 0, share), OnLease, lease, 74},
		{"over on arrival: no credit either", 0, nil, 0, ask("k", 0, share), OnLease, lease, 60},
		{"held, before the deadline", 20 * second, nil, 10*second - 1, hold(ask("k", 0, share)), OnLease, both, 110},
		{"a loan is never held beyond the deadline", 20 * second, nil, 10 * second, hold(ask("k", 0, share)), OnHold, lease, 100},
		{"nor is it standing", 20 * second, nil, 10 * second, ask("k", 0, share), OnStanding, share.Capacity, 10},
		{"a renewal makes no loan longer", until, func(t *testing.T, s *Store) { mustRenew(t, s, start, 5, start+minute) },
			until, ask("k", 0, share), OnLease, lease, 100},
		{"a clock that steps back revives none", until, func(_ *testing.T, s *Store) { s.State(start + until) },
			second / 10, ask("k", 0, share), OnLease, lease, 74},
		{"another session has none", 20 * second, func(t *testing.T, s *Store) { mustRenew(t, s, start, 6, start+minute) },
			0, ask("k", 0, share), OnStanding, share.Capacity, 10},
		{"nor a lease of that session", 20 * second, func(t *testing.T, s *Store) {
			mustRenew(t, s, start, 6, start+minute)
			a := assign(3, lease, 0)
			a.Session = 6
			mustApply(t, s, start, a)
		}, 0, ask("k", 0, share), OnLease, lease, 10},
		{"the session is dropped", 20 * second, func(_ *testing.T, s *Store) { s.Drop(5) }, 0, ask("k", 0, share), OnStanding, share.Capacity, 10},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := borrower(t, tc.until)
			if tc.play != nil {
				tc.play(t, s)
			}
			v := take(s, start+tc.at, tc.ask)
			if v.Holding != tc.holding || v.Capacity != tc.capacity || v.Level.Floor() != int64(tc.level) {
				t.Errorf("have %v on %v with %v, want %d on %v with %v", v.Level, v.Holding, v.Capacity, tc.level, tc.holding, tc.capacity)
			}
		})
	}
}

// A write in another session clears what the record says of a loan.
func TestAWriteClearsTheLoanOfAnOlderSession(t *testing.T) {
	s := borrower(t, 20*second)
	mustRenew(t, s, start, 6, start+minute)
	take(s, start, ask("k", 1, share))
	if rec, _ := s.Read("k"); rec.Loan != (quota.Capacity{}) || rec.LoanUntil != 0 {
		t.Errorf("have %v until %d", rec.Loan, rec.LoanUntil)
	}
}

func TestAnAssignmentAfterALoan(t *testing.T) {
	const at = second // the bucket is full then: 110
	plain := assign(3, lease, 0)
	none := plain
	none.Loan = &quota.Loan{Capacity: quota.Capacity{Rate: quota.Rate{Per: lease.Rate.Per}}}
	more := plain
	more.Loan = &quota.Loan{Capacity: per(30, second, 30), Credit: quota.Whole(20)}
	release := assign(3, share.Capacity, 0)
	release.Release = true
	for _, tc := range []struct {
		reason      string
		a           quota.Assignment
		until       quota.Micros
		loan        quota.Capacity
		ends        quota.Micros
		surrendered uint64
	}{
		{"one that says nothing of loans leaves it", plain, 0, loaned, start + 5*second, 0},
		{"also when the lease changes", assign(3, per(50, second, 50), 0), 0, loaned, start + 5*second, 50},
		{"a newer loan comes in its place", more, start + 9*second, per(30, second, 30), start + 9*second, 0},
		{"also a smaller and shorter one", borrowing(3, per(5, second, 5)), start + 2*second, per(5, second, 5), start + 2*second, 9},
		{"an empty one ends it", none, 0, quota.Capacity{}, 0, 10},
		{"one that is over ends it, with its credit", more, start + at, quota.Capacity{}, 0, 10},
		{"a lease of another period drops it", assign(3, per(6000, minute, 100), 0), 0, quota.Capacity{}, 0, 10},
		{"a loan of another period is none", borrowing(3, per(600, minute, 10)), start + 9*second, quota.Capacity{}, 0, 14},
		{"a release drops it", release, 0, quota.Capacity{}, 0, 100},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := borrower(t, 5*second)
			applied := mustBorrow(t, s, start+at, tc.a, tc.until)
			rec, _ := s.Read("k")
			if rec.Loan != tc.loan || rec.LoanUntil != tc.ends {
				t.Errorf("have %v until %d, want %v until %d", rec.Loan, rec.LoanUntil, tc.loan, tc.ends)
			}
			if applied.Surrendered != quota.Whole(tc.surrendered) {
				t.Errorf("surrendered: have %v, want %d", applied.Surrendered, tc.surrendered)
			}
			if again := mustBorrow(t, s, start+at, tc.a, start+minute); again != applied {
				t.Errorf("a repeat: have %+v, want %+v", again, applied)
			}
			if after, _ := s.Read("k"); after != rec {
				t.Errorf("a repeat changed the record: %+v, then %+v", rec, after)
			}
		})
	}
}

// Demand that comes back to a lender is served from the pool and from what others
// lend, and its own share stays away.
func TestALenderMayBorrow(t *testing.T) {
	s := lender(t)
	mustApply(t, s, start+second, assign(2, per(20, 10*second, 20), 0))
	a := assign(3, per(20, 10*second, 20), 0)
	a.Loan = &quota.Loan{Capacity: per(5, 10*second, 5), Credit: quota.Whole(5)}
	mustBorrow(t, s, start+second, a, start+4*second)
	if v := take(s, start+second, ask("k", 5, share)); !v.Admitted || v.Capacity != per(25, 10*second, 25) {
		t.Errorf("have %+v, want what it borrows", v)
	}
	if v := take(s, start+10*second, ask("k", 0, share)); v.Holding != OnNothing {
		t.Errorf("after the deadline: have %v, its own share is still away", v.Holding)
	}
	if rec, _ := s.Read("k"); rec.Away != back {
		t.Errorf("away until %d, want %d", rec.Away, back)
	}
}
