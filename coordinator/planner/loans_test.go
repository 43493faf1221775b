package planner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// large gives every one of three regions 300 of 1,000 a second for good.
var large = document(1000, "second", 1000, "0.9")

func perSecond(n uint64) quota.Capacity {
	return quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(n), Per: quota.Second}, Burst: quota.Whole(n)}
}

// hungryMarket is one where eu wants all of shop and more, and others nothing.
func hungryMarket(t *testing.T) *market {
	m := newMarket(t, large)
	m.wants["eu"] = []quota.Usage{greedy(shop)}
	return m
}

func TestIdleSharesAreLentToWhoIsShort(t *testing.T) {
	m := hungryMarket(t)
	began := m.now
	m.play(20 * time.Second)
	for _, r := range []string{"ap", "us"} {
		if at := m.offers(r); len(at) != 1 || at[0]-began < lendUnseen || at[0]-began > lendUnseen+quota.Second/2 {
			t.Errorf("%s lends at %v, want once, when it was not seen for %v", r, at, lendUnseen.Duration())
		}
	}
	var all []ledger.Borrow
	for _, op := range m.since(0) {
		if b, ok := op.(ledger.Borrow); ok {
			all = append(all, b)
		}
	}
	if len(all) != 1 || all[0].Region != "eu" || !slices.Equal(all[0].Lenders, []string{"ap", "us"}) {
		t.Errorf("have %+v, want that eu borrows both at once", all)
	}
	if have := m.borrowed("eu"); have != perSecond(600) || m.ended() != 0 {
		t.Errorf("eu borrows %v, %d loans ended; want 600 and none", have, m.ended())
	}
	loan := m.loan("eu")
	if loan.Capacity != perSecond(600) || loan.Credit != 200*quota.Token {
		t.Errorf("told: %+v, want both shares and what was in them", loan)
	}
	if loan.Left <= 57*time.Second || loan.Left >= time.Minute {
		t.Errorf("told: %v left, want less than a minute, and no more than needed", loan.Left)
	}
}

// How soon a region's share is lent depends on what is known of it.
func TestAShareIsLentWhenItsRegionIsQuiet(t *testing.T) {
	m := newMarket(t, large)
	m.wants["us"] = []quota.Usage{asks(shop, 20, 10, 0)}
	m.play(2 * time.Second)
	m.wants["us"] = nil
	m.wants["eu"] = []quota.Usage{greedy(shop)}
	quiet := m.now
	m.play(30 * time.Second)
	ap, us := m.offers("ap"), m.offers("us")
	if len(ap) == 0 || ap[0] > quiet+quota.Second {
		t.Errorf("ap, never seen, lends at %v", ap)
	}
	if len(us) == 0 || us[0] < quiet+lendQuiet {
		t.Errorf("us lends at %v, and was seen until %v", us, quiet.Duration())
	}
}

// The time that is left counts from the leadership check of the answer, which came
// after the sync; no push tells of a loan.
func TestALoanIsAnsweredFromTheCheck(t *testing.T) {
	m := hungryMarket(t)
	m.deaf["eu"] = true
	m.play(1200 * time.Millisecond)
	m.deaf["eu"] = false
	m.turn("eu") // its lease
	m.deaf["eu"] = true
	m.play(time.Second)
	h, _ := m.l.Account(shop).Holding("eu")
	if h.Flight == nil || !h.Flight.Borrows {
		t.Fatalf("nothing borrowed is in flight: %+v", h)
	}
	lentAt := m.l.Account(shop).Loans()[0].At
	timing := quota.DefaultTiming()
	for _, age := range []quota.Micros{0, quota.Second} { // how long ago the check was
		m.now += quota.Second
		req := m.request("eu")
		m.term.Receive(m.at(), m.l, req)
		all := m.term.Answer(m.at(), m.at()-age, m.l, req).Assignments
		if len(all) != 1 || all[0].Loan == nil {
			t.Fatalf("check %v ago: have %+v, want a loan", age.Duration(), all)
		}
		want := timing.Sure(timing.Loan) - timing.Delta - (m.at() - age - lentAt).Duration()
		if have := all[0].Loan.Left; have != want {
			t.Errorf("check %v ago: %v left, want %v", age.Duration(), have, want)
		}
	}
	m.now = m.began + lentAt + quota.MicrosOf(timing.Sure(timing.Loan)-timing.Delta)
	if l := m.sync("eu").Assignments[0].Loan; l.Left != 0 || l.Credit != 0 || !l.Capacity.IsZero() {
		t.Errorf("when it is over: have %+v", l)
	}
}

