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

const ms = time.Millisecond

const shapedRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 10, quota: {algorithm: leaky_bucket, shape: true, standing_share: 1}}
  - key: meter
    rate_limit: {unit: second, requests_per_unit: 10, quota: {algorithm: leaky_bucket, standing_share: 1}}
  - key: slow
    rate_limit: {unit: second, requests_per_unit: 2, quota: {algorithm: leaky_bucket, shape: true, standing_share: 1, burst: 10}}
  - key: pair
    rate_limits:
      - {name: shaped, unit: second, requests_per_unit: 10, quota: {algorithm: leaky_bucket, shape: true, standing_share: 1}}
      - {name: daily, unit: day, requests_per_unit: 3, quota: {standing_share: 1}}
  - key: dark
    shadow_mode: true
    rate_limit: {unit: second, requests_per_unit: 1, quota: {algorithm: leaky_bucket, shape: true, standing_share: 1, burst: 5}}
  - key: quota
    quota_mode: true
    rate_limit: {unit: second, requests_per_unit: 1, quota: {algorithm: leaky_bucket, shape: true, standing_share: 1, burst: 2}}
  - key: open
    rate_limit: {unit: second, requests_per_unit: 10, quota: {algorithm: leaky_bucket, shape: true, standing_share: 1, on_disconnect: allow, on_store_failure: allow}}
  - key: held
    rate_limit: {unit: second, requests_per_unit: 10, quota: {algorithm: leaky_bucket, shape: true, standing_share: 0, on_disconnect: hold}}
  - key: leased
    rate_limit: {unit: second, requests_per_unit: 10, quota: {algorithm: leaky_bucket, shape: true, standing_share: 0, burst: 20}}
