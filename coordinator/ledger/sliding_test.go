package ledger

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// slidings are versions of a rule with a sliding window.
var slidings = [][]quota.Source{
	{{Name: "api.yaml", Text: slidingDocument(100, 0.1)}},
	{{Name: "api.yaml", Text: slidingDocument(100, 0.6)}},
	{{Name: "api.yaml", Text: slidingDocument(40, 0.3)}},
}

func slidingDocument(n int, standing float64) string {
	return fmt.Sprintf(`domain: api
descriptors:
  - key: user
    rate_limit:
      requests_per_unit: %d
      unit: second
      quota: {algorithm: sliding_window_log, standing_share: %g}
`, n, standing)
}

// miscounted says what is wrong with what an account of a sliding window counts.
func miscounted(a *Account) string {
	if a.sliding() == 0 {
		if len(a.returns) > 0 {
			return "a bucket has returns"
		}
		return ""
	}
	coming, pool := a.coming(), max(a.Pool().Burst, 0)
	switch {
	case a.level+coming != pool:
		return fmt.Sprintf("level %v and returns %v are not the pool's %v", a.level, a.returns, pool)
	case len(a.returns) > maxReturns || !slices.IsSortedFunc(a.returns, func(a, b Return) int { return int(a.At - b.At) }):
		return fmt.Sprintf("returns %v", a.returns)
	}
	for _, r := range a.returns {
		if r.Tokens <= 0 {
			return fmt.Sprintf("returns %v", a.returns)
		}
	}
	for i := range a.held {
		if h := &a.held[i]; h.Lease.Rate.Tokens != 0 || h.Flight != nil && h.Flight.Lease.Rate.Tokens != 0 {
			return "a lease has a rate"
		}
	}
	return ""
}

// anyPlaces completes an assignment for a sliding window, half of them so that the
// ledger has no reason to refuse it.
func anyPlaces(t *rapid.T, a *Account, op Assign) Assign {
	op.Lease = a.none()
	op.Release = rapid.IntRange(0, 3).Draw(t, "release") == 0
	op.Lease.Burst = quota.Tokens(rapid.Int64Range(0, 120_000_000).Draw(t, "lease"))
	if rapid.Bool().Draw(t, "grow") {
		op.Lease.Burst = a.Reserved(op.Region).Burst + quota.Tokens(rapid.Int64Range(0, max(0, int64(a.level))).Draw(t, "growth"))
	}
	op.Credit = max(0, op.Lease.Burst-a.Reserved(op.Region).Burst)
	if rapid.IntRange(0, 9).Draw(t, "wrong") == 0 {
		op.Credit++
	}
	return op
}

// slots is three regions with a sliding window of 100 in a second, of which each has
// a standing share of 3.
type slots struct {
	*driver
	key quota.Key
}

func newSlots(t *testing.T) *slots {
	d := &driver{TB: t, Ledger: New()}
	d.must(
		Found{Cluster: "c1", Shares: quota.Shares{{Region: "eu", Weight: 1}, {Region: "us", Weight: 1}, {Region: "ap", Weight: 1}}},
		SetRules{Sources: slidings[0]},
	)
	for _, r := range []string{"ap", "eu", "us"} {
		d.must(OpenSession{Region: r, Incarnation: r + "-1"})
		d.adopt(r)
	}
	return &slots{d, userKey(t, "bob") + "##log+1"}
}

func (s *slots) epoch(region string) quota.Epoch {
	if a := s.Account(s.key); a != nil {
		h, _ := a.Holding(region)
		return h.Epoch
	}
	return 0
}

func (s *slots) lease(region string, tokens, credit uint64) Assign {
	return Assign{
		Region: region, Session: s.session(region), Key: s.key, Prev: s.epoch(region), Credit: quota.Whole(credit),
		Lease: quota.Capacity{Rate: quota.Rate{Per: quota.Second}, Burst: quota.Whole(tokens)},
	}
}

func (s *slots) confirmed(region string, surrendered uint64) Confirm {
	return Confirm{Region: region, Session: s.session(region), Key: s.key, Epoch: s.epoch(region), Surrendered: quota.Whole(surrendered)}
}

// want compares the pool, what comes back to it, and one region's lease.
func (s *slots) want(what string, level, coming, us uint64) {
	s.Helper()
	a := s.Account(s.key)
	have := [3]quota.Tokens{a.Level(s.Clock()), a.coming() - first(a.mature(s.Clock())), a.Reserved("us").Burst}
	if want := [3]quota.Tokens{quota.Whole(level), quota.Whole(coming), quota.Whole(us)}; have != want {
		s.Errorf("%s: have level, returns and lease of us %v, want %v", what, have, want)
	}
	if problem := miscounted(a); problem != "" {
		s.Errorf("%s: %s", what, problem)
	}
}

func first[A, B any](a A, _ B) A { return a }

// tick lets time pass on the ledger's clock.
func (s *slots) tick(by quota.Micros) {
	s.now += by
	s.must()
}