// A borrower that was out of reach for a whole loan is told nothing of what its lender
// has lent since, to another region, nor given the tokens of the loan that is over.
func TestALoanThatIsLentAnewIsNotToldToItsFormerBorrower(t *testing.T) {
	m := hungryMarket(t)
	m.deaf["eu"] = true
	m.play(1200 * time.Millisecond)
	m.deaf["eu"] = false
	m.turn("eu") // its lease
	m.deaf["eu"] = true
	m.play(time.Second)
	h, _ := m.l.Account(shop).Holding("eu")
	if h.Flight == nil || len(h.Flight.Lenders) != 2 || h.Flight.Borrowed == 0 {
		t.Fatalf("in flight: have %+v, want two loans with tokens", h.Flight)
	}
	do := func(op ledger.Op) {
		t.Helper()
		if err := m.commit(op)[0]; err != nil {
			t.Fatalf("%+v: %v", op, err)
		}
	}
	epoch := func(region string) quota.Epoch {
		h, _ := m.l.Account(shop).Holding(region)
		return h.Epoch
	}
	m.now += 61 * quota.Second
	for _, lender := range []string{"ap", "us"} {
		do(ledger.EndLoan{Key: shop, Lender: lender})
	}
	do(ledger.Lend{Region: "us", Session: m.session("us"), Key: shop, Prev: epoch("us"), For: quota.MicrosOf(time.Minute)})
	do(ledger.Confirm{Region: "us", Session: m.session("us"), Key: shop, Epoch: epoch("us")})
	do(ledger.Borrow{Region: "ap", Session: m.session("ap"), Key: shop, Prev: epoch("ap"), Lenders: []string{"us"}})
	h, _ = m.l.Account(shop).Holding("eu")
	a, ok := m.term.assignment(m.at(), m.l, m.term.regions["eu"], shop, &flight{epoch: h.Epoch})
	if !ok || a.Loan == nil || *a.Loan != (quota.Loan{Capacity: quota.Capacity{Rate: quota.Rate{Per: quota.Second}}}) {
		t.Errorf("have %+v with a loan of %+v, want one of nothing", a, a.Loan)
	}
}

// There must be room for a standing share that grows while it is on loan: its region
// is offered no rules before, and does not get on without them.
func TestRoomIsMadeForAShareThatGrowsWhileItIsLent(t *testing.T) {
	m := newMarket(t, document(1000, "second", 1000, "0.3"))
	m.wants["eu"] = []quota.Usage{greedy(shop)}
	m.play(5 * time.Second)
	if have := m.borrowed("eu"); have != perSecond(200) {
		t.Fatalf("eu borrows %v, want the shares of ap and us", have)
	}
	m.commit(ledger.SetRules{Sources: large})
	m.play(5 * time.Second)
	for _, r := range m.regions {
		if have, want := m.l.Region(r).Offered, m.l.Current().Version; have != want {
			t.Errorf("%s is offered configuration %d, want %d", r, have, want)
		}
	}
}