`

// delayed checks one answer: its delay, or that it is denied where want is negative.
func (w *world) delayed(why string, want time.Duration, dec Decision) {
	w.t.Helper()
	if dec.Over != (want < 0) || dec.Delay != max(want, 0) {
		w.t.Errorf("%s: want a delay of %v, have %v, over %v: %+v", why, want, dec.Delay, dec.Over, dec.Statuses)
	}
	for _, s := range dec.Statuses {
		if s.Over && s.Delay != 0 || dec.Over && s.Delay != 0 || !w.e.cfg.ShadowMode && s.Delay > dec.Delay {
			w.t.Errorf("%s: a status has the delay %v: %+v", why, s.Delay, s)
		}
	}
}

func TestShapedRequestsLeaveOneAfterTheOther(t *testing.T) {
	w := newWorld(t, shapedRules)
	for i := range 10 {
		w.delayed("of ten at once", time.Duration(i)*100*ms, w.decide(1, d("user=a")))
	}
	w.delayed("the eleventh", -1, w.decide(1, d("user=a")))
	w.delayed("another value has a queue of its own", 0, w.decide(1, d("user=b")))
	w.now += 250 * ms
	w.delayed("two have leaked out, and half of the third", 750*ms, w.decide(1, d("user=a")))
	w.delayed("right behind it", 850*ms, w.decide(1, d("user=a")))
	w.delayed("and no more", -1, w.decide(1, d("user=a")))
	w.now += 950 * ms
	w.delayed("an empty queue", 0, w.decide(7, d("user=a")))
	w.delayed("seven take their time", 700*ms, w.decide(1, d("user=a")))
}

func TestWhatIsNotDelayed(t *testing.T) {
	w := newWorld(t, shapedRules)
	for range 2 {
		w.delayed("a meter", 0, w.decide(5, d("meter=a")))
		w.delayed("a shadow rule", 0, w.decide(3, d("dark=a")))
		w.delayed("a look", 0, w.decide(1, d("user=a", 0)))
		w.delayed("no rule", 0, w.decide(1, d("nobody=a")))
	}
	w.delayed("a quota rule's first", 0, w.decide(2, d("quota=a"), d("quota=b")))
	w.delayed("a quota rule that is over beside one that is not", 0, w.decide(1, d("quota=a"), d("quota=c")))
	w.delayed("one that is not over", time.Second, w.decide(1, d("quota=b", 0), d("quota=c")))
	w.decide(9, d("user=a"))
	w.delayed("denied by another rule", -1, w.decide(1, d("user=a"), d("meter=a")))
	w.delayed("and charged nothing", 900*ms, w.decide(1, d("user=a")))

	w.now += 11 * time.Second // the session is over
	w.delayed("on_disconnect: allow", 0, w.decide(10, d("open=a")))
	w.delayed("on_disconnect: allow, again", 0, w.decide(10, d("open=a")))
}

func TestTheLongestDelayCounts(t *testing.T) {
	w := newWorld(t, shapedRules)
	w.decide(1, d("user=a"), d("slow=a"))
	dec := w.decide(1, d("user=a"), d("slow=a"), d("meter=a"))
	w.delayed("two shaped rules", 500*ms, dec)
	if a, b, c := dec.Statuses[0].Delay, dec.Statuses[1].Delay, dec.Statuses[2].Delay; a != 100*ms || b != 500*ms || c != 0 {
		t.Errorf("have %v, %v, %v", a, b, c)
	}
	w.decide(1, d("pair=a"))
	dec = w.decide(1, d("pair=a"))
	w.delayed("a limit that does not bind", 100*ms, dec)
	if have := dec.Statuses[0].Limit.Name; have != "daily" {
		t.Errorf("%s binds", have)
	}
	w.decide(1, d("user=b"), d("user=b"))
	w.delayed("behind one key that was named twice", 200*ms, w.decide(1, d("user=b"), d("user=a", 0)))
}

func TestServiceInShadowModeDelaysNothing(t *testing.T) {
	w := newWorld(t, shapedRules, func(c *Config) { c.ShadowMode = true })
	w.decide(4, d("user=a"))
	dec := w.decide(1, d("user=a"))
	w.delayed("shadow mode", 0, dec)
	if have := dec.Statuses[0].Delay; have != 400*ms {
		t.Errorf("the status does not tell the truth: %v", have)
	}
	w.delayed("what would be denied", 0, w.decide(10, d("user=a")))
}

// The rate and the burst in force count, not those of the limit; but no delay is
// longer than one central bucket would have given.
func TestDelayOnALease(t *testing.T) {
	for why, c := range map[string]struct {
		rate, burst uint64 // per second
		want        []time.Duration
	}{
		"a part of the limit":       {5, 10, []time.Duration{0, 200 * ms, 400 * ms, 600 * ms}},
		"all of it":                 {10, 20, []time.Duration{0, 100 * ms, 200 * ms}},
		"little rate for its burst": {1, 5, []time.Duration{0, time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second, -1}},
		"tokens without a rate":     {0, 5, []time.Duration{0, 2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second, -1}},
		"much rate for its burst":   {10, 2, []time.Duration{0, 100 * ms, -1}},
	} {
		w := newWorld(t, shapedRules)
		w.lease("leased=a", quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(c.rate), Per: quota.Second}, Burst: quota.Whole(c.burst)})
		for i, want := range c.want {
			w.delayed(fmt.Sprintf("%s, request %d", why, i+1), want, w.decide(1, d("leased=a")))
		}
	}
	w := newWorld(t, shapedRules)
	w.lease("held=a", quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(4), Per: quota.Second}, Burst: quota.Whole(4)})
	w.now += time.Hour // hold
	w.decide(1, d("held=a"))
	w.delayed("a lease that is held", 250*ms, w.decide(1, d("held=a")))
}

// lease gives a key a full lease of c.
func (w *world) lease(entries string, c quota.Capacity) quota.Key {
	w.t.Helper()
	k := key(w, d(entries))
	st := w.store.State(w.time())
	if _, err := w.store.Apply(w.time(), st.Incarnation, bucket.ApplyAsk{
		Assignment: quota.Assignment{Key: k, Session: st.Session, Epoch: 1, Lease: c, Credit: c.Burst},
		Standing:   w.e.Adoption().StandingOf(k, 0),
	}); err != nil {
		w.t.Fatal(err)
	}
	return k
}

// While the store is away the local bucket says how long: it begins empty, so what
// it admits waits for all of it to fill.
func TestDelayWithoutTheStore(t *testing.T) {
	w := newWorld(t, shapedRules)
	w.fail = ErrStoreDown
	w.delayed("an empty bucket", -1, w.decide(1, d("user=a")))
	w.now += 500 * ms
	dec := w.decide(1, d("user=a"))
	w.delayed("half a bucket", 500*ms, dec)
	if s := dec.Statuses[0]; s.Reason != StoreDegraded {
		t.Errorf("have %+v", s)
	}
	w.delayed("right behind it", 600*ms, w.decide(1, d("user=a")))
	w.delayed("on_store_failure: allow", 0, w.decide(10, d("open=a")))
	w.delayed("a shadow rule", 0, w.decide(10, d("dark=a")))
	late, err := w.e.Decide(context.Background(), w.now, Request{Domain: "api", Descriptors: []Descriptor{d("user=a")}, MaxDelay: 699 * ms})
	if err != nil || !late.Over || late.Retry != ms || late.Statuses[0].Reason != DelayTooLong {
		t.Errorf("a delay that is too long: have %+v, %v", late, err)
	}
	w.delayed("which was charged nothing", 700*ms, w.decide(1, d("user=a")))
}

func (w *world) within(most time.Duration, hits uint32, ds ...Descriptor) Decision {
	w.t.Helper()
	dec, err := w.e.Decide(context.Background(), w.now, Request{Domain: "api", Hits: hits, Descriptors: ds, MaxDelay: most})
	if err != nil {
		w.t.Fatal(err)
	}
	check(w.t, dec, false)
	return dec
}

// A request that cannot wait so long is denied, and nobody is charged for it.
func TestMaxDelay(t *testing.T) {
	w := newWorld(t, shapedRules)
	w.decide(3, d("user=a"))
	w.decide(1, d("quota=a"))
	for why, c := range map[string]struct {
		most  time.Duration
		ds    []Descriptor
		over  bool
		takes int
	}{
		"no MaxDelay":                     {0, []Descriptor{d("user=a", 0)}, false, 1},
		"a look is never late":            {ms, []Descriptor{d("user=a", 0)}, false, 1},
		"a microsecond too short":         {300*ms - time.Microsecond, []Descriptor{d("user=a")}, true, 1},
		"beside a rule that would admit":  {299 * ms, []Descriptor{d("meter=a"), d("user=a")}, true, 1},
		"a rule that is not shaped":       {ms, []Descriptor{d("meter=b")}, false, 1},
		"a shadow rule":                   {ms, []Descriptor{d("dark=b", 4), d("dark=b")}, false, 1},
		"the only quota rule":             {999 * ms, []Descriptor{d("quota=a")}, true, 1},
		"a quota rule beside another one": {999 * ms, []Descriptor{d("quota=b"), d("quota=a")}, false, 2},
	} {
		w.takes = 0
		dec := w.within(c.most, 1, c.ds...)
		if dec.Over != c.over || w.takes != c.takes {
			t.Errorf("%s: have over %v after %d takes, want %v after %d: %+v", why, dec.Over, w.takes, c.over, c.takes, dec)
		}
		last := dec.Statuses[len(dec.Statuses)-1]
		if c.over && (last.Reason != DelayTooLong || last.Reason.Scope() != "region" || last.Retry != dec.Retry || dec.Retry <= 0) {
			t.Errorf("%s: have %+v", why, dec)
		}
	}
	w.delayed("a quota rule was charged nothing", time.Second, w.within(0, 1, d("quota=a")))
	w.delayed("nothing was charged", 300*ms, w.within(300*ms, 1, d("user=a")))
	w.seen = nil
	w.within(ms, 2, d("user=a"))
	if len(w.seen) != 1 || w.seen[0].Admitted || w.seen[0].Cost != quota.Whole(2) {
		t.Errorf("what cannot wait is demand: have %+v", w.seen)
	}
	w.takes = 0
	w.delayed("no look where no delay is longer", 400*ms, w.within(time.Second, 1, d("user=a")))
	if w.takes != 1 {
		t.Errorf("the store was asked %d times", w.takes)
	}
	w.delayed("a denial has its own reason", -1, w.within(999*ms, 10, d("user=a")))
	if dec := w.within(999*ms, 6, d("user=a")); !dec.Over || dec.Statuses[0].Reason != LeaseEmpty {
		t.Errorf("too few tokens: have %+v", dec)
	}
	if dec := w.within(400*ms, 6, d("user=a")); !dec.Over || dec.Retry != 100*ms || dec.Statuses[0].Reason != DelayTooLong {
		t.Errorf("too few tokens, and too late when they are there: have %+v", dec)
	}
	if dec := w.within(400*ms, 8, d("user=a")); !dec.Over || dec.Retry != 300*ms || dec.Statuses[0].Reason != DelayTooLong {
		t.Errorf("not before the tokens are there: have %+v", dec)
	}
}

// Look says what the next request is told, to the microsecond.
func TestLookTellsTheDelay(t *testing.T) {
	w := newWorld(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 7, quota: {algorithm: leaky_bucket, shape: true, standing_share: 1}}
`)
	for i, step := range []time.Duration{0, 0, 333_333 * time.Microsecond, time.Second + time.Microsecond, 0} {
		w.now += step
		look, err := w.e.Look(context.Background(), w.now, Request{Domain: "api", Descriptors: []Descriptor{d("user=a")}})
		if err != nil {
			t.Fatal(err)
		}
		have := w.decide(1, d("user=a"))
		if look.Delay != have.Delay || (i > 0) != (have.Delay > 0) {
			t.Errorf("request %d: look says %v, the decision %v", i+1, look.Delay, have.Delay)
		}
	}
}

