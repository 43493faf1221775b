package enforce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

const leaseRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 100}
  - key: tiny
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: patient
    rate_limit: {unit: minute, requests_per_unit: 5, quota: {cold_start_wait: 0s}}
  - key: hold
    rate_limit: {unit: minute, requests_per_unit: 100, quota: {on_disconnect: hold}}
  - key: deny
    rate_limit: {unit: minute, requests_per_unit: 100, quota: {on_disconnect: deny}}
  - key: allow
    rate_limit: {unit: minute, requests_per_unit: 100, quota: {on_disconnect: allow}}
`

// The region "eu" has half of what the rules give to standing shares: 5 of 100.
func twoRegions(w *world) {
	w.shares = quota.Shares{{Region: "eu", Weight: 1}, {Region: "us", Weight: 1}}
	w.adopt(leaseRules)
}

func TestReasons(t *testing.T) {
	for _, c := range []struct {
		name string
		key  string
		play func(w *world, k quota.Key)
		hits uint32
		over bool
		want Reason
	}{
		{"a lease has it", "user", func(w *world, k quota.Key) { w.grant(k, 1, 1, 2, 20*quota.Token) }, 10, false, WithinLease},
		{"the lease is empty", "user", func(w *world, k quota.Key) { w.grant(k, 1, 1, 2, 0) }, 10, true, LeaseEmpty},
		{"the lease is nearly all that can be had, and empty", "user", func(w *world, k quota.Key) { w.grant(k, 1, 90, 100, 0) }, 10, true, GlobalExhausted},
		{"the standing share has it", "user", func(*world, quota.Key) {}, 5, false, StandingShare},
		{"the standing share is too small, connected", "user", func(*world, quota.Key) {}, 6, true, LeaseEmpty},
		{"no standing share, connected", "patient", func(*world, quota.Key) {}, 1, true, LeaseEmpty},
		{"standing share, cut off", "user", func(w *world, k quota.Key) { w.now += 11 * time.Second }, 5, false, StandingShare},
		{"standing share too small, cut off", "user", func(w *world, k quota.Key) { w.now += 11 * time.Second }, 6, true, CoordinatorUnreachable},
		{"no standing share, cut off", "tiny", func(w *world, k quota.Key) { w.now += 11 * time.Second }, 1, true, CoordinatorUnreachable},
		{"hold, cut off", "hold", func(w *world, k quota.Key) { w.grant(k, 1, 1, 2, 20*quota.Token); w.now += 11 * time.Second }, 10, false, CoordinatorUnreachable},
		{"hold, cut off and spent", "hold", func(w *world, k quota.Key) { w.grant(k, 1, 1, 2, 0); w.now += 11 * time.Second }, 40, true, CoordinatorUnreachable},
		{"deny, cut off", "deny", func(w *world, k quota.Key) { w.now += 11 * time.Second }, 1, true, CoordinatorUnreachable},
		{"allow, cut off", "allow", func(w *world, k quota.Key) { w.now += 11 * time.Second }, 100, false, CoordinatorUnreachable},
		{"deny, connected", "deny", func(*world, quota.Key) {}, 1, false, StandingShare},
		{"store away, nothing accrued yet", "user", func(w *world, k quota.Key) { w.fail = ErrStoreDown }, 1, true, StoreDegraded},
		{"larger than the limit", "user", func(*world, quota.Key) {}, 101, true, BurstExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, leaseRules)
			twoRegions(w)
			req := d(c.key + "=x")
			c.play(w, key(w, req))
			dec := w.want(c.name, c.over, w.decide(c.hits, req))
			s := dec.Statuses[0]
			if s.Reason != c.want {
				t.Errorf("reason: have %q, want %q", s.Reason, c.want)
			}
			if c.over && dec.Retry <= 0 {
				t.Errorf("a denial must say how long to wait")
			}
		})
	}
}

func TestRetryIsWhenTheCostFits(t *testing.T) {
	w := newWorld(t, standingRules)
	w.decide(8, d("user=a"))
	dec := w.want("ask 5", true, w.decide(5, d("user=a")))
	if want := 18 * time.Second; dec.Retry != want {
		t.Fatalf("have %v, want %v", dec.Retry, want)
	}
	w.now += dec.Retry - time.Microsecond
	w.connect(2)
	w.want("a microsecond early", true, w.decide(5, d("user=a")))
	w.now += time.Microsecond
	w.want("at the time", false, w.decide(5, d("user=a")))
}

// K82: waiting exactly as long as was said, in whole seconds rounded up, is
// enough, and never more than a second too long.
func TestK82RetrySecondsAreEnough(t *testing.T) {
	w := newWorld(t, `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 7, quota: {standing_share: 1}}}
