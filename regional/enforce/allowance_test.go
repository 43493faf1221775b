package enforce

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

func drawing(c *Config) { c.Allowances = true }

const busyRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 10000, quota: {standing_share: 1}}
  - key: slow
    rate_limit: {unit: second, requests_per_unit: 100, quota: {standing_share: 1}}
  - key: two
    rate_limits:
      - {name: one, unit: second, requests_per_unit: 10000, quota: {standing_share: 1}}
      - {name: all, unit: minute, requests_per_unit: 600000, quota: {standing_share: 1}}
  - key: shaped
    rate_limit: {unit: second, requests_per_unit: 10000, quota: {standing_share: 1, algorithm: leaky_bucket, shape: true}}
  - key: windowed
    rate_limit: {unit: minute, requests_per_unit: 600000, quota: {standing_share: 1, algorithm: fixed_window}}
`

// second asks per second times in one second, evenly, and returns how many requests
// were admitted.
func (w *world) second(perSecond int, ds ...Descriptor) (admitted int) {
	w.t.Helper()
	for range perSecond {
		w.now += time.Second / time.Duration(perSecond)
		if !w.decide(1, ds...).Over {
			admitted++
		}
	}
	w.connect(1)
	return admitted
}

func TestMostRequestsForABusyKeyNeedNoScriptCall(t *testing.T) {
	for _, c := range []struct {
		name      string
		perSecond int
		atMost    float64 // script calls for a request
		ds        []Descriptor
	}{
		{"a busy key", 5000, 0.03, []Descriptor{d("user=a")}},
		{"one that is just busy", 200, 0.1, []Descriptor{d("user=a")}},
		{"two limits", 5000, 0.03, []Descriptor{d("two=a")}},
		{"two descriptors", 5000, 0.03, []Descriptor{d("user=a"), d("two=a")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, busyRules, drawing)
			w.second(c.perSecond, c.ds...)
			w.takes, w.seen = 0, nil
			if n := w.second(c.perSecond, c.ds...); n != c.perSecond {
				t.Errorf("%d of %d requests were admitted", n, c.perSecond)
			}
			if most := int(c.atMost * float64(c.perSecond)); w.takes == 0 || w.takes > most {
				t.Errorf("the store was asked %d times, want 1 to %d", w.takes, most)
			}
			heard := quota.Tokens(0)
			for _, o := range w.seen {
				if o.Admitted && o.Key == key(w, c.ds[0]) {
					heard += o.Cost
				}
			}
			if heard != quota.Whole(uint64(c.perSecond)) {
				t.Errorf("demand heard of %v, want %d", heard, c.perSecond)
			}
		})
	}
}

func TestWhatDrawsNothingAhead(t *testing.T) {
	hits, none := uint64(1), uint64(0)
	busy := d("user=a")
	for _, c := range []struct {
		name string
		set  []func(*Config)
		req  Request
	}{
		{"exact", nil, Request{Descriptors: []Descriptor{busy}}},
		{"a look", []func(*Config){drawing}, Request{Descriptors: []Descriptor{{Entries: busy.Entries, Hits: &none}}}},
		{"a refund", []func(*Config){drawing}, Request{Descriptors: []Descriptor{{Entries: busy.Entries, Hits: &hits, Refund: true}}}},
		{"a settlement", []func(*Config){drawing}, Request{Settle: true, Descriptors: []Descriptor{busy}}},
		{"a shaped limit", []func(*Config){drawing}, Request{Descriptors: []Descriptor{d("shaped=a")}}},
		{"a window", []func(*Config){drawing}, Request{Descriptors: []Descriptor{d("windowed=a")}}},
		{"a key in the company of one that is not busy", []func(*Config){drawing}, Request{Descriptors: []Descriptor{busy, d("user=%d")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, busyRules, c.set...)
			c.req.Domain = "api"
			for i := range 1000 {
				w.now += time.Millisecond / 4
				req := c.req
				if len(req.Descriptors) > 1 {
					req.Descriptors = []Descriptor{busy, d(fmt.Sprintf("user=%d", i))}
				}
				if dec, err := w.e.Decide(context.Background(), w.now, req); err != nil || dec.FromAllowance {
					t.Fatalf("have %+v, %v", dec, err)
				}
			}
			if w.takes != 1000 {
				t.Errorf("the store was asked %d times, want 1000", w.takes)
			}
			for _, asks := range w.asked {
				if asks[0].Ahead != 0 {
					t.Fatalf("drew %+v", asks[0])
				}
			}
		})
	}
}

// Near the edge every request asks the store, so the limit is used to its end: what
// was drawn ahead and is lost is less than a request in a hundred.
func TestALimitThatIsUsedUpIsUsedUpExactly(t *testing.T) {
	w := newWorld(t, busyRules, drawing)
	w.second(50, d("slow=a"))
	admitted := 0
	for range 10 {
		admitted += w.second(300, d("slow=a"))
	}
	if admitted < 1000+100-11 || admitted > 1000+100 {
		t.Errorf("%d requests were admitted in 10 seconds, want 1,100 or a few less", admitted)
	}
}

// What two agents of a region admit together is within the bucket at each moment.
func TestAllowancesKeepTheBound(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := rapid.Int64Range(20, 2000).Draw(t, "rate"), rapid.Int64Range(20, 2000).Draw(t, "burst")
		w := newWorld(outer, fmt.Sprintf(`
