package enforce

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

func TestRequestsThatMakeNoSense(t *testing.T) {
	e := New(Config{})
	one := []Descriptor{d("user=alice")}
	for name, c := range map[string]struct {
		req  Request
		want error
	}{
		"no domain":      {Request{Descriptors: one}, ErrEmptyDomain},
		"no descriptors": {Request{Domain: "api"}, ErrNoDescriptors},
		"no rules yet":   {Request{Domain: "api", Descriptors: one}, ErrNoConfig},
	} {
		if _, err := e.Decide(context.Background(), 0, c.req); !errors.Is(err, c.want) {
			t.Errorf("%s: have %v, want %v", name, err, c.want)
		}
	}
}

const standingRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 10, quota: {standing_share: 1}}
  - key: open
    rate_limit: {unlimited: true}
  - key: closed
    rate_limit: {unit: minute, requests_per_unit: 0}
`

func TestNoRuleAndUnlimitedNeverAskTheStore(t *testing.T) {
	w := newWorld(t, standingRules)
	dec := w.decide(1, d("nobody=x"), d("open=x"), d("user=a|deeper=b"))
	w.want("nothing is counted", false, dec)
	if have := []Reason{dec.Statuses[0].Reason, dec.Statuses[1].Reason, dec.Statuses[2].Reason}; have[0] != NoRule || have[1] != Unlimited || have[2] != NoRule {
		t.Errorf("have %v", have)
	}
	other, err := w.e.Decide(context.Background(), w.now, Request{Domain: "other", Descriptors: []Descriptor{d("user=a")}})
	if err != nil || other.Over || !other.UnknownDomain {
		t.Errorf("unknown domain: have %+v, %v", other, err)
	}
	if w.takes != 0 {
		t.Errorf("the store was asked %d times", w.takes)
	}
}

func TestK08K09K10ZeroLimitDeniesWithoutStore(t *testing.T) {
	w := newWorld(t, standingRules)
	w.fail = ErrStoreDown
	for range 1000 {
		dec := w.want("zero limit", true, w.decide(1, d("closed=x")))
		if s := dec.Statuses[0]; s.Reason != ZeroLimit || !s.Never || s.Retry != time.Minute {
			t.Fatalf("have %+v", s)
		}
	}
	if w.takes != 0 {
		t.Errorf("the store was asked %d times", w.takes)
	}
}

func TestK11CostAboveBurstIsNeverSatisfiable(t *testing.T) {
	w := newWorld(t, standingRules)
	for name, ds := range map[string][]Descriptor{
		"request hits":              {d("user=a")},
		"descriptor hits":           {d("user=a", 11)},
		"two descriptors together":  {d("user=a", 6), d("user=a", 5)},
		"beside one that would fit": {d("user=a", 11), d("user=b", 1)},
	} {
		dec := w.want(name, true, w.decide(11, ds...))
		s := dec.Statuses[0]
		if !s.Never || s.Reason != BurstExceeded || s.Retry < time.Minute || s.Remaining != 0 || s.Reset == 0 {
			t.Errorf("%s: have %+v", name, s)
		}
	}
	if w.takes != 0 {
		t.Errorf("the store was asked %d times", w.takes)
	}
	w.want("nothing was spent", false, w.decide(10, d("user=a")))
}

// S3: weights up to 2^64-1 are denied like any other that is too large.
func TestAbsurdHitsSaturate(t *testing.T) {
	w := newWorld(t, standingRules)
	w.want("largest", true, w.decide(1, d("user=a", math.MaxUint64)))
	w.want("largest, twice", true, w.decide(math.MaxUint32, d("user=a", math.MaxUint64), d("user=a", math.MaxUint64), d("user=a")))
	w.want("nothing was spent", false, w.decide(10, d("user=a")))
}

func TestK12DeniedRequestBurnsNoTokens(t *testing.T) {
	w := newWorld(t, standingRules)
	w.want("use 8", false, w.decide(8, d("user=a")))
	w.want("ask 5", true, w.decide(5, d("user=a")))
	dec := w.want("ask 1", false, w.decide(1, d("user=a")))
	if have := dec.Statuses[0].Remaining; have != 1 {
		t.Errorf("remaining: have %d, want 1", have)
	}
}

func TestK23ZeroWeight(t *testing.T) {
	w := newWorld(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 2, quota: {standing_share: 1}}
`)
	for range 5 {
		dec := w.want("descriptor weight 0 looks", false, w.decide(1, d("user=a", 0)))
		if have := dec.Statuses[0].Remaining; have != 2 {
			t.Errorf("remaining: have %d, want 2", have)
		}
	}
	w.want("request weight 0 counts 1", false, w.decide(0, d("user=a")))
	w.want("second", false, w.decide(1, d("user=a")))
	w.want("third", true, w.decide(1, d("user=a")))
	w.want("a look is never over", false, w.decide(1, d("user=a", 0)))
}

