package ledger

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

// bank is a ledger of three regions with standing shares of 4 of 40 tokens and an
// account that eu holds a lease of.
type bank struct {
	t     *testing.T
	l     *Ledger
	index uint64
	term  uint64
	at    quota.Micros
	key   quota.Key
}

func newBank(t *testing.T) *bank {
	t.Helper()
	b := &bank{t: t, l: New(), term: 1}
	b.must(Found{Cluster: "c", Shares: quota.Shares{{Region: "ap", Weight: 1}, {Region: "eu", Weight: 1}, {Region: "us", Weight: 1}}})
	b.must(SetRules{Sources: []quota.Source{{Name: "a.yaml", Text: `domain: api
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 20, unit: second, quota: {burst: 40, standing_share: 0.3}}
`}}})
	for _, r := range []string{"ap", "eu", "us"} {
		b.must(OpenSession{Region: r, Incarnation: r + "/1"})
		b.must(Offer{Region: r, Version: b.l.Current().Version})
		b.must(Adopted{Region: r, Version: b.l.Current().Version})
	}
	b.key = b.l.Current().Rules().Rules()[0].Sample(0)
	b.must(Assign{Region: "eu", Session: b.session("eu"), Key: b.key, Lease: capacity(16, 32), Credit: quota.Whole(28)})
	b.confirm("eu", 0)
	return b
}

func capacity(rate, burst uint64) quota.Capacity {
	return quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(rate), Per: quota.Second}, Burst: quota.Whole(burst)}
}

func (b *bank) do(op Op) error {
	b.index++
	b.at++
	return b.l.Apply(b.index, Batch{Term: b.term, At: b.at, Ops: []Op{op}}).Err(0)
}

func (b *bank) must(op Op) {
	b.t.Helper()
	if err := b.do(op); err != nil {
		b.t.Fatalf("%+v: %v", op, err)
	}
}

func (b *bank) session(region string) quota.SessionID { return b.l.Region(region).Session.ID }

func (b *bank) account() *Account { return b.l.Account(b.key) }

func (b *bank) epoch(region string) quota.Epoch {
	h, _ := b.account().Holding(region)
	return h.Epoch
}

func (b *bank) confirm(region string, surrendered uint64) {
	b.t.Helper()
	b.must(Confirm{Region: region, Session: b.session(region), Key: b.key, Epoch: b.epoch(region), Surrendered: quota.Whole(surrendered)})
}

func (b *bank) lend(region string) Lend {
	return Lend{Region: region, Session: b.session(region), Key: b.key, Prev: b.epoch(region), For: 60 * quota.Second}
}

func (b *bank) borrow(region string, lenders ...string) Borrow {
	return Borrow{Region: region, Session: b.session(region), Key: b.key, Prev: b.epoch(region), Lenders: lenders}
}

func (b *bank) want(err error, op Op) {
	b.t.Helper()
	if have := b.do(op); !errors.Is(have, err) {
		b.t.Fatalf("%+v: have %v, want %v", op, have, err)
	}
}

// pool checks that nothing but what the test says has moved.
func (b *bank) pool(rate, burst uint64) {
	b.t.Helper()
	if have, want := b.account().Pool(), capacity(rate, burst); have != want {
		b.t.Fatalf("pool: have %v, want %v", have, want)
	}
}