domain: api
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: %d, quota: {burst: %d, standing_share: 1}}
`, rate, burst), drawing)
		agents := []*Enforcer{w.e, New(Config{Store: w, Refresh: w.refresh, Wall: w.wall, Allowances: true})}
		agents[1].Adopt(w.e.Adoption())
		agents[1].SetView(View{Region: w.store.State(w.time()).Region, Now: w.time(), Agents: 2})
		limit := quota.Capacity{Rate: quota.Rate{Tokens: quota.Tokens(rate) * quota.Token, Per: quota.Second}, Burst: quota.Tokens(burst) * quota.Token}
		level, at := limit.Burst, w.time() // of one bucket that all requests are held against
		unspent := quota.Micros(0)
		for range rapid.IntRange(1, 30).Draw(t, "storms") {
			w.now += time.Duration(rapid.Int64Range(0, 300_000).Draw(t, "quiet")) * time.Microsecond
			gap := time.Duration(rapid.Int64Range(1, 5000).Draw(t, "gap")) * time.Microsecond
			for i := range rapid.IntRange(1, 200).Draw(t, "requests") {
				w.now += gap
				level, unspent = limit.Refill(level, w.time()-at+unspent)
				at = w.time()
				cost := uint32(rapid.IntRange(1, 3).Draw(t, "cost"))
				dec, err := agents[i%2].Decide(context.Background(), w.now, Request{Domain: "api", Hits: cost, Descriptors: []Descriptor{d("user=a")}})
				if err != nil {
					t.Fatal(err)
				}
				if !dec.Over {
					level -= quota.Whole(uint64(cost))
				}
				if level < 0 {
					t.Fatalf("%v more were admitted than one bucket has", -level)
				}
			}
		}
	})
}

// spends reports whether a has paid one request, and what that is to draw else.
func (a *allowance) spends(now time.Duration, cost quota.Tokens) (paid time.Duration, ahead quota.Tokens) {
	it := item{ask: bucket.Ask{Key: a.key, Cost: cost}}
	ahead = a.spend(now, &it)
	return it.paid, ahead
}

func TestADrawEndsByTheAgentsClockFromBeforeItAsked(t *testing.T) {
	a := &allowance{key: "k"}
	const at = time.Hour
	if paid, ahead := a.spends(at, quota.Token); paid != 0 || ahead == 0 {
		t.Fatalf("have %v drawn ahead, paid until %v; want a draw", ahead, paid)
	}
	if _, ahead := a.spends(at, quota.Token); ahead != 0 {
		t.Fatal("two draw at one time")
	}
	v := bucket.Verdict{Level: 10 * quota.Token, Grant: bucket.Grant{Tokens: 5 * quota.Token, Span: bucket.DrawSpan}}
	a.drew(at, &v, true)
	last := at + 98*time.Millisecond - 2*time.Microsecond
	if paid, _ := a.spends(last, quota.Token); paid == 0 {
		t.Error("not paid two microseconds before its end")
	}
	if paid, _ := a.spends(last+time.Microsecond, quota.Token); paid != 0 {
		t.Error("paid at its end")
	}
}

func TestTokensOfASlotAreNotGivenBackToTheNext(t *testing.T) {
	a := &allowance{key: "k"}
	v := bucket.Verdict{Level: 10 * quota.Token, Grant: bucket.Grant{Tokens: 5 * quota.Token, Span: bucket.DrawSpan}}
	a.drew(time.Hour, &v, true)
	paid, _ := a.spends(time.Hour, quota.Token)
	a.giveBack(quota.Token, paid)
	if a.left != 5*quota.Token {
		t.Errorf("%v are left of 5", a.left)
	}
	paid, _ = a.spends(time.Hour, quota.Token)
	a.drew(time.Hour+time.Second, &v, true)
	if a.giveBack(quota.Token, paid); a.left != 5*quota.Token {
		t.Errorf("%v are left of 5 in the next slot", a.left)
	}
}

func TestADrawIsNeverForNothing(t *testing.T) {
	a := &allowance{key: "k", until: time.Hour + time.Nanosecond}
	if _, ahead := a.spends(time.Hour, 1); ahead == 0 {
		t.Error("drew nothing, and nobody draws after that")
	}
}

func TestALostDrawIsNotTheLast(t *testing.T) {
	w := newWorld(t, busyRules, drawing)
	w.second(1000, d("user=a"))
	w.lost = ErrStoreDown
	w.second(1000, d("user=a"))
	w.lost = nil
	if err := w.e.Settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.second(100, d("user=a"))
	w.takes = 0
	w.second(1000, d("user=a"))
	if w.takes > 100 {
		t.Errorf("the store was asked %d times for 1,000 requests", w.takes)
	}
}

func TestARuleEditDropsAllowances(t *testing.T) {
	w := newWorld(t, busyRules, drawing)
	w.second(1000, d("user=a"))
	w.adopt(`
domain: api
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 0, quota: {standing_share: 1}}
`)
	w.want("after the edit", true, w.decide(1, d("user=a")))
}

// However many keys are asked for, only so many have an allowance, and they lose it.
func TestAllowancesAreBounded(t *testing.T) {
	as := new(allowances)
	for i := range 3 * maxAllowances {
		key := fmt.Appendf(nil, "key %d", i)
		for range hot {
			as.find(time.Hour, key)
		}
	}
	have := func() (n int) {
		for i := range as.shards {
			n += len(as.shards[i].young) + len(as.shards[i].old)
		}
		return n
	}
	if n := have(); n > maxAllowances || n < maxAllowances/2 {
		t.Errorf("%d keys have an allowance, want up to %d", n, maxAllowances)
	}
	for i := range 1000 {
		as.find(time.Hour+2*allowanceLife, fmt.Appendf(nil, "other %d", i))
	}
	if n := have(); n != 0 {
		t.Errorf("%d keys have an allowance that nobody asks for", n)
	}
	if as.find(time.Hour, make([]byte, maxAllowanceKey+1)) != nil {
		t.Error("a name that is too long has an allowance")
	}
}
