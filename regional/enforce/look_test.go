package enforce

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

const lookDoc = `
domain: api
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 6, quota: {standing_share: 1}}
- key: rare
  rate_limit: {unit: minute, requests_per_unit: 6, quota: {standing_share: 0, cold_start_wait: 0s}}
- key: zero
  rate_limit: {unit: minute, requests_per_unit: 0}
- key: seen
  rate_limit: {unit: minute, requests_per_unit: 1, quota: {standing_share: 1}}
  shadow_mode: true
`

func (w *world) look(ds ...Descriptor) Decision {
	w.t.Helper()
	dec, err := w.e.Look(context.Background(), w.now, Request{Domain: "api", Descriptors: ds})
	if err != nil {
		w.t.Fatal(err)
	}
	check(w.t, dec, len(w.charged) > 0)
	return dec
}

// What Look says is what Decide does next, and saying it costs nothing.
func TestLookSaysWhatDecideWillDo(t *testing.T) {
	w := newWorld(t, lookDoc)
	for i := range 8 {
		for range 3 {
			ahead := w.look(d("user=a"))
			if ahead.Over != (i >= 6) || !ahead.Over && ahead.Statuses[0].Reason != StandingShare ||
				ahead.Over && (ahead.Statuses[0].Reason != LeaseEmpty || ahead.Retry != 10*time.Second) {
				t.Fatalf("before request %d: have %+v", i+1, ahead)
			}
		}
		w.want("after the looks", i >= 6, w.decide(1, d("user=a")))
	}
	w.now += 10*time.Second - time.Microsecond
	w.want("just before the told wait", true, w.look(d("user=a")))
	w.now += time.Microsecond
	w.want("after the told wait", false, w.look(d("user=a")))
	if w.seen = nil; w.look(d("user=b")).Over || len(w.seen) != 0 || len(w.waited) != 0 {
		t.Errorf("a look is demand, or waited: %v %v", w.seen, w.waited)
	}
}

func TestLookNamesTheSource(t *testing.T) {
	w := newWorld(t, lookDoc)
	for _, c := range []struct {
		name   string
		d      Descriptor
		over   bool
		reason Reason
		source Source
	}{
		{"the share has tokens", d("user=a"), false, StandingShare, FromShare},
		{"nothing held yet", d("rare=a"), true, LeaseEmpty, FromNobody},
		{"a limit of zero", d("zero=a"), true, ZeroLimit, ""},
		{"more than the limit", d("user=a", 7), true, BurstExceeded, ""},
		{"no rule", d("nobody=a"), false, NoRule, ""},
	} {
		s := w.look(c.d).Statuses[0]
		if s.Over != c.over || s.Reason != c.reason || s.Source != c.source {
			t.Errorf("%s: have over %v, %s from %q", c.name, s.Over, s.Reason, s.Source)
		}
	}
	rare := d("rare=a")
	w.grant(key(w, rare), 1, 1, 1, quota.Whole(6))
	if s := w.look(rare).Statuses[0]; s.Over || s.Reason != WithinLease || s.Source != FromLease {
		t.Errorf("with a lease: have %+v", s)
	}
	w.decide(1, d("seen=a"))
	if s := w.look(d("seen=a")).Statuses[0]; s.Over || !s.Shadowed {
		t.Errorf("a shadow rule: have %+v", s)
	}
	w.fail = errors.New("away")
	w.decide(1, d("user=c"))
	if s := w.look(d("user=c")).Statuses[0]; !s.Over || s.Reason != StoreDegraded || s.Source != FromFallback || s.Reason.Scope() != "region" {
		t.Errorf("without the store: have %+v", s)
	}
	if len(w.charged) != 0 {
		t.Errorf("a look charged %v", w.charged)
	}
}

// A debt that an outage left takes longer to pay back than the limit takes to
// fill: the wait that is told is the one that is needed.
func TestK82RetryCountsADebt(t *testing.T) {
	w := newWorld(t, lookDoc)
	k := key(w, d("user=a"))
	st := w.e.Adoption().StandingOf(k, w.time())
	if err := w.store.Charge(w.time(), "i1", []bucket.Charge{{Key: k, Tokens: quota.Whole(26), Standing: st}}); err != nil {
		t.Fatal(err)
	}
	dec, err := w.e.Decide(t.Context(), w.now, Request{Domain: "api", Descriptors: []Descriptor{d("user=a")}})
	if err != nil || !dec.Over || dec.Retry != 210*time.Second { // 20 owed and 1 wanted, at 1 in 10 s
		t.Fatalf("have %+v, %v", dec, err)
	}
	w.now += dec.Retry - time.Microsecond
	w.want("before the told wait", true, w.look(d("user=a")))
	w.now += time.Microsecond
	w.want("after the told wait", false, w.decide(1, d("user=a")))
}

// When a limit is lowered below what is used, the wait is that of the new limit.
func TestK82RetryAfterALoweredLimit(t *testing.T) {
	w := newWorld(t, lookDoc)
	for range 6 {
		w.decide(1, d("user=a"))
	}
	w.adopt("domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 2, quota: {standing_share: 1}}}]")
	dec := w.want("lowered", true, w.decide(1, d("user=a")))
	if dec.Retry != 30*time.Second {
		t.Errorf("want 30 s, have %s", dec.Retry)
	}
	w.now += dec.Retry
	w.want("after the told wait", false, w.decide(1, d("user=a")))
	w.want("and no more", true, w.decide(1, d("user=a")))
}
