package enforce

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/demand"
)

const costRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 10, quota: {standing_share: 1}}
  - key: tokens
    rate_limit: {unit: minute, requests_per_unit: 60, quota: {standing_share: 1, max_debt: 30}}
  - key: zero
    rate_limit: {unit: minute, requests_per_unit: 0}
  - key: cold
    rate_limit: {unit: minute, requests_per_unit: 60, quota: {standing_share: 0, max_debt: 30}}
  - key: stream
    rate_limit: {unit: minute, requests_per_unit: 60, quota: {standing_share: 1, max_debt: 30, settle: true}}
  - key: deny
    rate_limit: {unit: minute, requests_per_unit: 60, quota: {standing_share: 1, max_debt: 30, on_store_failure: deny}}
`

// back is a descriptor whose hits are given back.
func back(entries string, hits uint64) Descriptor {
	b := d(entries, hits)
	b.Refund = true
	return b
}

// afterwards settles descriptors that were asked for at estimate and have cost actual.
func (w *world) afterwards(estimate, actual uint64, ds ...Descriptor) Decision {
	w.t.Helper()
	req, err := Settlement(Request{Domain: "api", Descriptors: ds}, estimate, actual)
	if err != nil {
		w.t.Fatal(err)
	}
	dec, err := w.e.Decide(context.Background(), w.now, req)
	if err != nil {
		w.t.Fatal(err)
	}
	if dec.Over {
		w.t.Errorf("settling %d as %d: have %+v", estimate, actual, dec.Statuses)
	}
	return dec
}

func TestK24RefundAtZero(t *testing.T) {
	w := newWorld(t, costRules, remembering)
	w.want("all of it", false, w.decide(10, d("user=a")))
	w.want("denied, and remembered to be", true, w.decide(1, d("user=a")))
	dec := w.want("a refund", false, w.decide(1, back("user=a", 1)))
	if s := dec.Statuses[0]; s.Remaining != 1 || s.Over {
		t.Errorf("have %+v", s)
	}
	w.want("the denial is forgotten", false, w.decide(1, d("user=a")))
	refund := d("user=a")
	refund.Refund = true
	w.want("the request's hits are given back, too", false, w.decide(3, refund))
	if have := w.decide(0, d("user=a", 0)).Statuses[0].Remaining; have != 3 {
		t.Errorf("have %d remaining, want 3", have)
	}
	w.want("a limit of zero has nothing to deny", false, w.decide(1, back("zero=a", 1)))
}

func TestRefundsAreInAllOrNothing(t *testing.T) {
	w := newWorld(t, costRules)
	w.decide(10, d("user=a"))
	w.decide(9, d("user=b"))
	w.want("b has too little", true, w.decide(1, back("user=a", 5), d("user=b", 2)))
	w.want("nothing was given back", true, w.decide(1, d("user=a")))
	w.want("never satisfiable", true, w.decide(1, back("user=a", 5), d("user=b", 11)))
	w.want("nothing was given back", true, w.decide(1, d("user=a")))
	w.want("b has enough", false, w.decide(1, back("user=a", 5), d("user=b", 1)))
	w.want("five are back", false, w.decide(5, d("user=a")))
	w.want("and no more", true, w.decide(1, d("user=a")))
	w.want("of one key the sum counts", false, w.decide(1, back("user=a", 7), d("user=a", 5)))
	w.want("two are back", false, w.decide(2, d("user=a")))
}

// A refund is no arrival, and the demand hears what level it left.
func TestRefundsAreNoDemand(t *testing.T) {
	w := newWorld(t, costRules)
	w.decide(10, d("user=a"))
	w.tracker.Collect(quota.Second)
	w.decide(1, back("user=a", 4))
	u := w.tracker.Collect(2 * quota.Second)
	if len(u) != 1 || u[0].Admitted != 0 || u[0].Denied != 0 || u[0].Largest != 0 || u[0].Level != quota.Whole(4) {
		t.Errorf("have %+v", u)
	}
}

func TestMaxDebt(t *testing.T) {
	w := newWorld(t, costRules)
	never := func(hits uint32, want bool) {
		t.Helper()
		s := w.want("more than burst and debt", want, w.decide(hits, d("tokens=n"))).Statuses[0]
		if s.Never != want || want && s.Reason != BurstExceeded {
			t.Errorf("%d hits: have %+v", hits, s)
		}
	}
	never(91, true)
	never(90, false)
	peek := d("tokens=n", 0)
	s := w.want("a peek in debt", true, w.decide(1, peek)).Statuses[0]
	if s.Retry != 30*time.Second+time.Microsecond || s.Never {
		t.Errorf("have %+v", s)
	}
	w.now += 31 * time.Second
	w.connect(1)
	w.want("a peek when it is paid", false, w.decide(1, peek))
	w.want("and the charge when the stream is done", false, w.decide(31, d("tokens=n")))
	w.want("a peek in debt", true, w.decide(1, peek))
}

// What streams have cost is charged when they are done, however many were let in before
// (K25): an ordinary charge would be denied from the second one on, and be lost.
func TestASettlingLimitChargesWhateverThereIs(t *testing.T) {
	for _, c := range []struct {
		name      string
		costs     []uint32
		wait      time.Duration // until a look is admitted again, less a microsecond
		uncharged quota.Tokens  // of the last one
	}{
		{"less than there is", []uint32{20}, 0, 0},
		{"more than there is", []uint32{70}, 10 * time.Second, 0},
		{"more than the burst and the debt", []uint32{120}, 30 * time.Second, quota.Whole(30)},
		{"several at a time", []uint32{50, 15, 15}, 20 * time.Second, 0},
		{"several, of which the last has no room", []uint32{70, 70, 40}, 30 * time.Second, quota.Whole(40)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, costRules, drawing)
			look := d("stream=a", 0)
			w.want("a look before", false, w.decide(0, look))
			var last Status
			for _, hits := range c.costs {
				last = w.want("a cost that is spent", false, w.decide(hits, d("stream=a"))).Statuses[0]
			}
			if last.Uncharged != c.uncharged {
				t.Errorf("%v is not charged, want %v", last.Uncharged, c.uncharged)
			}
			s := w.want("a look after", c.wait > 0, w.decide(0, look)).Statuses[0]
			if c.wait > 0 && s.Retry != c.wait+time.Microsecond {
				t.Errorf("look again in %v, want %v", s.Retry, c.wait)
			}
		})
	}
	// Without the store there is the debt, as the bucket for that time begins empty.
	w := newWorld(t, costRules)
	w.fail = ErrStoreDown
	s := w.want("without the store", false, w.decide(70, d("stream=a"))).Statuses[0]
	w.fail = nil
	if err := w.e.Settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	left := w.want("a look when it is back", false, w.decide(1, d("stream=a", 0))).Statuses[0].Remaining
	if s.Uncharged != quota.Whole(40) || left != 30 {
		t.Errorf("%v is not charged and %d are left, want 40 and 30", s.Uncharged, left)
	}
}

// The demand hears of a debt as of what the bucket had to hold, and of whoever is not
// even let look as of one token: a region without a share would get no lease for them.
func TestDebtAndDemand(t *testing.T) {
	w := newWorld(t, costRules)
	w.decide(70, d("tokens=a"))
	w.decide(1, d("tokens=a", 0))
	w.afterwards(70, 75, d("tokens=a"))
	w.decide(1, d("cold=a", 0))
	var have []demand.Observation
	for _, o := range w.seen {
		have = append(have, demand.Observation{Cost: o.Cost, Owed: o.Owed, Admitted: o.Admitted})
	}
	want := []demand.Observation{
		{Cost: 70 * quota.Token, Owed: 30 * quota.Token, Admitted: true},
		{Cost: quota.Token, Owed: quota.Token},
		{Cost: 5 * quota.Token, Owed: 5 * quota.Token, Admitted: true},
		{Cost: quota.Token, Owed: quota.Token},
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("have %+v\nwant %+v", have, want)
	}
	if len(w.waited) != 1 {
		t.Errorf("the first look at a key without a lease waited %d times", len(w.waited))
	}
	if u := w.tracker.Collect(quota.Second); u[1].Largest != 40*quota.Token || u[1].Admitted != 75*quota.Token {
		t.Errorf("have %+v", u)
	}
}

func TestSettle(t *testing.T) {
	w := newWorld(t, costRules, remembering)
	level := func() quota.Tokens {
		t.Helper()
		rec, _ := w.store.Read(key(w, d("tokens=a")))
		return rec.Level / quota.Token
	}
	w.want("the estimate", false, w.decide(50, d("tokens=a")))
	if w.afterwards(50, 20, d("tokens=a")); level() != 40 {
		t.Errorf("too much was estimated: have %d", level())
	}
	if w.afterwards(10, 55, d("tokens=a")); level() != -5 {
		t.Errorf("too little: have %d", level())
	}
	w.want("denied, and remembered to be", true, w.decide(1, d("tokens=a")))
	if s := w.afterwards(0, 40, d("tokens=a")).Statuses[0]; level() != -30 || s.Uncharged != 15*quota.Token || s.Remaining != 0 {
		t.Errorf("below max_debt: have %d, %+v", level(), s)
	}
	if s := w.afterwards(7, 7, d("tokens=a")).Statuses[0]; level() != -30 || s.Uncharged != 0 {
		t.Errorf("as estimated: have %d, %+v", level(), s)
	}
	if w.afterwards(100, 69, d("tokens=a")); level() != 1 {
		t.Errorf("a refund in debt: have %d", level())
	}
	w.want("what is back can be used at once", false, w.decide(1, d("tokens=a")))
	if s := w.afterwards(0, 5, d("zero=a")).Statuses[0]; s.Uncharged != 5*quota.Token {
		t.Errorf("a limit of zero: have %+v", s)
	}
	for name, req := range map[string]Request{
		"hits of the request":  {Domain: "api", Hits: 1, Descriptors: []Descriptor{d("user=a")}},
		"hits of a descriptor": {Domain: "api", Descriptors: []Descriptor{d("user=a", 1)}},
		"a refund":             {Domain: "api", Descriptors: []Descriptor{{Refund: true}}},
		"settled already":      {Domain: "api", Settle: true, Descriptors: []Descriptor{d("user=a")}},
	} {
		if _, err := Settlement(req, 1, 2); !errors.Is(err, ErrSettlement) {
			t.Errorf("%s: have %v", name, err)
		}
	}
}

// While the store is away a refund lowers what is owed for the key, and nothing else.
func TestLadderRefunds(t *testing.T) {
	w := newWorld(t, costRules)
	w.fail = ErrStoreDown
	w.want("the outage begins: empty", true, w.decide(1, d("user=a")))
	w.want("nothing was admitted yet", false, w.decide(1, back("user=a", 5)))
	w.want("so nothing is there", true, w.decide(1, d("user=a")))
	w.now += 30 * time.Second
	w.want("what has accrued", false, w.decide(5, d("user=a")))
	w.want("two of it are given back", false, w.decide(1, back("user=a", 2)))
	w.want("and can be used again", false, w.decide(2, d("user=a")))
	w.want("more than is owed is given back", false, w.decide(1, back("user=a", 9)))
	if w.e.Owing() != 0 {
		t.Errorf("%d keys owe", w.e.Owing())
	}
	w.want("five can be used, not nine", true, w.decide(6, d("user=a")))
	w.want("five can be used, not nine", false, w.decide(5, d("user=a")))
	w.decide(1, back("user=a", 1))
	w.fail = nil
	w.connect(2)
	w.settle()
	if len(w.charged) != 1 || w.charged[0].Tokens != 4*quota.Token {
		t.Errorf("charged %+v", w.charged)
	}
}

// A refund whose take has an unknown outcome may have happened: it lowers nothing.
func TestLadderRefundOfUnknownOutcome(t *testing.T) {
	w := newWorld(t, costRules, remembering)
	w.decide(10, d("user=a"))
	w.want("remembered", true, w.decide(1, d("user=a")))
	w.lost = ErrStoreDown
	w.want("a refund without an answer", false, w.decide(1, back("user=a", 3)))
	w.lost = nil
	w.want("the denial is forgotten all the same", false, w.decide(3, d("user=a")))
}

func TestLadderDebtAndSettle(t *testing.T) {
	w := newWorld(t, costRules)
	w.e.SetView(View{Region: w.store.State(w.time()).Region, Now: w.time(), Agents: 2})
	w.fail = ErrStoreDown
	w.want("the outage begins: empty", true, w.decide(1, d("tokens=a")))
	w.now += 2 * time.Second // half of it is this agent's: one token
	w.want("deeper than this agent's part of the debt", true, w.decide(17, d("tokens=a")))
	w.want("its part of the debt", false, w.decide(11, d("tokens=a")))
	w.want("no peek in debt", true, w.decide(1, d("tokens=a", 0)))
	if s := w.afterwards(0, 8, d("tokens=a")).Statuses[0]; s.Uncharged != 3*quota.Token || s.Reason != StoreDegraded {
		t.Errorf("have %+v", s)
	}
	w.afterwards(12, 8, d("tokens=a"))
	if s := w.afterwards(0, 5, d("deny=a")).Statuses[0]; s.Uncharged != 5*quota.Token {
		t.Errorf("a policy that denies all counts nothing: have %+v", s)
	}
	w.fail = nil
	w.connect(2)
	w.settle()
	if len(w.charged) != 1 || w.charged[0].Tokens != (11+5-4)*quota.Token {
		t.Errorf("charged %+v", w.charged)
	}
}