`)
	denied := 0
	for i := range 300 {
		w.connect(quota.SessionID(i + 2))
		hits := uint32(i%7 + 1)
		dec := w.decide(hits, d("user=a"))
		w.now += time.Duration(i%11) * 137 * time.Millisecond
		if !dec.Over {
			continue
		}
		denied++
		w.now += (dec.Retry + time.Second - 1) / time.Second * time.Second
		w.want(fmt.Sprintf("hit %d after waiting %v", i, dec.Retry), false, w.decide(hits, d("user=a")))
	}
	if denied < 100 {
		t.Errorf("only %d denials", denied)
	}
}

func TestColdStartWaitsForTheFirstLease(t *testing.T) {
	w := newWorld(t, leaseRules)
	w.onAwait = func(k quota.Key) error {
		w.now += 80 * time.Millisecond
		w.grant(k, 1, 3, 5, 3*quota.Token)
		return nil
	}
	dec := w.want("the lease comes", false, w.decide(1, d("tiny=x")))
	if s := dec.Statuses[0]; !dec.Waited || s.Reason != WithinLease || s.Remaining != 2 {
		t.Errorf("have %+v", dec)
	}
	if w.wakes != 1 || w.takes != 2 {
		t.Errorf("have %d wakes, %d takes, want 1 and 2", w.wakes, w.takes)
	}
	dec = w.want("no more waiting", false, w.decide(1, d("tiny=x")))
	if dec.Waited {
		t.Error("waited with a lease")
	}
}

func TestColdStartWaitsOncePerKey(t *testing.T) {
	w := newWorld(t, leaseRules)
	waits := func() int { n := len(w.waited); w.waited = nil; return n }

	dec := w.want("no lease comes", true, w.decide(1, d("tiny=x")))
	if dec.Retry != time.Second || waits() != 1 {
		t.Errorf("have %+v", dec)
	}
	w.want("not again", true, w.decide(1, d("tiny=x")))
	if waits() != 0 {
		t.Error("waited again within a second")
	}
	w.want("another key may wait", true, w.decide(1, d("tiny=y")))
	if waits() != 1 {
		t.Error("another key did not wait")
	}
	w.now += 2 * time.Second
	w.connect(1)
	w.want("later again", true, w.decide(1, d("tiny=x")))
	if waits() != 1 {
		t.Error("did not wait again after a pause")
	}
	w.want("wait of 0: denied at once", true, w.decide(1, d("patient=x")))
	w.want("with a standing share nobody waits", true, w.decide(50, d("user=x")))
	w.want("denied for good beside it: no use", true, w.decide(1, d("tiny=z"), d("tiny=w", 6)))
	w.want("a look does not wait", false, w.decide(1, d("tiny=v", 0)))
	w.now += 11 * time.Second
	w.want("cut off: nobody will answer", true, w.decide(1, d("tiny=u")))
	if waits() != 0 {
		t.Errorf("waited for %v", w.waited)
	}
}

// Whoever cannot block begins, waits by other means, and resumes.
func TestBeginAndResumeAreDecideInTwoSteps(t *testing.T) {
	w := newWorld(t, leaseRules, func(c *Config) { c.Leases = nil })
	begin := func(what string, descriptors ...Descriptor) (Decision, *Wait) {
		dec, wait, err := w.e.Begin(t.Context(), w.now, Request{Domain: "api", Descriptors: descriptors})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return dec, wait
	}
	_, wait := begin("a key without a lease", d("tiny=x"))
	if wait == nil || w.e.waits.active != 1 {
		t.Fatalf("have wait %v, %d active, want one", wait, w.e.waits.active)
	}
	k, most, ok := wait.Next()
	if !ok || most <= 0 {
		t.Fatalf("have key %q for %v, %v", k, most, ok)
	}
	w.now += 80 * time.Millisecond
	w.grant(k, 1, 3, 5, 3*quota.Token)
	if k, _, ok := wait.Next(); ok {
		t.Errorf("wait for %q as well", k)
	}
	dec, again, err := wait.Resume(t.Context())
	if err != nil || again != nil || dec.Over || !dec.Waited || w.e.waits.active != 0 {
		t.Errorf("with a lease: have %+v, wait %v, error %v, %d active", dec, again, err, w.e.waits.active)
	}
	if dec, wait := begin("a key with a lease", d("tiny=x")); wait != nil || dec.Over || dec.Waited {
		t.Errorf("a key with a lease: have %+v, wait %v", dec, wait)
	}
	_, wait = begin("another key", d("tiny=y"))
	if dec, again, err := wait.Resume(t.Context()); err != nil || again != nil || !dec.Over || !dec.Waited {
		t.Errorf("without a lease: have %+v, wait %v, error %v", dec, again, err)
	}
	if dec := w.decide(1, d("tiny=z")); !dec.Over || dec.Waited {
		t.Errorf("Decide without Config.Leases waits for nobody: have %+v", dec)
	}
}

func TestColdStartBoundsItsWaiters(t *testing.T) {
	w := newWorld(t, leaseRules, func(c *Config) { c.MaxWaiting = 2 })
	inner := Decision{}
	depth := 0
	w.onAwait = func(k quota.Key) error {
		depth++
		w.mu.Unlock()
		inner = w.decide(1, d(fmt.Sprintf("tiny=%d", depth)))
		w.mu.Lock()
		return errors.New("no lease arrived")
	}
	w.want("first", true, w.decide(1, d("tiny=x")))
	if depth != 2 || !inner.Over {
		t.Errorf("have %d waiting, want 2", depth)
	}
	if w.e.waits.active != 0 {
		t.Errorf("have %d still counted as waiting", w.e.waits.active)
	}
}

func TestStaleViewIsRefreshedOnce(t *testing.T) {
	w := newWorld(t, leaseRules)
	old := w.e.Adoption()
	w.adopt(standingRules)
	w.e.Adopt(old)
	dec := w.want("by the new rules", false, w.decide(10, d("user=a")))
	if dec.Degraded || w.refreshes != 1 || dec.Statuses[0].Limit.RequestsPerUnit != 10 {
		t.Errorf("have %+v after %d refreshes", dec, w.refreshes)
	}

	// A region that this agent cannot follow: the ladder answers, and the
	// region's state is not read for every request.
	w.refreshes = 0
	w.fail = fmt.Errorf("take: %w", ErrStale)
	for range 10 {
		dec = w.decide(1, d("user=a"))
		if !dec.Degraded {
			t.Error("not degraded")
		}
	}
	if w.refreshes != 10 {
		// Each refresh makes a new adoption, so each may help.
		t.Errorf("have %d refreshes", w.refreshes)
	}
	w = newWorld(t, leaseRules, func(c *Config) { c.Refresh = func(context.Context) error { return errors.New("no") } })
	w.e.cfg.Refresh = func(context.Context) error { w.refreshes++; return errors.New("no") }
	w.fail = ErrStale
	for range 10 {
		w.decide(1, d("user=a"))
	}
	if w.refreshes != 1 {
		t.Errorf("have %d refreshes that fail, want 1", w.refreshes)
	}
}

func TestUnknownOutcomeIsNotSentAgain(t *testing.T) {
	w := newWorld(t, standingRules)
	w.lost = context.DeadlineExceeded
	dec := w.want("the answer is lost", true, w.decide(4, d("user=a")))
	if w.takes != 1 || dec.Statuses[0].Reason != StoreDegraded {
		t.Errorf("have %d takes, %+v", w.takes, dec)
	}
	w.lost = nil
	if have := w.decide(1, d("user=a", 0)).Statuses[0].Remaining; have != 6 {
		t.Errorf("the lost take counts as spent: have %d left, want 6", have)
	}
}

func TestCancelledRequestHasNoAnswer(t *testing.T) {
	w := newWorld(t, standingRules)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.fail = context.Canceled
	_, err := w.e.Decide(ctx, w.now, Request{Domain: "api", Descriptors: []Descriptor{d("user=a")}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("have %v", err)
	}
}

// Demand is what arrives: admitted and denied, not what other rules denied.
func TestDemandIsReported(t *testing.T) {
	w := newWorld(t, `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 100, quota: {standing_share: 1}}}
  - {key: few, rate_limit: {unit: minute, requests_per_unit: 1, quota: {standing_share: 1}}}
  - {key: dark, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1, quota: {standing_share: 1}}}
