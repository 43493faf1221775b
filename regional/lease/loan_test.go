package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// borrower is a keeper that has a session, with its clocks and its store's clock.
type borrower struct {
	t     *testing.T
	k     *Keeper
	clock Clock
	state bucket.State
}

func newBorrower(t *testing.T) *borrower {
	b := &borrower{
		t:     t,
		k:     New(Config{Region: "eu", Agent: "eu-1", Timing: quota.DefaultTiming(), Rand: func() float64 { return 0 }}),
		state: bucket.State{Now: 1000 * quota.Second, Region: bucket.Region{Incarnation: "i1"}, LentKnown: true},
	}
	b.request()
	b.answer(quota.SyncResponse{})
	b.state.Session = 5
	return b
}

func (b *borrower) pass(d quota.Micros) {
	b.clock.Mono, b.clock.Boot, b.clock.Real = b.clock.Mono+d, b.clock.Boot+d, b.clock.Real+d
	b.state.Now += d
}

func (b *borrower) request() quota.SyncRequest { return b.k.Request(b.clock, b.state, Report{}) }

// answer answers the last request with r.
func (b *borrower) answer(r quota.SyncResponse) Effects {
	b.t.Helper()
	r.Seq, r.Cluster, r.Session, r.TTL = b.k.seq, "c", 5, 10*time.Second
	e, err := b.k.Response(b.clock, r)
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

func TestTheKeeperAsksWhatIsLentUntilItsStoreKnows(t *testing.T) {
	b := newBorrower(t)
	if b.request().Forgot {
		t.Error("asks though the store knows")
	}
	b.answer(quota.SyncResponse{})

	b.state.Incarnation, b.state.Session, b.state.LentKnown = "i2", 0, false
	for range 2 { // the first answer may be lost
		b.pass(quota.Second)
		if req := b.request(); !req.Forgot || req.Incarnation.ID != "i2" {
			t.Errorf("does not ask: %+v", req)
		}
	}
	b.pass(quota.Second)
	e := b.answer(quota.SyncResponse{Lent: &quota.Lent{Keys: []quota.Key{"a", "b"}, For: 40 * time.Second}})
	if l := e.Lend; l == nil || e.Incarnation != "i2" || !slices.Equal(l.Keys, []quota.Key{"a", "b"}) || l.Span != 40*quota.Second {
		t.Errorf("have %+v, want both keys for 40 s in i2", e.Lend)
	}

	// Nothing on loan is an answer too; no answer is none.
	b.request()
	if e := b.answer(quota.SyncResponse{Lent: &quota.Lent{}}); e.Lend == nil || len(e.Lend.Keys) != 0 {
		t.Errorf("nothing is lent: have %+v", e.Lend)
	}
	b.request()
	if e := b.answer(quota.SyncResponse{}); e.Lend != nil {
		t.Errorf("not answered: have %+v", e.Lend)
	}
	b.state.LentKnown = true
	if b.request().Forgot {
		t.Error("asks again")
	}
}

// The answer is about the store that the request was about. If the region has another
// one meanwhile, that one refuses it.
func TestWhatIsLentIsForTheIncarnationThatAsked(t *testing.T) {
	b := newBorrower(t)
	b.state.LentKnown = false
	b.request()
	store := bucket.NewStore()
	store.Incarnate(b.state.Now, "i2")
	e := b.answer(quota.SyncResponse{Lent: &quota.Lent{Keys: []quota.Key{"a"}, For: time.Minute}})
	if e.Lend == nil || e.Incarnation != "i1" {
		t.Fatalf("have %+v in %s, want i1", e.Lend, e.Incarnation)
	}
	if err := store.Lend(b.state.Now, e.Incarnation, nil, e.Lend.Span); err == nil || store.State(b.state.Now).LentKnown {
		t.Errorf("taken over by i2: %v", err)
	}
}

// A loan counts from the store's clock before the sync was sent, less what the
// clocks may differ; a lease is not shorter for it.
func TestALoanCountsFromBeforeTheSync(t *testing.T) {
	loan := func(left time.Duration) *quota.Loan { return &quota.Loan{Left: left} }
	for _, tc := range []struct {
		reason string
		loan   *quota.Loan
		until  quota.Micros // after sending
	}{
		{"no loan", nil, 0},
		{"40 s, less twice 1 %", loan(40 * time.Second), 39_200_000},
		{"a small one", loan(500 * time.Millisecond), 490_000},
		{"one of no worth is over when it arrives", loan(0), 0},
	} {
		for _, way := range []quota.Micros{0, 1_900_000} { // however long the answer takes
			b := newBorrower(t)
			b.request()
			sent := b.state.Now
			b.pass(way)
			e := b.answer(quota.SyncResponse{Assignments: []quota.Assignment{{Key: "k", Session: 5, Epoch: 1, Loan: tc.loan}, {Key: "l", Session: 5, Epoch: 2}}})
			if len(e.Apply) != 2 || e.Apply[0].Key != "k" || e.Apply[1].LoanUntil != 0 {
				t.Fatalf("%s: have %+v", tc.reason, e.Apply)
			}
			want := quota.Micros(0)
			if tc.loan != nil {
				want = sent + tc.until
			}
			if have := e.Apply[0].LoanUntil; have != want {
				t.Errorf("%s, answered after %v: until %v after sending, want %v", tc.reason, way.Duration(), (have - sent).Duration(), (want - sent).Duration())
			}
			if have := e.Renew.Deadline - sent; have != quota.MicrosOf(quota.DefaultTiming().Usable()) {
				t.Errorf("%s: the lease until %v after sending", tc.reason, have.Duration())
			}
		}
	}
}

// A push answers no sync, so its loan would count from nothing.
func TestAPushBringsNoLoan(t *testing.T) {
	b := newBorrower(t)
	e, err := b.k.Response(b.clock, quota.SyncResponse{Cluster: "c", Assignments: []quota.Assignment{
		{Key: "loan", Session: 5, Epoch: 1, Loan: &quota.Loan{Left: time.Minute}},
		{Key: "ended", Session: 5, Epoch: 2, Loan: &quota.Loan{}},
		{Key: "lease", Session: 5, Epoch: 3},
		{Key: "lend", Session: 5, Epoch: 4, Lend: time.Minute},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var have []quota.Key
	for _, a := range e.Apply {
		have = append(have, a.Key)
		if a.LoanUntil != 0 {
			t.Errorf("%s: a loan until %d", a.Key, a.LoanUntil)
		}
	}
	if !slices.Equal(have, []quota.Key{"lease", "lend"}) || e.Lend != nil {
		t.Errorf("applies %v, takes over %+v; want the lease and the share to lend", have, e.Lend)
	}
}

// An answer that renews nothing brings no loans either: the clocks have jumped, and
// it is not known what they count.
func TestNoLoanWithoutTrustInTheClocks(t *testing.T) {
	b := newBorrower(t)
	b.state.Now += 10 * quota.Second // the store's clock alone
	b.request()
	b.state.Session = 6
	r := quota.SyncResponse{
		Seq: b.k.seq, Cluster: "c", Session: 6, TTL: 10 * time.Second, Lent: &quota.Lent{},
		Assignments: []quota.Assignment{{Key: "k", Session: 6, Epoch: 1, Loan: &quota.Loan{Left: time.Minute}}},
	}
	e, err := b.k.Response(b.clock, r)
	if err != nil || e.Renew != nil || e.Lend != nil || len(e.Apply) != 0 {
		t.Errorf("have %+v, %v; want nothing", e, err)
	}
}

// A region that does not know what it has on loan has no standing shares until
// every loan is over, and they begin empty then. One that never had other buckets
// never lent any.
func TestSharesOfARegionThatDoesNotKnowItsLoans(t *testing.T) {
	const born, loan, adopted = 1000 * quota.Second, 60 * quota.Second, 1020 * quota.Second
	for _, tc := range []struct {
		reason       string
		first, known bool
		from         quota.Micros // when it begins empty, 0 for full at once
	}{
		{"a new incarnation", false, false, born + loan},
		{"once it was told", false, true, born},
		{"the first one", true, false, 0},
		{"the first one, told", true, true, 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			blob, err := Encode(config(1, doc(100, 100, 0.2, 1)), "eu", nil)
			if err != nil {
				t.Fatal(err)
			}
			st := bucket.State{
				Now: adopted, Since: born, First: tc.first, LentKnown: tc.known, ConfigSince: adopted,
				Region: bucket.Region{Incarnation: "i", Config: 1},
			}
			a, err := Adopt("eu", loan, st, bucket.Adopted{Version: 1, Since: adopted, Blob: blob}, bucket.Adopted{})
			if err != nil {
				t.Fatal(err)
			}
			// A share of 10, with 10 a second. It belongs to the configuration, so it
			// cannot begin before that was adopted.
			begins := max(tc.from, adopted)
			for _, p := range []struct {
				at    quota.Micros
				level quota.Tokens
			}{
				{begins - quota.Second, 0}, {begins, 0}, {begins + quota.Second/2, 5 * quota.Token}, {begins + quota.Second, 10 * quota.Token},
			} {
				want := p.level
				if tc.from == 0 {
					want = 10 * quota.Token
				}
				s := a.StandingOf(key, p.at)
				if err := s.Valid(); err != nil {
					t.Fatal(err)
				}
				if have, _ := s.Refill(s.Base, p.at-s.Began()); have != want {
					t.Errorf("%v after it begins: have %v, want %v", (p.at - begins).Duration(), have, want)
				}
			}
		})
	}
}

// A record that was written before does not help: its share begins when all loans are
// over, whatever it held.
func TestARecordHoldsNothingWhileItsLoansAreUnknown(t *testing.T) {
	r := newRegion(t, false)
	r.adopt(config(1, doc(100, 100, 0.2, 1)), nil)
	const loan = 60 * quota.Second
	read := func() *Adoption {
		cur, prev := r.store.Config()
		a, err := Adopt("eu", loan, r.store.State(r.now), cur, prev)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	level := func(a *Adoption, at quota.Micros) quota.Tokens {
		_, v := r.store.Take(at, []bucket.Ask{{Key: key, Standing: a.StandingOf(key, at)}})
		return v[0].Level
	}
	born, a := r.now, read()
	if err := r.store.Charge(born+10*quota.Second, "i1", []bucket.Charge{{Key: key, Standing: a.StandingOf(key, 0)}}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		at   quota.Micros
		want quota.Tokens
	}{{born + 30*quota.Second, 0}, {born + loan - 1, 0}, {born + loan, 0}, {born + loan + quota.Second/2, 5 * quota.Token}} {
		if have := level(a, p.at); have != p.want {
			t.Errorf("%v after it was born: have %v, want %v", (p.at - born).Duration(), have, p.want)
		}
	}
	if err := r.store.Lend(born+20*quota.Second, "i1", nil, loan); err != nil {
		t.Fatal(err)
	}
	if a = read(); level(a, born+30*quota.Second) != 10*quota.Token {
		t.Error("told that nothing is lent: want the whole share")
	}
}