// released is a request that was let out.
type released struct {
	at   quota.Micros
	cost quota.Tokens
}

// play asks at random times and returns what was let out, in the order of arrival.
func play(rt *rapid.T, w *world, k string, most int64) (out []released) {
	for range rapid.IntRange(1, 80).Draw(rt, "requests") {
		w.now += time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1000), rapid.Int64Range(0, 2_000_000)).Draw(rt, "gap us")) * time.Microsecond
		w.connect(1)
		hits := uint32(rapid.Int64Range(1, most).Draw(rt, "cost"))
		dec := w.decide(hits, d(k))
		if !dec.Over {
			out = append(out, released{w.time() + quota.MicrosOf(dec.Delay), quota.Whole(uint64(hits))})
		}
		if l := dec.Statuses[0].Limit; l != nil && dec.Delay > longestDelay(l).Duration() {
			rt.Fatalf("the delay %v is longer than the limit needs to fill", dec.Delay)
		}
	}
	return out
}

// checkWindows fails unless requests leave in the order of arrival and every window lets
// out at most free + rate*(length + 1 us), beside its last request where butLast is set.
func checkWindows(rt *rapid.T, c quota.Capacity, free quota.Tokens, butLast bool, out []released) {
	endless := quota.Capacity{Rate: c.Rate, Burst: quota.MaxTokens}
	for i := range out {
		var before quota.Tokens // what leaves from i on before j
		for j := i; j < len(out); j++ {
			length := out[j].at - out[i].at
			if j > i && out[j].at < out[j-1].at {
				rt.Fatalf("request %d leaves %v us before the one that came before it", j, out[j-1].at-out[j].at)
			}
			sum := before
			if before += out[j].cost; !butLast {
				sum = before
			}
			if gained, _ := endless.Refill(0, length+1); sum > free+gained {
				rt.Fatalf("requests %d to %d: %v leave in %v us, want at most %v + %v", i, j, sum, length, free, gained)
			}
		}
	}
}