func TestLoansAreMadeLongerAtHalfTime(t *testing.T) {
	m := hungryMarket(t)
	m.play(2 * time.Second)
	for range 600 {
		m.play(200 * time.Millisecond)
		if have := m.borrowed("eu"); have != perSecond(600) {
			t.Fatalf("at %v eu borrows %v", m.now.Duration(), have)
		}
		for _, n := range m.l.Account(shop).Loans() {
			if left := n.Left(m.no, m.at()); left < 29*quota.Second {
				t.Fatalf("at %v only %v of the loan of %s is left", m.now.Duration(), left.Duration(), n.Lender)
			}
		}
	}
	for _, r := range []string{"ap", "us"} {
		at := m.offers(r)
		if len(at) != 5 {
			t.Errorf("%s lends at %v, want 5 times in 2 minutes", r, at)
		}
		for i := 1; i < len(at); i++ {
			if d := at[i] - at[i-1]; d < 29*quota.Second || d > 31*quota.Second {
				t.Errorf("%s lends again after %v, want half a minute", r, d.Duration())
			}
		}
	}
	if n := count[ledger.Borrow](m.since(0)); n != 5 || m.ended() != 0 {
		t.Errorf("%d times told, %d ended; want once for both each time", n, m.ended())
	}
	if l := m.loan("eu"); l.Credit != 0 || l.Capacity != perSecond(600) {
		t.Errorf("told again: have %+v, want the same without tokens", l)
	}
}

// In another term nobody knows when the loan was made. What is in flight is worth
// nothing, so the lenders lend again at once, and then the borrower has it all.
func TestLoansAfterAnElection(t *testing.T) {
	for _, deaf := range []bool{true, false} {
		m := hungryMarket(t)
		m.play(1200 * time.Millisecond)
		m.deaf["eu"] = deaf
		m.play(time.Second)
		if m.borrowed("eu") != perSecond(600) {
			t.Fatalf("eu borrows %v", m.borrowed("eu"))
		}
		m.now += quota.Second
		m.elect()
		elected := m.now
		if resp := m.sync("eu", uses(greedy(shop))); deaf {
			if len(resp.Assignments) != 1 || resp.Assignments[0].Loan == nil {
				t.Fatalf("not confirmed: have %+v", resp.Assignments)
			}
			if l := resp.Assignments[0].Loan; !l.Capacity.IsZero() || l.Credit != 0 || l.Left != 0 {
				t.Errorf("not confirmed, of an older term: have %+v, want nothing", l)
			}
		}
		m.deaf["eu"] = false
		m.play(10 * time.Second)
		for _, r := range []string{"ap", "us"} {
			at := m.offers(r)
			if len(at) != 2 || at[1] > elected+quota.Second {
				t.Errorf("deaf %v: %s lends at %v, want again right after the election at %v", deaf, r, at, elected)
			}
		}
		if l := m.loan("eu"); l.Capacity != perSecond(600) || l.Left < 55*time.Second || m.ended() != 0 {
			t.Errorf("deaf %v: told %+v, %d ended; want both for nearly a minute", deaf, l, m.ended())
		}
	}
}

// What was on its way to a borrower at an election is worth nothing to it. Where its
// lender asks for something meanwhile, and so does not lend again, it is called back:
// else the borrower would be counted with it for another minute, and get that much less
// of the pool.
func TestALoanThatItsBorrowerHasNotIsCalledBack(t *testing.T) {
	for _, tt := range []struct {
		reason     string
		deaf, asks bool
		borrowed   uint64
		ended      int
	}{
		{"the lenders ask, and the borrower has heard of nothing", true, true, 0, 2},
		{"the lenders ask, and the borrower has it", false, true, 600, 0},
		{"the lenders lend again, and the borrower has heard of nothing", true, false, 600, 0},
	} {
		m := hungryMarket(t)
		m.play(1200 * time.Millisecond)
		m.deaf["eu"] = tt.deaf
		m.play(time.Second)
		if have := m.borrowed("eu"); have != perSecond(600) {
			t.Fatalf("eu borrows %v", have)
		}
		m.elect()
		m.deaf["eu"] = false
		if tt.asks {
			m.wants["ap"] = []quota.Usage{asks(shop, 30, 30, 0)}
			m.wants["us"] = m.wants["ap"]
		}
		m.play(15 * time.Second)
		if have := m.borrowed("eu"); have != perSecond(tt.borrowed) || m.ended() != tt.ended {
			t.Errorf("%s: eu borrows %v, %d ended; want %d and %d", tt.reason, have, m.ended(), tt.borrowed, tt.ended)
		}
		if has := m.loans["eu"+string(shop)]; has.Capacity != perSecond(tt.borrowed) || tt.borrowed > 0 && m.now >= has.until {
			t.Errorf("%s: eu has %v until %v, at %v", tt.reason, has.Capacity, has.until.Duration(), m.now.Duration())
		}
	}
}