`)
	for range 3 {
		w.decide(1, d("user=a"), d("few=x"), d("dark=x"))
	}
	w.fail = ErrStoreDown
	w.decide(1, d("user=a"), d("few=x"))
	usage := w.tracker.Collect(1)
	want := map[quota.Key][2]quota.Tokens{
		"api|user=a": {quota.Token, quota.Token}, "api|few=x": {quota.Token, 3 * quota.Token}, "api|dark=x": {quota.Token, 2 * quota.Token},
	}
	for _, u := range usage {
		if have := [2]quota.Tokens{u.Admitted, u.Denied}; have != want[u.Key] {
			t.Errorf("%s: have admitted, denied %v, want %v", u.Key, have, want[u.Key])
		}
		if u.Burst == 0 {
			t.Errorf("%s: the last known burst is lost", u.Key)
		}
	}
	if len(usage) != 3 {
		t.Errorf("have %d keys", len(usage))
	}
}

func TestDecideIsSafeForConcurrentUse(t *testing.T) {
	w := newWorld(t, standingRules)
	w.e.cfg.Demand = w.tracker
	var mu sync.Mutex
	admitted := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				dec, err := w.e.Decide(context.Background(), w.now, Request{Domain: "api", Descriptors: []Descriptor{d("user=a"), d("open=x")}})
				mu.Lock()
				if err == nil && !dec.Over {
					admitted++
				}
				mu.Unlock()
			}
		})
	}
	for range 50 {
		w.mu.Lock()
		w.e.SetView(View{Region: w.store.State(w.time()).Region, Now: w.time(), Agents: 2})
		w.mu.Unlock()
	}
	wg.Wait()
	if admitted != 10 {
		t.Errorf("have %d admitted, want 10", admitted)
	}
}

func TestHostileRequests(t *testing.T) {
	w := newWorld(t, standingRules)
	var many []Descriptor
	for i := range 3000 {
		many = append(many, d(fmt.Sprintf("user=%d", i%1500), 1))
	}
	dec := w.want("thousands of descriptors", false, w.decide(1, many...))
	if len(dec.Statuses) != 3000 || len(w.asked[0]) != 1500 {
		t.Errorf("have %d statuses, %d asks", len(dec.Statuses), len(w.asked[0]))
	}
	long := slices.Repeat([]byte("{}\n\xff"), 1024)
	w.want("4 KiB of anything", false, w.decide(1, d("user="+string(long))))
	w.want("no entries", false, w.decide(1, Descriptor{}))
}