func TestWhatIsInUseStaysWithItsRegion(t *testing.T) {
	s := newSlots(t)
	s.must(s.lease("us", 53, 50))
	s.must(s.confirmed("us", 0))
	s.want("grown by its credit", 41, 0, 53)
	s.must(s.lease("us", 10, 0))
	s.want("a shrink frees nothing before it is confirmed", 41, 0, 53)
	s.must(s.confirmed("us", 20))
	s.want("23 of 43 are in use", 61, 0, 33)
	s.must(s.lease("us", 10, 0), s.confirmedNext("us", 23))
	s.want("and later are not", 84, 0, 10)

	release := s.lease("us", 0, 0)
	release.Release = true
	s.must(release)
	s.must(s.confirmed("us", 3))
	s.want("a lease that is in use is not released", 87, 0, 7)
	release.Prev = s.epoch("us")
	s.must(release)
	s.must(s.confirmed("us", 4))
	s.want("released", 91, 0, 3)
	if _, held := s.Account(s.key).Holding("us"); held {
		t.Error("us holds a lease still")
	}
	if !s.Account(s.key).Idle(s.Clock()) {
		t.Error("the account is not idle")
	}
}

// confirmedNext is confirmed for the assignment before it in the same batch.
func (s *slots) confirmedNext(region string, surrendered uint64) Confirm {
	c := s.confirmed(region, surrendered)
	c.Epoch = s.Region(region).Session.Epochs + 1
	return c
}

func TestAnEndedSessionBlocksItsPlacesForAWindow(t *testing.T) {
	s := newSlots(t)
	s.must(s.lease("us", 53, 50))
	s.must(s.confirmed("us", 0))
	s.must(s.lease("us", 63, 10)) // lost on its way
	s.must(EndSession{Region: "us", Session: s.session("us")})
	s.want("ended", 31, 60, 3)
	s.must(OpenSession{Region: "us", Incarnation: "us-1"})
	if err := s.do(s.lease("us", 35, 32)); !errors.Is(err, ErrCredit) {
		t.Errorf("a lease of what may be in use: have %v, want %v", err, ErrCredit)
	}
	s.tick(quota.Second + 19_999)
	s.want("a microsecond before", 31, 60, 3)
	if s.Account(s.key).Idle(s.Clock()) {
		t.Error("an account that waits for what is in use is idle")
	}
	s.tick(1)
	s.want("a window later, by the slowest clock", 91, 0, 3)
	restored, err := Restore(s.Snapshot())
	if err != nil || restored.Hash() != s.Hash() {
		t.Errorf("restored: %v", err)
	}
}

// A new leader's clock begins anew, and the ledger's stands still meanwhile.
func TestReturnsWaitForTheLedgerClock(t *testing.T) {
	s := newSlots(t)
	s.must(s.lease("us", 53, 50))
	s.must(EndSession{Region: "us", Session: s.session("us")})
	s.Apply(s.Index()+1, Batch{Term: 2, At: 900 * quota.Second})
	s.want("after a change of leaders", 41, 50, 3)
	s.Apply(s.Index()+1, Batch{Term: 2, At: 902 * quota.Second})
	s.want("on the clock of the next", 91, 0, 3)
}

func TestAShareThatShrinksComesBackAWindowLater(t *testing.T) {
	s := newSlots(t)
	s.must(SetRules{Sources: slidings[1]}) // shares of 20
	for _, r := range []string{"ap", "eu", "us"} {
		s.adopt(r)
	}
	s.must(s.lease("eu", 25, 5))
	s.want("large shares", 35, 0, 20)
	s.must(SetRules{Sources: slidings[0]})
	s.must(Offer{Region: "us", Version: s.Current().Version})
	s.want("offered", 35, 0, 20)
	s.must(Adopted{Region: "us", Version: s.Current().Version})
	s.want("adopted", 35, 17, 3)
	unseen := s.Opening(userKey(t, "ann") + "##log+1")
	if unseen.Level(s.Clock()) != quota.Whole(40) || unseen.coming() != quota.Whole(17) {
		t.Errorf("an unseen key opens with %v and %v", unseen.Level(s.Clock()), unseen.returns)
	}
	s.tick(quota.Second + quota.Second/50)
	s.want("a window later", 52, 0, 3)
	if unseen := s.Opening(userKey(t, "ann") + "##log+1"); unseen.Level(s.Clock()) != quota.Whole(57) {
		t.Errorf("an unseen key opens with %v a window later", unseen.Level(s.Clock()))
	}
}

// The region has given up what it had beyond the large share, and may still occupy that.
func TestAShareThatShrinksWhileALeaseIsReleased(t *testing.T) {
	s := newSlots(t)
	s.must(SetRules{Sources: slidings[1]}) // shares of 20
	for _, r := range []string{"ap", "eu", "us"} {
		s.adopt(r)
	}
	s.must(s.lease("us", 30, 10))
	s.must(s.confirmed("us", 0))
	release := s.lease("us", 0, 0)
	release.Release = true
	s.must(release)
	s.must(SetRules{Sources: slidings[0]})
	s.adopt("us")
	s.must(s.confirmed("us", 10))
	s.want("released", 40, 17, 3)
}

