package enforce

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
)

func remembering(c *Config) { c.RememberDenials = true }

const denialRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 10, quota: {standing_share: 1}}
  - key: fast
    rate_limit: {unit: second, requests_per_unit: 100, quota: {standing_share: 1}}
  - key: cut
    rate_limit: {unit: minute, requests_per_unit: 10, quota: {standing_share: 1, on_disconnect: deny}}
  - key: two
    rate_limits:
      - {name: small, unit: minute, requests_per_unit: 2, quota: {standing_share: 1}}
      - {name: large, unit: hour, requests_per_unit: 100, quota: {standing_share: 1}}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1, quota: {standing_share: 1}}
  - key: leased
    rate_limit: {unit: minute, requests_per_unit: 10, quota: {standing_share: 0, cold_start_wait: 100ms}}
`

// spent is a world in which each of the keys is denied, and remembered to be.
func spent(t *testing.T, ds ...Descriptor) *world {
	t.Helper()
	w := newWorld(t, denialRules, remembering)
	for _, one := range ds {
		for i := 0; ; i++ {
			dec := w.decide(1, one)
			if dec.Over || dec.Statuses[0].Shadowed {
				break
			}
			if i > 1000 {
				t.Fatal("never denied")
			}
		}
	}
	w.takes, w.seen = 0, nil
	return w
}

func TestDenialsAreAnsweredFromMemory(t *testing.T) {
	w := spent(t, d("user=a"))
	for i := range 9 {
		w.now += 10 * time.Millisecond
		dec := w.want("again", true, w.decide(1, d("user=a")))
		s := dec.Statuses[0]
		if want := 6*time.Second - time.Duration(i+1)*10*time.Millisecond; s.Retry > want || s.Retry < want-3*time.Millisecond {
			t.Errorf("after %d0 ms: retry %v, want %v counted down", i+1, s.Retry, want)
		}
		if s.Reason != GlobalExhausted && s.Reason != LeaseEmpty || s.Limit == nil || s.Reset <= 0 {
			t.Errorf("have %+v", s)
		}
	}
	if w.takes != 0 {
		t.Errorf("the store was asked %d times", w.takes)
	}
	if len(w.seen) != 9 || w.seen[0].Admitted || w.seen[0].Cost != quota.Token {
		t.Errorf("demand heard of %d denials, want 9: %+v", len(w.seen), w.seen)
	}
	w.now += 10 * time.Millisecond
	w.want("after 100 ms", true, w.decide(1, d("user=a")))
	if w.takes != 1 {
		t.Errorf("after 100 ms: the store was asked %d times, want 1", w.takes)
	}
}

// K12 and K13: what memory denies is what the store denies, to the token.
func TestK12K13MemoryIsNotOffByOne(t *testing.T) {
	w := newWorld(t, denialRules, remembering)
	w.want("use 8", false, w.decide(8, d("user=a")))
	w.want("ask 5", true, w.decide(5, d("user=a")))
	w.takes = 0
	w.want("ask 3, from memory", true, w.decide(3, d("user=a")))
	if w.takes != 0 {
		t.Errorf("3 of 2 left: the store was asked %d times", w.takes)
	}
	w.want("the ninth", false, w.decide(1, d("user=a")))
	w.want("the tenth", false, w.decide(1, d("user=a")))
	w.want("the eleventh", true, w.decide(1, d("user=a")))
}

func TestATokenThatRefillsIsNotDeniedFromMemory(t *testing.T) {
	w := spent(t, d("fast=a")) // a token every 10 ms
	w.now += 9 * time.Millisecond
	w.want("too early", true, w.decide(1, d("fast=a")))
	w.now += time.Millisecond
	w.want("in time", false, w.decide(1, d("fast=a")))
}

func TestWhatThisAgentDoesDropsADenial(t *testing.T) {
	k := quota.Key("api|user=a")
	for _, tc := range []struct {
		reason string
		do     func(w *world)
		over   bool
	}{
		{"an assignment", func(w *world) {
			w.grant(k, 1, 1, 1, quota.Whole(1))
			w.e.Forget(k)
		}, false},
		{"a configuration", func(w *world) { w.adopt(denialRules + "  - {key: more, rate_limit: {unlimited: true}}\n") }, true},
		{"a session", func(w *world) { w.connect(2) }, true},
		{"an assignment for another key", func(w *world) { w.e.Forget("api|user=b") }, true},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := spent(t, d("user=a"))
			tc.do(w)
			w.want("afterwards", tc.over, w.decide(1, d("user=a")))
			asked := 1
			if tc.reason == "an assignment for another key" {
				asked = 0
			}
			if w.takes != asked {
				t.Errorf("the store was asked %d times, want %d", w.takes, asked)
			}
		})
	}
}

// A region that is cut off denies by on_disconnect until its deadline moves.
func TestARenewalDropsADenial(t *testing.T) {
	w := newWorld(t, denialRules, remembering)
	w.now += 11 * time.Second
	w.read()
	w.want("cut off", true, w.decide(1, d("cut=a")))
	w.connect(1)
	w.want("connected", false, w.decide(1, d("cut=a")))
}

// An answer that was under way when an assignment was applied may be older than it.
func TestAnAnswerFromBeforeAnAssignmentIsNotRemembered(t *testing.T) {
	w := newWorld(t, denialRules, remembering)
	changes := w.e.changes()
	w.e.Forget("api|user=b")
	v := bucket.Verdict{Holding: bucket.OnStanding, Capacity: quota.Capacity{Burst: quota.Token}}
	w.e.denials.remember(w.now, changes, "api|user=a", quota.Token, &v, true)
	if _, _, _, ok := w.e.denials.deny(w.now, bucket.Ask{Key: "api|user=a", Cost: quota.Token}); ok {
		t.Error("it is remembered")
	}
}

func TestOneDenialFromMemoryDeniesTheRequest(t *testing.T) {
	w := spent(t, d("user=a"), d("two=a"), d("shadow=a"))
	dec := w.want("beside one that has enough", true, w.decide(1, d("user=b"), d("user=a")))
	if have := dec.Statuses[0]; have.Over || have.Reason != NotAsked {
		t.Errorf("the other: have %+v, want not asked", have)
	}
	dec = w.want("one of two limits", true, w.decide(1, d("two=a")))
	if s := dec.Statuses[0]; !s.Over || s.Limit == nil || s.Limit.Name != "small" {
		t.Errorf("have %+v, want the small limit", s)
	}
	if w.takes != 0 {
		t.Errorf("the store was asked %d times", w.takes)
	}
	dec = w.want("a shadow rule beside it", false, w.decide(1, d("user=b"), d("shadow=a")))
	if !dec.Statuses[1].Shadowed || w.takes != 1 || dec.Statuses[0].Remaining != 9 {
		t.Errorf("have %+v after %d takes", dec.Statuses, w.takes)
	}
}

// A key that has nothing yet may wait for a lease each time, not only at first.
func TestAKeyThatMayWaitForALeaseIsNotDeniedFromMemory(t *testing.T) {
	w := newWorld(t, denialRules, remembering)
	w.want("no lease comes", true, w.decide(1, d("leased=a")))
	w.now += 10 * time.Millisecond
	w.takes = 0
	w.want("again", true, w.decide(1, d("leased=a")))
	if w.takes == 0 {
		t.Error("the store was not asked")
	}
}

// K96: memory is bounded, and comes back although nothing new is denied.
func TestK96DenialsAreBounded(t *testing.T) {
	d := new(denials)
	v := bucket.Verdict{Holding: bucket.OnStanding, Capacity: quota.Capacity{Burst: quota.Token}}
	count := func() (n int) {
		for i := range d.shards {
			n += len(d.shards[i].young) + len(d.shards[i].old)
		}
		return n
	}
	now := time.Hour
	for i := range 200_000 {
		d.remember(now, 0, quota.Key(fmt.Sprint("one-shot-", i)), quota.Token, &v, true)
		now += time.Microsecond
	}
	if have := count(); have > maxDenials || have < maxDenials/2 {
		t.Errorf("have %d, want at most %d", have, maxDenials)
	}
	for range 20 {
		now += believed / 10
		for i := range 10_000 {
			if _, _, _, ok := d.deny(now, bucket.Ask{Key: quota.Key(fmt.Sprint("looked-", i)), Cost: quota.Token}); ok {
				t.Fatal("a key that nobody denied is denied")
			}
		}
	}
	if have := count(); have != 0 {
		t.Errorf("have %d left after only looking", have)
	}
	d.remember(now, 0, quota.Key(make([]byte, maxDenialKey+1)), quota.Token, &v, true)
	if have := count(); have != 0 {
		t.Error("a key that is too long is remembered")
	}
}

// TestMemoryDeniesOnlyWhatTheStoreDenies asks random requests at random times, and
// the store itself beside the enforcer: their answers must never differ, and a
// Retry from memory must be the store's but for the 2 % that memory hurries.
func TestMemoryDeniesOnlyWhatTheStoreDenies(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, denialRules, remembering)
		epoch := quota.Epoch(0)
		for range rapid.IntRange(1, 60).Draw(rt, "requests") {
			w.now += time.Duration(rapid.SampledFrom([]int64{0, 1, 50, 1000, 9000, 40_000, 120_000, 7_000_000}).Draw(rt, "us")) * time.Microsecond
			name := rapid.SampledFrom([]string{"user", "fast", "two"}).Draw(rt, "rule")
			one := d(name + "=a")
			if rapid.IntRange(0, 9).Draw(rt, "grant") == 0 && name != "two" {
				epoch++
				k := quota.Key("api|" + name + "=a")
				w.connect(1)
				w.grant(k, epoch, rapid.Int64Range(1, 4).Draw(rt, "part"), 4, 0)
				w.e.Forget(k)
			}
			hits := rapid.Uint32Range(1, 4).Draw(rt, "hits")
			var asks []bucket.Ask
			rule := w.e.Adoption().Set.Match("api", []rules.Entry{{Key: name, Value: "a"}})
			for i := range rule.Limits {
				k := rule.Key("api", one.Entries, i)
				asks = append(asks, bucket.Ask{Key: k, Cost: quota.Whole(uint64(hits)), Standing: w.e.Adoption().StandingOf(k, 0)})
			}
			admitted, verdicts := w.store.Clone().Take(w.time(), asks)
			before := w.takes
			dec := w.decide(hits, one)
			if dec.Over == admitted {
				rt.Fatalf("%d of %s: the store says %v, the enforcer %+v", hits, name, verdicts, dec)
			}
			if !dec.Over || w.takes != before || dec.Statuses[0].Never {
				continue
			}
			longest := time.Duration(0)
			for _, v := range verdicts {
				longest = max(longest, min(v.Retry.Duration(), window(dec.Statuses[0].Limit)))
			}
			if longest == window(dec.Statuses[0].Limit) {
				continue // waits for a lease, which is a guess
			}
			if have := dec.Retry; have > longest || have < longest-believed/ahead-2*time.Microsecond {
				rt.Fatalf("retry %v from memory, the store says %v", have, longest)
			}
		}
	})
}