// What a bucket of constant capacity lets out leaves in the order of arrival, and any
// window of length W sees at most rate*(W + 1 us) leave, and its last request.
func TestShapedRequestsLeaveAtTheRateAtMost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rate, burst := rapid.Int64Range(1, 50).Draw(rt, "rate"), rapid.Int64Range(1, 40).Draw(rt, "burst")
		w := newWorld(t, fmt.Sprintf(`
domain: api
descriptors:
  - key: user
    rate_limit: {unit: %s, requests_per_unit: %d, unit_multiplier: %d, quota: {algorithm: leaky_bucket, shape: true, standing_share: 1, burst: %d}}
`, rapid.SampledFrom([]string{"second", "minute"}).Draw(rt, "unit"), rate, rapid.IntRange(1, 7).Draw(rt, "multiplier"), burst))
		_, l := w.e.Adoption().Set.LimitOf(key(w, d("user=a")))
		checkWindows(rt, l.Capacity, 0, true, play(rt, w, "user=a", min(burst, 5)))
	})
}

// On a lease of any rate and burst the order stays, no delay is longer than the whole
// limit needs to fill, and a window sees at most burst + rate*(W + 1 us) leave.
func TestWhatLeavesOnALopsidedLease(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, shapedRules)
		c := quota.Capacity{
			Rate:  quota.Rate{Tokens: quota.Tokens(rapid.Int64Range(0, 10_000_000).Draw(rt, "rate")), Per: quota.Second},
			Burst: quota.Whole(uint64(rapid.Int64Range(1, 20).Draw(rt, "burst"))),
		}
		w.lease("leased=a", c)
		out := play(rt, w, "leased=a", 3)
		checkWindows(rt, c, c.Burst, false, out)
	})
}