// A region that has lost what it borrows, though the loan goes on, is told of it again,
// not at every turn.
func TestALoanThatItsBorrowerHasLostIsToldAgain(t *testing.T) {
	m := hungryMarket(t)
	m.play(10 * time.Second)
	lost, times := m.now, count[ledger.Borrow](m.since(0))
	delete(m.loans, "eu"+string(shop))
	m.play(5 * time.Second)
	if n := count[ledger.Borrow](m.since(lost)); n != 1 {
		t.Errorf("told %d times after %d, want once", n, times)
	}
	if has := m.loans["eu"+string(shop)]; has.Capacity != perSecond(600) || m.now >= has.until {
		t.Errorf("eu has %v until %v", has.Capacity, has.until.Duration())
	}
	if m.borrowed("eu") != perSecond(600) || m.ended() != 0 {
		t.Errorf("eu borrows %v, %d ended", m.borrowed("eu"), m.ended())
	}
}

func TestAShareIsGivenBackToALenderThatNeedsIt(t *testing.T) {
	m := hungryMarket(t)
	m.play(10 * time.Second)
	asked := m.now
	m.wants["us"] = []quota.Usage{greedy(shop)}
	m.play(5 * time.Second)
	called := slices.IndexFunc(m.since(asked), func(op ledger.Op) bool {
		b, ok := op.(ledger.Borrow)
		return ok && b.Region == "eu" && slices.Equal(b.Lenders, []string{"ap"})
	})
	given := slices.IndexFunc(m.since(asked), func(op ledger.Op) bool { return op == ledger.EndLoan{Key: shop, Lender: "us"} })
	if called < 0 || given < called || m.ended() != 1 {
		t.Errorf("called back by operation %d, ended by %d; want both, in this order: %+v", called, given, m.since(asked))
	}
	a := m.l.Account(shop)
	if a.Lent("us") || !a.Lent("ap") || m.borrowed("eu") != perSecond(300) {
		t.Errorf("lent by us: %v, by ap: %v, borrowed %v; want the one of ap alone", a.Lent("us"), a.Lent("ap"), m.borrowed("eu"))
	}
	if l := m.loan("eu"); l.Capacity != perSecond(300) {
		t.Errorf("told: have %+v, want one share", l)
	}
	if have := a.Reserved("us"); !have.Covers(perSecond(300)) {
		t.Errorf("us has %v, want its share at least", have)
	}
	if fresh := m.offers("us"); len(fresh) != 1 {
		t.Errorf("us lends at %v while it asks", fresh)
	}
}

// A lender that can be served otherwise has a lease beside its loan, which runs out by
// itself: who holds a lease cannot lend again.
func TestALenderIsServedFromThePool(t *testing.T) {
	m := hungryMarket(t)
	m.play(10 * time.Second)
	m.wants["us"] = []quota.Usage{asks(shop, 60, 60, 0)}
	m.play(10 * time.Second)
	a := m.l.Account(shop)
	h, _ := a.Holding("us")
	if !h.Leased || h.Lease.Rate.Tokens < quota.Whole(60) || !a.Lent("us") || m.borrowed("eu") != perSecond(600) || m.ended() != 0 {
		t.Errorf("us holds %+v, lent: %v, eu borrows %v; want a lease beside the loan", h, a.Lent("us"), m.borrowed("eu"))
	}
	m.play(60 * time.Second)
	if a := m.l.Account(shop); a.Lent("us") || !a.Lent("ap") || m.borrowed("eu") != perSecond(300) || !a.Reserved("us").Covers(perSecond(300)) {
		t.Errorf("lent by us: %v, by ap: %v, us has %v; want that the loan of us is over", a.Lent("us"), a.Lent("ap"), a.Reserved("us"))
	}
	if n := len(m.offers("us")); n != 1 {
		t.Errorf("us lent %d times", n)
	}
}