// What is on its way to a region is in its new lease; nothing of it is in use beside that.
func TestAShareThatGrowsWhileALeaseIsOnItsWay(t *testing.T) {
	s := newSlots(t)
	s.must(s.lease("us", 43, 40))
	s.must(SetRules{Sources: slidings[1]}) // shares of 20
	s.must(Offer{Region: "us", Version: s.Current().Version})
	if have := s.Account(s.key).Reserved("us").Burst; have != quota.Whole(60) {
		t.Fatalf("reserved for us: have %v, want the share and what is on its way", have)
	}
	s.must(s.confirmed("us", 0))
	if have := s.Account(s.key).Reserved("us").Burst; have != quota.Whole(43) {
		t.Errorf("reserved for us: have %v, want its lease", have)
	}
	if problem := miscounted(s.Account(s.key)); problem != "" {
		t.Error(problem)
	}
}

func TestALimitThatIsRaisedComesAWindowLater(t *testing.T) {
	s := newSlots(t)
	s.must(SetRules{Sources: slidings[2]}) // 40
	s.must(s.lease("us", 13, 10))
	s.must(s.confirmed("us", 0))
	s.want("lowered", 21, 0, 13)
	s.must(SetRules{Sources: slidings[0]}) // 100
	s.want("raised", 21, 60, 13)
	s.must(SetRules{Sources: slidings[2]})
	s.want("lowered again", 0, 21, 13)
	s.tick(2 * quota.Second)
	s.want("later", 21, 0, 13)
}

func TestAssignmentsForASlidingWindow(t *testing.T) {
	for _, tt := range []struct {
		reason string
		op     func(s *slots) Op
		want   error
	}{
		{"a lease grows by its credit", func(s *slots) Op { return s.lease("us", 20, 17) }, nil},
		{"less credit than growth", func(s *slots) Op { return s.lease("us", 20, 16) }, ErrCredit},
		{"more credit than growth", func(s *slots) Op { return s.lease("us", 20, 18) }, ErrCredit},
		{"more than the pool has", func(s *slots) Op { return s.lease("us", 95, 92) }, ErrNoRoom},
		{"a rate", func(s *slots) Op { a := s.lease("us", 20, 17); a.Lease.Rate.Tokens = 1; return a }, ErrNoRoom},
		{"a share is never lent", func(s *slots) Op {
			s.must(s.lease("eu", 4, 1))
			return Lend{Region: "us", Session: s.session("us"), Key: s.key, For: quota.Second}
		}, ErrNoLoan},
		{"its share may be growing", func(s *slots) Op {
			s.must(SetRules{Sources: slidings[1]})
			s.must(Offer{Region: "us", Version: s.Current().Version})
			return s.lease("us", 30, 10)
		}, ErrInFlight},
		{"its share has grown", func(s *slots) Op {
			s.must(SetRules{Sources: slidings[1]})
			s.adopt("us")
			return s.lease("us", 30, 10)
		}, nil},
	} {
		s := newSlots(t)
		if err := s.do(tt.op(s)); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: have %v, want %v", tt.reason, err, tt.want)
		}
	}
}

func TestReturnsAreBounded(t *testing.T) {
	s := newSlots(t)
	s.must(s.lease("eu", 4, 1))
	for range 30 {
		s.must(s.lease("us", 4, 1))
		s.must(EndSession{Region: "us", Session: s.session("us")}, OpenSession{Region: "us", Incarnation: "us-1"})
		s.tick(10_000)
	}
	s.want("thirty sessions in a third of a second", 60, 30, 3)
	s.tick(quota.Second + quota.Second/50 - 10_000)
	s.want("a window after the last", 90, 0, 3)
}

// What shares of one kind of window may have used says nothing of those of another.
func TestAMarkIsOfOneWayToCount(t *testing.T) {
	s := newSlots(t)
	edit := func(to []quota.Source) {
		s.must(SetRules{Sources: to})
		for _, r := range []string{"ap", "eu", "us"} {
			s.adopt(r)
		}
	}
	edit(slidings[1]) // shares of 20
	edit(slidings[0]) // of 3
	log, fixed := userKey(t, "ann")+"##log+1", quota.Key("api|user=ann##420+60")
	want := func(what string, k quota.Key, level uint64) {
		t.Helper()
		if have := s.Opening(k).Level(s.Clock()); have != quota.Whole(level) {
			t.Errorf("%s: an unseen key opens with %v, want %d", what, have, level)
		}
	}
	want("the shares of the log have shrunk", log, 40)
	edit(documents[5]) // fixed windows, shares of 10
	want("fixed windows have not", fixed, 70)
	edit(documents[6]) // of 3
	want("now they have", fixed, 70)
	edit(slidings[0])
	want("and the log still has", log, 40)
	s.tick(quota.Second + quota.Second/50)
	want("for a window", log, 91)
	edit(documents[6])
	want("theirs is longer", fixed, 70)
	s.tick(beginsAfter(minute))
	want("and over at once", fixed, 91)
}