func TestK32TwoWindowsOnOneDescriptor(t *testing.T) {
	w := newWorld(t, `
domain: api
descriptors:
  - key: user
    rate_limits:
      - {name: second, unit: second, requests_per_unit: 10, quota: {standing_share: 1}}
      - {name: day, unit: day, requests_per_unit: 250, quota: {standing_share: 1}}
`)
	for i := range 11 {
		dec := w.want("eleven in a second", i == 10, w.decide(1, d("user=a")))
		if have := dec.Statuses[0].Limit.Name; have != "second" {
			t.Errorf("hit %d: binding limit %q, want the second", i+1, have)
		}
	}
	admitted := 10
	for range 400 {
		w.now += time.Second
		w.connect(1)
		if dec := w.decide(1, d("user=a")); !dec.Over {
			admitted++
		} else if dec.Statuses[0].Limit.Name != "day" {
			t.Fatalf("denied by %q", dec.Statuses[0].Limit.Name)
		}
	}
	// The day's bucket gains one token in 345.6 s.
	if admitted != 251 {
		t.Errorf("over a day: admitted %d, want 250 and the one that has come back", admitted)
	}
}

func TestK33DeniedElsewhereIsNotCounted(t *testing.T) {
	w := newWorld(t, `
domain: api
descriptors:
  - key: group
    rate_limit: {unit: minute, requests_per_unit: 10, quota: {standing_share: 1}}
  - key: special
    rate_limit: {unit: minute, requests_per_unit: 3, quota: {standing_share: 1}}
`)
	for i := range 5 {
		dec := w.want("special", i >= 3, w.decide(1, d("group=g"), d("special=s")))
		if i >= 3 && (dec.Statuses[0].Over || !dec.Statuses[1].Over) {
			t.Errorf("hit %d: have %+v", i+1, dec.Statuses)
		}
	}
	if dec := w.decide(1, d("group=g", 0)); dec.Statuses[0].Remaining != 7 {
		t.Errorf("group: have %d left, want 7", dec.Statuses[0].Remaining)
	}
}

func TestK35TwoRulesDoNotShareACounter(t *testing.T) {
	w := newWorld(t, `
domain: api
descriptors:
  - key: method
    value: "*"
    rate_limit: {unit: minute, requests_per_unit: 1000, quota: {standing_share: 1}}
  - key: method
    value: m
    rate_limit: {unit: minute, requests_per_unit: 10, quota: {standing_share: 1}}
`)
	for range 50 {
		w.want("wildcard", false, w.decide(1, d("method=n")))
	}
	for i := range 12 {
		w.want("exact", i >= 10, w.decide(1, d("method=m")))
	}
}

func TestK37EveryValueIsInTheKey(t *testing.T) {
	w := newWorld(t, `
domain: api
descriptors:
  - key: plan
    descriptors:
      - key: account
        rate_limit: {unit: minute, requests_per_unit: 2, quota: {standing_share: 1}}
`)
	for _, who := range []string{"plan=x|account=a", "plan=x|account=b", "plan=y|account=a", "plan=x|account=", "plan=x|account=a%7C"} {
		for i := range 3 {
			w.want(who, i == 2, w.decide(1, d(who)))
		}
	}
}

func TestSameKeyTwiceInOneRequestAddsUp(t *testing.T) {
	w := newWorld(t, standingRules)
	dec := w.want("6 and 4", false, w.decide(1, d("user=a", 6), d("user=a", 4)))
	for i, s := range dec.Statuses {
		if s.Remaining != 0 {
			t.Errorf("status %d: have %d left", i, s.Remaining)
		}
	}
	if have := len(w.asked[0]); have != 1 {
		t.Errorf("asks: have %d, want 1", have)
	}
	w.want("spent", true, w.decide(1, d("user=a")))
}