func TestALoanMovesNothingInThePool(t *testing.T) {
	b := newBank(t)
	b.pool(0, 0)
	b.must(b.lend("us"))
	b.pool(0, 0)
	if b.account().Lent("us") {
		t.Error("lent before the lender has confirmed that it gave the share up")
	}
	b.want(ErrNoLoan, b.borrow("eu", "us"))
	b.confirm("us", 3)
	b.pool(0, 0)
	if n := b.account().Loans()[0]; n.Tokens != quota.Whole(3) || n.Capacity != capacity(2, 4) {
		t.Errorf("loan: have %+v, want 3 tokens and the whole share", n)
	}
	b.must(b.borrow("eu", "us"))
	b.want(ErrInFlight, b.borrow("eu", "us"))
	b.want(ErrNoLoan, b.borrow("ap", "us"))
	h, _ := b.account().Holding("eu")
	if h.Flight.Borrowed != quota.Whole(3) || h.Flight.Lease != h.Lease {
		t.Errorf("in flight: have %+v, want the lease as it is and 3 tokens", h.Flight)
	}
	b.confirm("eu", 0)
	b.pool(0, 0)
	if have := b.account().Borrowed("eu"); have != capacity(2, 4) {
		t.Errorf("borrowed by eu: have %v", have)
	}
	restored, err := Restore(b.l.Snapshot())
	if err != nil || restored.Hash() != b.l.Hash() {
		t.Errorf("a snapshot with a loan: %v", err)
	}
}

func TestALoanEndsWhenItsTimeIsOverOnOneClock(t *testing.T) {
	for _, tc := range []struct {
		reason string
		term   uint64
		at     quota.Micros
		err    error
	}{
		{"at once", 1, 0, ErrLent},
		{"just before", 1, 60*quota.Second - 100, ErrLent},
		{"after its time", 1, 61 * quota.Second, nil},
		{"a new leader counts from its own start", 2, 59 * quota.Second, ErrLent},
		{"which is long ago", 2, 61 * quota.Second, nil},
	} {
		b := newBank(t)
		b.must(b.lend("us"))
		b.confirm("us", 0)
		b.must(b.borrow("eu", "us"))
		if b.term != tc.term {
			b.term, b.at = tc.term, 0
		}
		b.at = max(b.at, tc.at)
		if err := b.do(EndLoan{Key: b.key, Lender: "us"}); !errors.Is(err, tc.err) {
			t.Errorf("%s: have %v, want %v", tc.reason, err, tc.err)
		}
		b.pool(0, 0)
	}
}

// A borrower whose session has ended uses nothing any more; a lender whose session has
// ended does without its share all the same.
func TestALoanOutlivesTheSessionsOfBothSides(t *testing.T) {
	b := newBank(t)
	b.must(b.lend("us"))
	b.confirm("us", 4)
	b.must(b.borrow("eu", "us"))
	b.must(EndSession{Region: "us", Session: b.session("us")})
	b.want(ErrNoLoan, b.borrow("ap", "us"))
	b.want(ErrLent, EndLoan{Key: b.key, Lender: "us"})
	b.must(EndSession{Region: "eu", Session: b.session("eu")})
	b.pool(14, 28) // eu's lease but for its share
	if have := b.account().Borrowed("eu"); !have.IsZero() {
		t.Errorf("borrowed by eu without a session: have %v", have)
	}
	b.must(b.borrow("ap", "us"))
}

func TestALoanIsCalledBack(t *testing.T) {
	b := newBank(t)
	for _, lender := range []string{"ap", "us"} {
		b.must(b.lend(lender))
		b.confirm(lender, 0)
	}
	b.must(b.borrow("eu", "ap", "us"))
	b.confirm("eu", 0)
	b.must(b.borrow("eu", "ap"))
	b.want(ErrLent, EndLoan{Key: b.key, Lender: "us"}) // eu has not said yet that it has heard
	b.confirm("eu", 0)
	b.want(ErrLent, EndLoan{Key: b.key, Lender: "ap"})
	b.must(EndLoan{Key: b.key, Lender: "us"})
	b.pool(0, 0)
	b.must(Assign{Region: "eu", Session: b.session("eu"), Key: b.key, Prev: b.epoch("eu"), Release: true})
	b.want(ErrLent, EndLoan{Key: b.key, Lender: "ap"})
	b.confirm("eu", 0)
	b.must(EndLoan{Key: b.key, Lender: "ap"})
}

func TestALoanIsNeverMadeShorter(t *testing.T) {
	b := newBank(t)
	b.must(b.lend("us"))
	b.confirm("us", 0)
	b.at += 10 * quota.Second
	again := b.lend("us")
	again.For = 40 * quota.Second
	b.want(ErrInvalid, again)
	again.For = 51 * quota.Second
	b.must(again)
}

