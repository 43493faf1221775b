package enforce

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

const ladderRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 10, quota: {standing_share: 1}}
  - key: deny
    rate_limit: {unit: second, requests_per_unit: 10, quota: {standing_share: 1, on_store_failure: deny}}
  - key: allow
    rate_limit: {unit: second, requests_per_unit: 10, quota: {standing_share: 1, on_store_failure: allow}}
  - key: none
    rate_limit: {unit: second, requests_per_unit: 10, quota: {standing_share: 0}}
`

func (w *world) settle() {
	w.t.Helper()
	if err := w.e.Settle(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func TestLadderLocalStartsEmptyAndRefillsAtTheShare(t *testing.T) {
	w := newWorld(t, ladderRules)
	w.e.SetView(View{Region: w.store.State(w.time()).Region, Now: w.time(), Agents: 2})
	w.fail = ErrStoreDown
	w.want("the outage begins: empty", true, w.decide(1, d("user=a")))
	// Half of 10 a second, from the beginning of the outage, for every key.
	w.now += 200 * time.Millisecond
	w.want("one token after 200 ms", false, w.decide(1, d("user=a")))
	dec := w.want("and no second one", true, w.decide(1, d("user=a")))
	if s := dec.Statuses[0]; !dec.Degraded || s.Reason != StoreDegraded || s.Retry != 200*time.Millisecond {
		t.Errorf("have %+v", s)
	}
	w.want("another key accrued as much", false, w.decide(1, d("user=b")))
	w.now += time.Minute
	for i := range 6 {
		w.want("no more than the burst of the part", i == 5, w.decide(1, d("user=c")))
	}
	if w.takes != 4 {
		// The store is not asked for keys with a debt.
		t.Errorf("have %d takes, want 4", w.takes)
	}
}

func TestLadderPolicies(t *testing.T) {
	for _, c := range []struct {
		name string
		ds   []Descriptor
		over bool
	}{
		{"deny", []Descriptor{d("deny=x")}, true},
		{"allow", []Descriptor{d("allow=x")}, false},
		{"local, accrued", []Descriptor{d("user=x")}, false},
		{"local without a standing share", []Descriptor{d("none=x")}, true},
		{"local and allow", []Descriptor{d("user=x"), d("allow=x")}, false},
		{"local and deny", []Descriptor{d("user=x"), d("deny=x")}, true},
		{"a look", []Descriptor{d("deny=x", 0), d("none=x", 0)}, false},
		{"larger than the limit", []Descriptor{d("allow=x", 11)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, ladderRules)
			w.fail = fmt.Errorf("take: %w", ErrStoreDown)
			w.decide(1, d("user=first"))
			w.now += 100 * time.Millisecond
			w.want(c.name, c.over, w.decide(1, c.ds...))
			// All or nothing: the token is still there after a denial.
			if c.over {
				w.want("nothing was drawn", false, w.decide(1, d("user=x")))
			}
		})
	}
}

func TestK58DebtsAreChargedOnce(t *testing.T) {
	w := newWorld(t, ladderRules)
	w.decide(10, d("user=a"))
	w.fail = ErrStoreDown
	w.want("begins", true, w.decide(1, d("user=a")))
	w.now += 500 * time.Millisecond
	w.want("admitted while the store is away", false, w.decide(5, d("user=a")))
	w.now += 100 * time.Millisecond

	w.fail = nil
	dec := w.want("the store is back, the debt is not settled", false, w.decide(1, d("user=a")))
	if !dec.Degraded {
		t.Error("asked the store for a key with a debt: its record shows tokens that are spent")
	}
	w.want("other keys are served by the store", false, w.decide(10, d("user=b")))

	w.fail = ErrStoreDown
	if err := w.e.Settle(context.Background()); !errors.Is(err, ErrStoreDown) || w.e.Owing() != 1 {
		t.Errorf("have %v, %d owing", err, w.e.Owing())
	}
	w.fail = nil
	w.settle()
	w.settle()
	if len(w.charged) != 1 || w.charged[0].Tokens != 6*quota.Token || w.e.Owing() != 0 {
		t.Errorf("have %+v, %d owing", w.charged, w.e.Owing())
	}
	dec = w.decide(1, d("user=a", 0))
	if dec.Degraded || dec.Statuses[0].Remaining != 0 {
		t.Errorf("6 accrued, 6 were spent: have %+v", dec)
	}
}

// The share of the old incarnation says that a missing bucket is full. Charging
// with it would make one out of nothing in a store that has lost everything.
func TestLadderDebtWaitsForTheNewIncarnation(t *testing.T) {
	w := newWorld(t, ladderRules)
	w.now += time.Minute // any missing bucket is full by now
	w.want("before the outage", false, w.decide(10, d("user=a")))
	w.fail = ErrStoreDown
	w.decide(1, d("user=a"))
	w.now += 300 * time.Millisecond
	w.want("admitted while the store is away", false, w.decide(3, d("user=a")))
	w.store.Incarnate(w.time(), "i2")
	w.fail = nil
	if err := w.e.Settle(context.Background()); !errors.Is(err, ErrStale) || w.e.Owing() != 1 {
		t.Errorf("have %v, %d owing", err, w.e.Owing())
	}
	w.read()
	w.settle()
	if rec, _ := w.store.Read(key(w, d("user=a"))); w.e.Owing() != 0 || rec.Level != -3*quota.Token {
		t.Errorf("%d owing, level %v: the new bucket began empty and owes 3", w.e.Owing(), rec.Level)
	}
}

func TestLadderUnknownChargeIsRepeated(t *testing.T) {
	w := newWorld(t, ladderRules)
	w.fail = ErrStoreDown
	w.decide(1, d("user=a"))
	w.now += 300 * time.Millisecond
	w.decide(3, d("user=a"))
	w.fail, w.lost = nil, context.DeadlineExceeded
	if err := w.e.Settle(context.Background()); err == nil || w.e.Owing() != 1 {
		t.Errorf("have %v, %d owing", err, w.e.Owing())
	}
	w.lost = nil
	w.settle()
	// Charged twice, the safe side: 10 - 3 - 3.
	if have := w.decide(1, d("user=a", 0)).Statuses[0].Remaining; have != 4 || w.e.Owing() != 0 {
		t.Errorf("have %d left, %d owing", have, w.e.Owing())
	}
}

// While a debt is on its way the key admits nothing, so that a busy key gets
// back to the store.
func TestLadderSettlesABusyKey(t *testing.T) {
	w := newWorld(t, ladderRules)
	w.fail = ErrStoreDown
	w.decide(1, d("user=a"))
	w.now += 500 * time.Millisecond
	w.decide(1, d("user=a"))
	w.fail = nil
	charges := w.e.local.begin(w.e.snap.Load(), 10, false)
	dec := w.want("under way", true, w.decide(1, d("user=a")))
	if dec.Retry <= 0 {
		t.Errorf("have %+v", dec)
	}
	if again := w.e.local.begin(w.e.snap.Load(), 10, false); len(again) != 0 {
		t.Errorf("taken twice: %+v", again)
	}
	w.e.local.end(charges, true)
	if dec := w.want("settled", false, w.decide(1, d("user=a"))); dec.Degraded {
		t.Error("still degraded")
	}
}

func TestLadderKeysAreBounded(t *testing.T) {
	w := newWorld(t, ladderRules, func(c *Config) { c.MaxLocalKeys = 100 })
	w.fail = ErrStoreDown
	w.decide(1, d("user=first"))
	w.now += time.Second
	admitted := 0
	for i := range 1000 {
		if !w.decide(1, d(fmt.Sprintf("user=%d", i))).Over {
			admitted++
		}
	}
	if admitted != 100 || w.e.Owing() != 100 {
		t.Errorf("have %d admitted, %d owing, want 100", admitted, w.e.Owing())
	}
	w.fail = nil
	w.settle()
	if w.e.Owing() != 0 || len(w.charged) != 100 {
		t.Errorf("have %d owing, %d charged", w.e.Owing(), len(w.charged))
	}
}

// K66: an outage much longer than the time to full. Had the admissions been
// charged in time, the bucket would be empty now; it is, and it is no deeper in debt.
func TestK66LongOutageIsNotChargedToTheTimeAfter(t *testing.T) {
	w := newWorld(t, ladderRules)
	w.fail = ErrStoreDown
	w.decide(1, d("user=a"))
	admitted := 0
	for range 300 {
		w.now += 100 * time.Millisecond
		if !w.decide(1, d("user=a")).Over {
			admitted++
		}
	}
	if admitted != 300 {
		t.Errorf("have %d of 300", admitted)
	}
	w.fail = nil
	w.read() // the session is over: nobody could renew it in the store
	w.settle()
	dec := w.want("right after", true, w.decide(1, d("user=a")))
	if dec.Retry != 100*time.Millisecond {
		t.Errorf("have %+v", dec)
	}
}

// A record on a lease can have had room for all that it gained: all is charged.
func TestLadderOnALeaseAllIsCharged(t *testing.T) {
	w := newWorld(t, ladderRules)
	w.fail = ErrStoreDown
	w.decide(1, d("user=a"))
	for range 30 {
		w.now += 100 * time.Millisecond
		w.decide(1, d("user=a"))
	}
	w.fail = nil
	w.connect(1) // another agent kept the session alive
	w.settle()
	if len(w.charged) != 1 || w.charged[0].Tokens != 30*quota.Token {
		t.Errorf("have %+v", w.charged)
	}
}