func TestReplacedRulesAreNotCounted(t *testing.T) {
	w := newWorld(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {name: general, unit: minute, requests_per_unit: 1, quota: {standing_share: 1}}
  - key: vip
    rate_limit: {unit: minute, requests_per_unit: 5, replaces: [{name: general}], quota: {standing_share: 1}}
`)
	for i := range 6 {
		dec := w.want("vip", i == 5, w.decide(1, d("user=a"), d("vip=a")))
		if s := dec.Statuses[0]; s.Over || s.Limit != nil || s.Reason != Replaced {
			t.Errorf("replaced: have %+v", s)
		}
	}
	w.want("alone it counts", false, w.decide(1, d("user=a")))
	w.want("and denies", true, w.decide(1, d("user=a")))
}

func TestShadowRulesAreCountedAndNeverDeny(t *testing.T) {
	w := newWorld(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 5, quota: {standing_share: 1}}
  - key: trial
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 2, quota: {standing_share: 1}}
  - key: other
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 4, quota: {standing_share: 1}}
  - key: none
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 0}
`)
	for i := range 8 {
		dec := w.want("user decides", i >= 5, w.decide(1, d("trial=x"), d("user=a"), d("other=x"), d("none=x")))
		for j, s := range dec.Statuses {
			// Each shadow rule is counted for itself, whatever the others said.
			if want := j == 0 && i >= 2 || j == 2 && i >= 4 || j == 3; s.Shadowed != want || j != 1 && s.Over {
				t.Errorf("request %d, status %d: have %+v, want shadowed %v", i, j, s, want)
			}
			if s.Shadowed && s.Reason != Shadow {
				t.Errorf("request %d, status %d: reason %q", i, j, s.Reason)
			}
		}
	}
	w.fail = ErrStoreDown
	dec := w.decide(1, d("trial=x"))
	if s := dec.Statuses[0]; dec.Over || s.Reason != StoreDegraded {
		t.Errorf("store away: have %+v", s)
	}
}

func TestShadowMode(t *testing.T) {
	w := newWorld(t, standingRules, func(c *Config) { c.ShadowMode = true })
	dec := w.want("passes", false, w.decide(1, d("closed=x")))
	if !dec.Shadowed || !dec.Statuses[0].Over {
		t.Errorf("have %+v", dec)
	}
}

func TestQuotaModeDeniesWhenAllQuotaRulesDo(t *testing.T) {
	const doc = `
domain: api
descriptors:
  - key: small
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 2, quota: {standing_share: 1}}
  - key: large
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 4, quota: {standing_share: 1}}
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 6, quota: {standing_share: 1}}
  - key: free
    quota_mode: true
    rate_limit: {unlimited: true}
`
	w := newWorld(t, doc)
	for i := range 5 {
		dec := w.want("small and large", i >= 4, w.decide(1, d("small=x"), d("large=x"), d("user=a")))
		if have := dec.Statuses[0].Over; have != (i >= 2) {
			t.Errorf("request %d: small is over %v", i, have)
		}
	}
	// What passed was counted wherever there was room: the user's bucket too.
	if have := w.decide(1, d("user=a", 0)).Statuses[0].Remaining; have != 2 {
		t.Errorf("user: have %d left, want 2", have)
	}
	w.want("an unlimited quota rule is never over", false, w.decide(1, d("small=x"), d("free=x"), d("user=a")))
	w.want("a rule that is no quota rule denies alone", true, w.decide(2, d("large=y"), d("user=a")))

	w = newWorld(t, doc, func(c *Config) { c.QuotaMode = true })
	w.decide(6, d("user=b"))
	w.want("quota mode for all: one has room", false, w.decide(1, d("large=z"), d("user=b")))
}

func TestAskCarriesModeAndStandingShare(t *testing.T) {
	w := newWorld(t, `
domain: api
descriptors:
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 100}}
  - {key: b, rate_limit: {unit: minute, requests_per_unit: 100, quota: {on_disconnect: hold}}}
  - {key: c, rate_limit: {unit: minute, requests_per_unit: 100, quota: {on_disconnect: deny}}}
  - {key: d, rate_limit: {unit: minute, requests_per_unit: 100, quota: {on_disconnect: allow}}}
`)
	w.decide(1, d("a=x"), d("b=x"), d("c=x"), d("d=x"))
	for i, want := range []bucket.Mode{bucket.ModeStanding, bucket.ModeHold, bucket.ModeDeny, bucket.ModeAllow} {
		if have := w.asked[0][i]; have.Mode != want || have.Standing.Burst != 10*quota.Token {
			t.Errorf("ask %d: have %+v", i, have)
		}
	}
}