func TestARegionThatLendsCanHoldALeaseBesideIt(t *testing.T) {
	b := newBank(t)
	b.must(Assign{Region: "eu", Session: b.session("eu"), Key: b.key, Prev: b.epoch("eu"), Lease: capacity(10, 20)})
	b.confirm("eu", 0)
	b.must(b.lend("us"))
	b.confirm("us", 4)
	b.pool(6, 12)
	assign := Assign{Region: "us", Session: b.session("us"), Key: b.key, Lease: capacity(1, 2)}
	b.must(assign)
	b.pool(5, 10)
	b.confirm("us", 0)
	if have := b.account().Reserved("us"); have != capacity(3, 6) {
		t.Errorf("reserved for us: have %v, want the loan and the lease", have)
	}
	b.want(ErrLeased, b.lend("us")) // not while it holds one
	b.at += 61 * quota.Second
	b.must(EndLoan{Key: b.key, Lender: "us"})
	b.pool(6, 12) // its lease is in its share again
}

func TestLendingAgainMakesTheLoanLonger(t *testing.T) {
	b := newBank(t)
	b.must(b.lend("us"))
	b.confirm("us", 0)
	b.must(b.borrow("eu", "us"))
	b.confirm("eu", 0)
	b.at += 40 * quota.Second
	b.must(b.lend("us"))
	b.at += 21 * quota.Second
	if left := b.account().Loans()[0].Left(b.term, b.at); left > 0 {
		t.Fatalf("longer before the lender has confirmed: %v left", left)
	}
	b.confirm("us", 0)
	b.want(ErrLent, EndLoan{Key: b.key, Lender: "us"})
	b.must(b.borrow("eu", "us"))
	b.pool(0, 0)
}

// What a lender has surrendered is gone when it may be using its share again: it began
// from empty then, but to the burst of the share it fills both. (Seed 64063: an answer
// that arrived long after the loan was over, and a loan that was made longer then.)
func TestTheTokensOfALoanAreGoneWhenItsTimeIsOver(t *testing.T) {
	for _, tt := range []struct {
		reason  string
		wait    quota.Micros // between the Lend and the lender's answer
		elected bool         // meanwhile
		want    uint64
	}{
		{"at once", 0, false, 4},
		{"while the lender's share is away by any clock", 58 * quota.Second, false, 4},
		{"the lender's clock may be faster, and its share back", 59 * quota.Second, false, 0},
		{"after an election nobody knows since when it is away", 0, true, 0},
	} {
		for _, longer := range []bool{false, true} {
			b := newBank(t)
			b.must(b.lend("us"))
			if longer {
				b.confirm("us", 4)
				b.must(b.lend("us"))
			}
			b.at += tt.wait
			if tt.elected {
				b.term++
				b.at = 0
			}
			b.confirm("us", 4)
			if have := b.account().Loans()[0].Tokens; have != quota.Whole(tt.want) {
				t.Errorf("%s, made longer %t: have %v tokens, want %d", tt.reason, longer, have, tt.want)
			}
		}
	}
}

// The same where they are on their way to a borrower that has not heard of them.
func TestTheTokensOfALoanAreGoneOnTheirWay(t *testing.T) {
	for _, late := range []bool{false, true} {
		b := newBank(t)
		b.must(b.lend("us"))
		b.confirm("us", 4)
		b.must(b.borrow("eu", "us"))
		was, _ := b.account().Holding("eu")
		b.must(b.lend("us"))
		want := quota.Whole(4)
		if late {
			b.at += 60 * quota.Second
			want = 0
		}
		b.confirm("us", 0)
		h, _ := b.account().Holding("eu")
		if h.Flight.Borrowed != want {
			t.Errorf("late %t: have %v on the way, want %v", late, h.Flight.Borrowed, want)
		}
		if was.Flight.Borrowed != quota.Whole(4) {
			t.Errorf("late %t: a flight that snapshots may share was changed", late)
		}
		b.confirm("eu", 0)
		b.pool(0, 0)
	}
}