// untaken is a market in which nobody has taken the loan of a lender.
func untaken(t *testing.T) (m *market, lender string) {
	t.Helper()
	m = newMarket(t, document(1000, "second", 1000, "0.03"))
	m.wants["eu"] = []quota.Usage{greedy(shop)}
	m.play(20 * time.Second)
	i := slices.IndexFunc(m.l.Account(shop).Loans(), func(n ledger.Loan) bool { return n.Borrower == "" })
	if i < 0 {
		t.Fatalf("all were taken: %+v", m.l.Account(shop).Loans())
	}
	return m, m.l.Account(shop).Loans()[i].Lender
}

// A loan that nobody took is ended when its lender asks, before anything else is
// planned: a lease that was planned without the share would be refused, which the desk
// does not allow.
func TestALoanThatNobodyTookEndsFirst(t *testing.T) {
	m, lender := untaken(t)
	m.wants[lender] = []quota.Usage{asks(shop, 60, 60, 0)}
	m.play(2 * time.Second)
	a := m.l.Account(shop)
	if a.Lent(lender) || m.ended() != 1 || a.Reserved(lender).Rate.Tokens < quota.Whole(60) {
		t.Errorf("lent by %s: %v, it has %v; want its share and more", lender, a.Lent(lender), a.Reserved(lender))
	}
}

// A lender of a loan that nobody took does without its share until it hears that the loan
// is over, also where the share is all that it needs and the pool has nothing for it.
func TestALenderHearsThatItsLoanHasEndedEarly(t *testing.T) {
	m, lender := untaken(t)
	m.wants[lender] = []quota.Usage{asks(shop, 5, 5, 0)}
	asked := m.now
	m.play(3 * time.Second)
	told := slices.ContainsFunc(m.since(asked), func(op ledger.Op) bool {
		a, ok := op.(ledger.Assign)
		return ok && a.Region == lender
	})
	if m.ended() != 1 || !told {
		t.Errorf("loans ended: %d, assigned to %s since: %v; want both: %+v", m.ended(), lender, told, m.since(asked))
	}
}

func TestNothingIsLentInVain(t *testing.T) {
	minute := func(n int) []quota.Source { return document(n, "minute", n, "0.9") }
	for _, tc := range []struct {
		reason string
		rules  []quota.Source
		eu, us quota.Usage
		lends  bool
	}{
		{"all of it is asked for", large, greedy(shop), quota.Usage{}, true},
		{"the share suffices", large, asks(shop, 100, 0, quota.Token), quota.Usage{}, false},
		{"the pool suffices", large, asks(shop, 350, 0, 40*quota.Token), quota.Usage{}, false},
		{"the limit has no shares", document(1000, "second", 1000, "0"), greedy(shop), quota.Usage{}, false},
		{"a share is worth 10 tokens a loan", minute(36), greedy(shop), quota.Usage{}, true},
		{"a share is worth 9, less than its entries", minute(30), greedy(shop), quota.Usage{}, false},
	} {
		m := newMarket(t, tc.rules)
		m.wants["eu"] = []quota.Usage{tc.eu}
		m.play(20 * time.Second)
		if have := len(m.offers("ap")) > 0; have != tc.lends {
			t.Errorf("%s: lent %v, want %v", tc.reason, have, tc.lends)
		}
		if len(m.offers("eu")) != 0 {
			t.Errorf("%s: who asks lends", tc.reason)
		}
	}
}

func TestNothingIsLentWithoutATime(t *testing.T) {
	m := hungryMarket(t)
	timing := quota.DefaultTiming()
	timing.Loan = 0
	m.term = NewTerm(m.at(), m.no, m.l, Config{Timing: timing})
	m.play(20 * time.Second)
	if len(m.offers("ap"))+len(m.offers("us")) != 0 {
		t.Errorf("lent at %v, %v", m.offers("ap"), m.offers("us"))
	}
}

