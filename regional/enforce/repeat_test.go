package enforce

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// Two agents, each with a region of its own, are asked the same; one remembers requests
// and the other does not. They answer the same, ask their stores the same, and tell the
// same of the demand.
func TestARequestThatIsRememberedIsAnsweredTheSame(t *testing.T) {
	remembered := 0
	rapid.Check(t, func(rt *rapid.T) {
		docs := []string{busyRules + `
  - {key: shadow, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 10000, quota: {standing_share: 1}}}
`, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 9000, quota: {standing_share: 1}}
  - {key: slow, rate_limit: {unit: second, requests_per_unit: 0}}
`}
		remember := func(c *Config) { c.Allowances, c.RememberDenials = true, true }
		with, without := newWorld(t, docs[0], remember), newWorld(t, docs[0], remember)
		without.e.repeats = nil
		both := func(do func(w *world)) { do(with); do(without) }
		kinds := []Descriptor{d("user=a"), d("user=a"), d("user=a"), d("user=a"), d("user=b"), d("slow=a"), d("two=a"), d("shaped=a"), d("shadow=a"), d("shadow=a"), d("other=a"), d("user=a|x=1")}
		for range rapid.IntRange(1, 20).Draw(rt, "phases") {
			switch rapid.IntRange(0, 9).Draw(rt, "event") {
			case 0:
				doc := docs[rapid.IntRange(0, 1).Draw(rt, "doc")]
				both(func(w *world) { w.adopt(doc) })
			case 1:
				both(func(w *world) { w.fail = ErrStoreDown })
			case 2:
				both(func(w *world) {
					w.fail = nil
					if err := w.e.Settle(context.Background()); err != nil && !errors.Is(err, ErrStale) {
						t.Fatal(err)
					}
				})
			case 3:
				both(func(w *world) { w.now += 3 * time.Second })
			case 4:
				both(func(w *world) { w.connect(1) })
			}
			req := Request{Domain: "api", Settle: rapid.IntRange(0, 9).Draw(rt, "settle") == 0}
			for range rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(rt, "descriptors") {
				k := rapid.SampledFrom(kinds).Draw(rt, "kind")
				switch rapid.IntRange(0, 9).Draw(rt, "of its own") {
				case 0:
					k.Hits = new(uint64)
				case 1:
					k.Refund = true
				case 2:
					k.Override, _ = rules.NewOverride(5000, rules.UnitSecond)
				}
				req.Descriptors = append(req.Descriptors, k)
			}
			gap := rapid.SampledFrom([]time.Duration{100 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 9 * time.Millisecond}).Draw(rt, "gap")
			costs := rapid.SliceOfN(rapid.SampledFrom([]uint32{0, 1, 1, 1, 3, 3, 20, 900, 9000}), 3, 7).Draw(rt, "costs")
			var into [2]Decision
			for i := range rapid.IntRange(1, 200).Draw(rt, "requests") {
				req.Hits = 1
				if i%11 == 0 { // a cost is not part of what is remembered
					req.Hits = costs[i/11%len(costs)]
				}
				if with.e.repeats.find(with.e.snap.Load(), with.now+gap, &req) != nil {
					remembered++
				}
				for j, w := range []*world{with, without} {
					w.now += gap
					if err := w.e.DecideInto(context.Background(), w.now, req, &into[j]); err != nil {
						t.Fatal(err)
					}
				}
				if have, want := words(into[0]), words(into[1]); have != want {
					rt.Fatalf("request %d, %+v:\nhave %s\nwant %s", i, req, have, want)
				}
			}
			if with.takes != without.takes || with.wakes != without.wakes {
				rt.Fatalf("have %d takes and %d wakes, want %d and %d", with.takes, with.wakes, without.takes, without.wakes)
			}
			for i := range with.seen {
				with.seen[i].Place = nil
			}
			if !reflect.DeepEqual(with.seen, without.seen) {
				rt.Fatal("not the same demand is told")
			}
		}
	})
	if remembered == 0 {
		t.Error("no request was remembered")
	}
}

// words is a decision without pointers.
func words(d Decision) string {
	for i := range d.Statuses {
		s := &d.Statuses[i]
		if s.Limit != nil {
			d.Retry += time.Duration(s.Limit.Burst)
		}
	}
	text := fmt.Sprintf("%v %v %v %v %v", d.Over, d.Retry, d.Delay, d.Degraded, d.FromAllowance)
	for _, s := range d.Statuses {
		id := ""
		if s.Rule != nil {
			id = s.Rule.ID
		}
		s.Rule, s.Limit = nil, nil
		text += fmt.Sprintf("\n%s %+v", id, s)
	}
	return text
}

// What a caller does with the memory of its request does not change what is remembered.
func TestWhatIsRememberedIsACopy(t *testing.T) {
	w := newWorld(t, busyRules, drawing)
	w.second(5000, d("user=a"))
	req := Request{Domain: "api", Descriptors: []Descriptor{d("user=a")}}
	for dec := (Decision{}); !dec.FromAllowance; dec = w.decide(1, req.Descriptors...) {
		w.now += time.Millisecond
	}
	req.Descriptors[0].Entries[0].Value = "b"
	again := Request{Domain: "api", Descriptors: []Descriptor{d("user=a")}}
	if w.e.repeats.find(w.e.snap.Load(), w.now, &again) == nil {
		t.Error("the request is forgotten")
	}
	if w.e.repeats.find(w.e.snap.Load(), w.now, &req) != nil {
		t.Error("another request is taken for it")
	}
	w.e.repeats.slot("api", d("user=b").Entries).Store(w.e.repeats.slot("api", d("user=a").Entries).Load())
	if w.e.repeats.find(w.e.snap.Load(), w.now, &req) != nil {
		t.Error("a request of the same hash is taken for it")
	}
	if w.e.repeats.find(w.e.snap.Load(), w.now+repeatLife, &again) != nil {
		t.Error("it is remembered for longer than it may be")
	}
	slot := w.e.repeats.slot("api", again.Descriptors[0].Entries)
	late := slot.Load()
	w.adopt(busyRules)
	slot.Store(late) // by a request that was on its way
	if w.e.repeats.find(w.e.snap.Load(), w.now, &again) != nil {
		t.Error("it is remembered when the rules have changed")
	}
}

// Any number of values may share a key or be hidden in it: they are neither kept one after
// the other, nor at any length.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	const doc = `
domain: api
descriptors:
  - {key: shared, value: "a*", share_threshold: true, rate_limit: {unit: second, requests_per_unit: 10000, quota: {standing_share: 1}}}
  - {key: hidden, hash_value: true, rate_limit: {unit: second, requests_per_unit: 10000, quota: {standing_share: 1}}}
`
	paid := func(w *world, kind string, value func(i int) string) (remembered int) {
		for i := range 400 {
			w.now += time.Millisecond
			req := Request{Domain: "api", Descriptors: []Descriptor{d(kind + "=" + value(i))}}
			if w.decide(1, req.Descriptors...).FromAllowance && w.e.repeats.find(w.e.snap.Load(), w.now, &req) != nil {
				remembered++
			}
		}
		return remembered
	}
	w := newWorld(t, doc, drawing)
	if n := paid(w, "shared", func(i int) string { return fmt.Sprint("a", i) }); n != 1 {
		t.Errorf("%d of many values of one key are remembered, want 1", n)
	}
	if n := paid(w, "hidden", func(int) string { return strings.Repeat("s", maxAllowanceKey) }); n != 0 {
		t.Errorf("a hidden value of any length is remembered")
	}
	if n := paid(w, "hidden", func(int) string { return "short" }); n == 0 {
		t.Error("a short one is not")
	}
}

// A denial is remembered and so is the request: what the store would deny is denied,
// although the allowance could pay it.
func TestARequestThatIsRememberedIsDeniedFromMemory(t *testing.T) {
	w := newWorld(t, busyRules, drawing, func(c *Config) { c.RememberDenials = true })
	w.second(10_000, d("user=a"))
	for dec := (Decision{}); !dec.FromAllowance; dec = w.decide(1, d("user=a")) {
		w.now += 10 * time.Microsecond
	}
	for cost := uint32(9000); cost > 40; { // what is drawn ahead is less than this
		if w.decide(cost, d("user=a")).Over {
			cost -= cost / 4
		}
	}
	left := w.e.allowances.find(w.now, []byte(key(w, d("user=a")))).left
	dec := w.decide(39, d("user=a"))
	if left < quota.Whole(39) || !dec.Over {
		t.Errorf("%v are drawn ahead and the store has less than 39: over %v", left, dec.Over)
	}
}
