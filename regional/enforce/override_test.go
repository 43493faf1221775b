package enforce

import (
	"math"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

const overrideRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {name: general, unit: minute, requests_per_unit: 10, quota: {standing_share: 1}}
  - key: fixed
    allow_override: false
    rate_limit: {unit: minute, requests_per_unit: 10, quota: {standing_share: 1}}
  - key: free
    rate_limit: {unlimited: true}
  - key: many
    rate_limits: [{name: s, unit: second, requests_per_unit: 1}, {name: d, unit: day, requests_per_unit: 1}]
  - key: trial
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: vip
    rate_limit: {unit: minute, requests_per_unit: 5, replaces: [{name: general}], quota: {standing_share: 1}}
  - key: denied
    rate_limit: {unit: minute, requests_per_unit: 10, quota: {on_store_failure: deny, on_disconnect: deny}}
  - key: open
    rate_limit: {unit: minute, requests_per_unit: 10, quota: {on_store_failure: allow, on_disconnect: allow}}
  - key: prompt
    rate_limit: {unit: minute, requests_per_unit: 10, quota: {cold_start_wait: 0s}}
`

// with is d with an override like "10/minute".
func with(t testing.TB, override, entries string, hits ...uint64) Descriptor {
	t.Helper()
	o, err := rules.ParseOverride(override)
	if err != nil {
		t.Fatal(err)
	}
	out := d(entries, hits...)
	out.Override = o
	return out
}

// overrideWorld is a coordinator that gives the whole of each limit to the one region.
func overrideWorld(t testing.TB, set ...func(*Config)) *world {
	w := newWorld(t, overrideRules, set...)
	epoch := quota.Epoch(0)
	w.onAwait = func(k quota.Key) error {
		epoch++
		_, l := w.e.Adoption().Set.LimitOf(k)
		w.grant(k, epoch, 1, 1, l.Burst)
		return nil
	}
	return w
}

func TestAnOverrideHasABucketOfItsOwn(t *testing.T) {
	w := overrideWorld(t)
	dec := w.want("the first request waits for a lease", false, w.decide(1, with(t, "3/minute", "user=a")))
	if s := dec.Statuses[0]; !dec.Waited || s.Reason != WithinLease || s.Source != FromLease || s.Remaining != 2 || s.Rule.ID != "api/user" || s.Limit.String() != "3 per minute" {
		t.Errorf("have %+v", dec)
	}
	w.want("two more", false, w.decide(2, with(t, "3/minute", "user=a")))
	dec = w.want("spent", true, w.decide(1, with(t, "3/minute", "user=a")))
	if s := dec.Statuses[0]; s.Reason != GlobalExhausted || s.Retry != 20*time.Second {
		t.Errorf("have %+v", s)
	}
	w.want("the rule's own bucket has all of it", false, w.decide(10, d("user=a")))
	w.want("and not more", true, w.decide(1, d("user=a")))
	w.want("another override", false, w.decide(4, with(t, "4/minute", "user=a")))
	w.want("the same number by the hour", false, w.decide(3, with(t, "3/hour", "user=a")))
	w.want("another value", false, w.decide(3, with(t, "3/minute", "user=b")))
	w.now += 20 * time.Second
	w.connect(1)
	w.want("one in 20 s", false, w.decide(1, with(t, "3/minute", "user=a")))
	w.want("and not two", true, w.decide(1, with(t, "3/minute", "user=a")))
}

func TestOverridesAndTheRulesTheyMeet(t *testing.T) {
	for _, tt := range []struct {
		reason, override, entries string
		rule, limit               string // "" for none
		want                      Reason
		asks                      int
	}{
		{"a rule", "7/minute", "user=a", "api/user", "7 per minute", WithinLease, 1},
		{"a rule with several limits", "7/minute", "many=a", "api/many", "7 per minute", WithinLease, 1},
		{"an unlimited rule", "7/minute", "free=a", "api/free", "7 per minute", WithinLease, 1},
		{"no rule", "7/month", "nobody=a", "api#override", "7 per month", WithinLease, 1},
		{"a longer descriptor than the rule's", "7/year", "user=a|deeper=b", "api#override", "7 per year", WithinLease, 1},
		{"a rule that is not to be overridden", "7/minute", "fixed=a", "api/fixed", "10 per minute", StandingShare, 1},
	} {
		w := overrideWorld(t)
		dec := w.want(tt.reason, false, w.decide(1, with(t, tt.override, tt.entries)))
		s := dec.Statuses[0]
		if s.Rule.ID != tt.rule || s.Limit.String() != tt.limit || s.Reason != tt.want {
			t.Errorf("%s: have %s, %v, %s", tt.reason, s.Rule.ID, s.Limit, s.Reason)
		}
		if asks := w.asked[len(w.asked)-1]; len(asks) != tt.asks {
			t.Errorf("%s: have %d asks, want %d", tt.reason, len(asks), tt.asks)
		}
	}
	w := overrideWorld(t)
	dec, err := w.e.Decide(t.Context(), w.now, Request{Domain: "other", Descriptors: []Descriptor{with(t, "1/minute", "user=a", 5)}})
	if err != nil || dec.Over || !dec.UnknownDomain || dec.Statuses[0].Reason != NoRule || w.takes != 0 {
		t.Errorf("an unknown domain: have %+v, %v", dec, err)
	}
}

// K10, K11: what a limit of 0 and a cost above the burst are for a rule they are for an
// override, and nobody is told of such a demand.
func TestK10K11OverridesThatCannotAdmit(t *testing.T) {
	w := overrideWorld(t)
	for name, c := range map[string]struct {
		d    Descriptor
		hits uint32
		want Reason
	}{
		"zero":                  {with(t, "0/day", "user=a"), 1, ZeroLimit},
		"zero of an open rule":  {with(t, "0/day", "open=a"), 1, ZeroLimit},
		"zero where none is":    {with(t, "0/day", "free=a"), 1, ZeroLimit},
		"more than the burst":   {with(t, "3/day", "user=a"), 4, BurstExceeded},
		"absurdly much of it":   {with(t, "4294967295/second", "user=a", math.MaxUint64), 1, BurstExceeded},
		"more, where none is":   {with(t, "3/day", "nobody=a"), 4, BurstExceeded},
		"more than the others'": {with(t, "1/day", "many=a"), 2, BurstExceeded},
	} {
		dec := w.want(name, true, w.decide(c.hits, c.d))
		if s := dec.Statuses[0]; s.Reason != c.want || !s.Never {
			t.Errorf("%s: have %+v", name, s)
		}
	}
	if w.takes != 0 || len(w.seen) != 0 {
		t.Errorf("the store was asked %d times, and %d demands reported", w.takes, len(w.seen))
	}
	w.want("the largest limit there is", false, w.decide(math.MaxUint32, with(t, "4294967295/second", "user=a")))
}

func TestOverridesInOneRequest(t *testing.T) {
	w := overrideWorld(t)
	dec := w.want("the same twice add up", true, w.decide(2, with(t, "3/minute", "user=a"), with(t, "3/minute", "user=a")))
	if dec.Statuses[0].Reason != BurstExceeded || dec.Statuses[1].Reason != BurstExceeded {
		t.Errorf("have %+v", dec.Statuses)
	}
	w.want("with, without and another are three", false, w.decide(3, with(t, "3/minute", "user=a"), d("user=a"), with(t, "4/minute", "user=a")))
	if asks := w.asked[len(w.asked)-1]; len(asks) != 3 {
		t.Errorf("have %d asks, want 3", len(asks))
	}
	w.want("all or nothing", true, w.decide(1, d("user=a"), with(t, "3/minute", "user=a")))
	w.want("so nothing of it is gone", false, w.decide(7, d("user=a")))

	many := []Descriptor{}
	for range 3 * linear {
		many = append(many, with(t, "100/minute", "nobody=many"), with(t, "100/hour", "nobody=many"))
	}
	w.want("many of them", false, w.decide(1, many...))
	dec = w.decide(0, with(t, "100/minute", "nobody=many", 0), with(t, "100/hour", "nobody=many", 0))
	for i, s := range dec.Statuses {
		if s.Remaining != 100-3*linear {
			t.Errorf("descriptor %d has %d left, want %d", i, s.Remaining, 100-3*linear)
		}
	}
}

func TestPoliciesOfRulesHoldForOverrides(t *testing.T) {
	w := overrideWorld(t)
	dec := w.want("a shadow rule", false, w.decide(2, with(t, "1/minute", "trial=a")))
	if s := dec.Statuses[0]; !s.Shadowed || s.Reason != Shadow {
		t.Errorf("have %+v", s)
	}
	dec = w.want("a rule that another replaces", false, w.decide(1, with(t, "1/minute", "user=a"), d("vip=a")))
	if s := dec.Statuses[0]; s.Reason != Replaced || s.Limit != nil {
		t.Errorf("have %+v", s)
	}
	waits := len(w.waited)
	w.want("no wait for a lease", true, w.decide(1, with(t, "1/minute", "prompt=a")))
	if len(w.waited) != waits {
		t.Errorf("waited for %v", w.waited[waits:])
	}
	for _, e := range []string{"user=a", "denied=a", "open=a", "nobody=a"} {
		w.want(e, false, w.decide(1, with(t, "9/minute", e)))
	}
	for _, away := range []struct {
		what string
		set  func()
	}{
		{"cut off", func() { w.now += time.Minute }},
		{"without a store", func() { w.fail = ErrStoreDown }},
	} {
		away.set()
		// Nobody has a standing share of an override, so that is what is left.
		for e, over := range map[string]bool{"user=a": true, "denied=a": true, "nobody=a": true, "open=a": false} {
			w.want(away.what+": "+e, over, w.decide(1, with(t, "9/minute", e)))
		}
	}
}

func TestQuotaRulesWithOverrides(t *testing.T) {
	w := overrideWorld(t, func(c *Config) { c.QuotaMode = true })
	w.want("its first lease", false, w.decide(1, with(t, "2/minute", "nobody=a")))
	w.want("one of two quotas is over", false, w.decide(1, with(t, "0/minute", "user=a"), with(t, "2/minute", "nobody=a")))
	w.want("both are", true, w.decide(1, with(t, "0/minute", "user=a"), with(t, "2/minute", "nobody=a")))
	w.want("an unlimited rule that is limited is a quota", true, w.decide(1, with(t, "0/minute", "free=a")))
}

// K24: refunds and settlements go to the bucket of the override.
func TestK24RefundsOfOverrides(t *testing.T) {
	w := overrideWorld(t, remembering)
	w.want("all", false, w.decide(3, with(t, "3/minute", "user=a")))
	w.want("spent", true, w.decide(1, with(t, "3/minute", "user=a")))
	w.afterwards(3, 1, with(t, "3/minute", "user=a"))
	dec := w.want("two are back", false, w.decide(2, with(t, "3/minute", "user=a")))
	if dec.Statuses[0].Remaining != 0 {
		t.Errorf("have %+v", dec.Statuses[0])
	}
	dec = w.decide(0, d("user=a", 0))
	if dec.Statuses[0].Remaining != 10 {
		t.Errorf("the rule's own bucket has %d, want 10", dec.Statuses[0].Remaining)
	}
}

// K91: overrides of any number name the rules that are there, and one for each domain.
func TestK91OverridesNameFewRules(t *testing.T) {
	w := overrideWorld(t)
	w.e.cfg.Leases = nil
	named := map[*rules.Rule]bool{}
	for i := range 2000 {
		o, err := rules.NewOverride(uint32(i), rules.UnitHour)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []string{"user=a", "nobody=a", "else=b"} {
			one := d(e)
			one.Override = o
			named[w.decide(1, one).Statuses[0].Rule] = true
		}
	}
	if len(named) != 2 {
		t.Errorf("have %d rules, want 2", len(named))
	}
}

func TestOverridesAreLookedAt(t *testing.T) {
	w := overrideWorld(t)
	w.want("all", false, w.decide(3, with(t, "3/minute", "user=a")))
	dec, err := w.e.Look(t.Context(), w.now, Request{Domain: "api", Descriptors: []Descriptor{with(t, "3/minute", "user=a"), d("user=a")}})
	if err != nil || !dec.Over || !dec.Statuses[0].Over || dec.Statuses[1].Over {
		t.Errorf("have %+v, %v", dec, err)
	}
}