// Who is short of nothing any more is not told of longer loans, and they end.
func TestLoansEndWithTheDemand(t *testing.T) {
	m := hungryMarket(t)
	m.play(5 * time.Second)
	m.wants["eu"] = nil
	m.play(70 * time.Second)
	if a := m.l.Account(shop); a != nil && len(a.Loans()) > 0 {
		t.Errorf("have %+v", a.Loans())
	}
	if at := m.offers("us"); len(at) != 1 {
		t.Errorf("us lends at %v, want once", at)
	}
}

// A loan that its borrower has given up goes to another region that is short, though
// somebody was told of that very loan before.
func TestALoanThatIsGivenUpIsLentOn(t *testing.T) {
	m := hungryMarket(t)
	m.play(3 * time.Second)
	if have := m.borrowed("eu"); have != perSecond(600) {
		t.Fatalf("eu borrows %v", have)
	}
	if err := m.commit(ledger.EndSession{Region: "eu", Session: m.session("eu")})[0]; err != nil {
		t.Fatal(err)
	}
	m.play(3 * time.Second) // it opens another one
	if have := m.borrowed("eu"); have != perSecond(600) {
		t.Errorf("in its new session eu borrows %v, want what it gave up with the old one", have)
	}
	if n := count[ledger.Lend](m.since(0)); n != 2 {
		t.Errorf("shares were lent %d times, want 2", n)
	}
}

// However many keys are short at once, their loans come a few at a time, and all of
// them come.
func TestLoansOfManyKeysArePaced(t *testing.T) {
	const keys = 200
	m := newMarket(t, large)
	for i := range keys {
		m.wants["eu"] = append(m.wants["eu"], greedy(quota.Key(fmt.Sprintf("shop|user=%d", i))))
	}
	lends := func() int { return count[ledger.Lend](m.since(0)) }
	m.play(lendUnseen.Duration() + time.Second)
	if n := lends(); n == 0 || n > 3*lendsPerSecond {
		t.Errorf("in the first moment %d shares are lent, want some and at most %d", n, 3*lendsPerSecond)
	}
	before := lends()
	m.play(2 * time.Second)
	if n := lends() - before; n < lendsPerSecond || n > 3*lendsPerSecond {
		t.Errorf("in two seconds %d shares are lent, want about %d", n, 2*lendsPerSecond)
	}
	m.play(10 * time.Second)
	if n := lends(); n < 2*keys {
		t.Errorf("%d shares are lent in the end, want all %d", n, 2*keys)
	}
}

func TestARegionThatHasForgottenIsToldItsLoans(t *testing.T) {
	const other = quota.Key("shop|user=bob")
	m := hungryMarket(t)
	m.wants["eu"] = append(m.wants["eu"], greedy(other))
	m.play(5 * time.Second)
	forgot := func(r *quota.SyncRequest) { r.Forgot = true }
	if l := m.sync("us").Lent; l != nil {
		t.Errorf("not asked: have %+v", l)
	}
	if l := m.sync("eu", forgot).Lent; l == nil || len(l.Keys) != 0 {
		t.Errorf("nothing of eu is lent: have %+v, want an answer that says so", l)
	}
	check := func(when string, least, most time.Duration) {
		t.Helper()
		l := m.sync("us", forgot).Lent
		if l == nil || !slices.Equal(l.Keys, []quota.Key{shop, other}) {
			t.Fatalf("%s: have %+v, want both keys", when, l)
		}
		if l.For < least || l.For > most {
			t.Errorf("%s: for %v, want from %v to %v", when, l.For, least, most)
		}
	}
	left := m.l.Account(shop).Loans()[1].Left(m.no, m.at()).Duration()
	check("asked", left, left+time.Second)
	m.elect()
	check("a new leader does not know how much is over", time.Minute, time.Minute)
	m.now += 2 * quota.Second
	check("but what was over since its start", 58*time.Second, 58*time.Second)
}