// A request that waited for the first lease of its key is judged by that lease.
func TestMaxDelayAfterAFirstLease(t *testing.T) {
	for why, c := range map[string]struct {
		credit quota.Tokens
		over   bool
		delay  time.Duration
	}{
		"a full lease":     {10 * quota.Token, false, 0},
		"one short enough": {8 * quota.Token, false, 200 * ms},
		"an emptier one":   {7 * quota.Token, true, 0},
	} {
		w := newWorld(t, shapedRules)
		w.onAwait = func(k quota.Key) error {
			w.grant(k, 1, 1, 1, c.credit)
			return nil
		}
		dec := w.within(200*ms, 1, d("held=a"))
		if !dec.Waited || dec.Over != c.over || dec.Delay != c.delay || c.over != (dec.Statuses[0].Reason == DelayTooLong) {
			t.Errorf("%s: have %+v", why, dec)
		}
	}
}

// What others take between the look and the charge comes first: the one case in which
// a delay is longer than MaxDelay.
func TestOthersBetweenLookAndCharge(t *testing.T) {
	w := newWorld(t, shapedRules)
	k := key(w, d("user=a"))
	w.e.cfg.Store = hurried{w, func() {
		if admitted, _ := w.store.Take(w.time(), []bucket.Ask{{Key: k, Cost: quota.Whole(4), Standing: w.e.Adoption().StandingOf(k, 0)}}); !admitted {
			t.Error("the others are denied")
		}
	}}
	w.delayed("behind the others", 400*ms, w.within(100*ms, 1, d("user=a")))
}

// hurried lets others in after each look.
type hurried struct {
	*world
	others func()
}

func (h hurried) Take(ctx context.Context, t Take) (TakeResult, error) {
	res, err := h.world.Take(ctx, t)
	if t.Asks[0].Cost == 0 {
		h.others()
	}
	return res, err
}
