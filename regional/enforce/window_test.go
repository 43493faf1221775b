package enforce

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

const windowRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 10, quota: {algorithm: fixed_window, standing_share: 1}}
  - key: account
    rate_limit: {unit: month, requests_per_unit: 100, quota: {algorithm: fixed_window, standing_share: 1, time_zone: Europe/Berlin}}
  - key: leased
    rate_limit: {unit: day, requests_per_unit: 5, quota: {algorithm: fixed_window, standing_share: 0}}
  - key: both
    rate_limits:
      - {name: day, unit: day, requests_per_unit: 15, quota: {algorithm: fixed_window, standing_share: 1}}
      - {name: second, unit: second, requests_per_unit: 10, quota: {standing_share: 1}}
`

// window returns the window of the rule's only limit that the agent is in, and the
// key there.
func (w *world) window(d Descriptor) (rules.Window, quota.Key) {
	r := w.e.Adoption().Set.Match("api", d.Entries)
	in := r.Limits[0].WindowAt(w.wall())
	return in, r.WindowKey("api", d.Entries, 0, in)
}

// K16: ten at the end of a window and ten at the beginning of the next are twenty in
// 200 ms, which is what a fixed window admits and what the README says of it.
func TestK16AFixedWindowDoublesAtItsEdge(t *testing.T) {
	w := newWorld(t, windowRules)
	w.now = time.Hour + 59_900*time.Millisecond
	w.want("ten at the end", false, w.decide(10, d("user=a")))
	w.want("no more in that window", true, w.decide(1, d("user=a")))
	w.now += 200 * time.Millisecond
	w.want("ten at the beginning of the next", false, w.decide(10, d("user=a")))
	w.want("and no more in that one", true, w.decide(1, d("user=a")))
}

// K14: costs of any size add up.
func TestK14HeavyThenLightInOneWindow(t *testing.T) {
	w := newWorld(t, windowRules)
	for i, cost := range []uint32{8, 1, 1} {
		if dec := w.decide(cost, d("user=a")); dec.Over || dec.Statuses[0].Remaining != []uint32{2, 1, 0}[i] {
			t.Errorf("cost %d: have %+v", cost, dec.Statuses[0])
		}
	}
	w.want("nothing is left", true, w.decide(1, d("user=a")))
}

// K15: hits of one moment all count.
func TestK15HitsOfOneMomentAllCount(t *testing.T) {
	w := newWorld(t, windowRules)
	for i := range 20 {
		w.want("at one moment", i >= 10, w.decide(1, d("user=a")))
	}
}

// K31: a window is not over in milliseconds.
func TestK31AWindowCountsDown(t *testing.T) {
	w := newWorld(t, windowRules)
	for want := uint32(99); want > 95; want-- {
		dec := w.decide(1, d("account=a"))
		if s := dec.Statuses[0]; s.Remaining != want {
			t.Errorf("have %d remaining, want %d", s.Remaining, want)
		}
		w.now += 10 * time.Millisecond
	}
}

// K49: asking at the very end of a window makes it no longer.
func TestK49AskingAtTheEndMovesNoWindow(t *testing.T) {
	w := newWorld(t, windowRules)
	for range 5 {
		w.want("the first of a window", false, w.decide(10, d("user=a")))
		w.now += time.Minute - time.Millisecond
		dec := w.want("its last millisecond", true, w.decide(1, d("user=a")))
		if s := dec.Statuses[0]; s.Retry != time.Millisecond || s.Reset != time.Millisecond {
			t.Errorf("have %v to wait and the reset in %v, want 1 ms", s.Retry, s.Reset)
		}
		w.now += time.Millisecond
	}
}

// K29 and K30: what the reset says is the window of the key, in the zone of the rule.
func TestK29TheResetIsThatOfTheKey(t *testing.T) {
	w := newWorld(t, windowRules)
	w.now = 10 * 24 * time.Hour // 2025-12-11T00:00:00Z, one o'clock in Berlin
	dec := w.decide(1, d("account=a"))
	if s := dec.Statuses[0]; s.Reset != 21*24*time.Hour-time.Hour || s.WindowSeconds != 31*24*3600 {
		t.Errorf("have the reset in %v of a window of %d s, want 503h0m0s of 2678400 s", s.Reset, s.WindowSeconds)
	}
	if have, want := w.asked[0][0].Key, quota.Key("api|account=a##1764543600+2678400"); have != want {
		t.Errorf("have the key %s, want %s", have, want)
	}
}

// Who has spent all that there is waits for the end of the window; who may yet get
// more asks again soon.
func TestRetryOfAWindow(t *testing.T) {
	w := newWorld(t, windowRules)
	w.now = 10*time.Hour + 500*time.Millisecond
	w.connect(1)
	in, k := w.window(d("leased=a"))
	end := (in.End - w.wall()).Duration()
	w.grant(k, 1, 3, 5, 3*quota.Token)
	w.want("three of five", false, w.decide(3, d("leased=a")))
	if s := w.decide(1, d("leased=a")).Statuses[0]; s.Retry != retryGuess || s.Reason != LeaseEmpty || s.Reset != end {
		t.Errorf("some are elsewhere: have %+v", s)
	}
	w.e.Forget(k)
	w.grant(k, 2, 5, 5, 2*quota.Token)
	w.want("five of five", false, w.decide(2, d("leased=a")))
	if s := w.decide(1, d("leased=a")).Statuses[0]; s.Retry != end || s.Reason != GlobalExhausted {
		t.Errorf("all are spent: have %+v, want to wait %v", s, end)
	}
	if s := w.decide(6, d("leased=a")).Statuses[0]; !s.Never || s.Reason != BurstExceeded {
		t.Errorf("more than the window has: have %+v", s)
	}
	w.now = 24*time.Hour - 300*time.Millisecond
	w.connect(1)
	if s := w.decide(1, d("leased=a")).Statuses[0]; s.Retry > 300*time.Millisecond {
		t.Errorf("just before the end: have %v to wait", s.Retry)
	}
}

// A first lease is waited for under the key of the window in which the request came.
func TestAWindowWaitsForItsLease(t *testing.T) {
	w := newWorld(t, windowRules)
	w.now = 24*time.Hour - 10*time.Millisecond
	w.connect(1)
	_, k := w.window(d("leased=a"))
	w.onAwait = func(asked quota.Key) error {
		if asked != k {
			t.Errorf("have waited for %s, want %s", asked, k)
		}
		w.now += 100 * time.Millisecond // the window is over
		w.grant(k, 1, 1, 5, quota.Token)
		return nil
	}
	if dec := w.want("with its lease", false, w.decide(1, d("leased=a"))); !dec.Waited {
		t.Error("it did not wait")
	}
}

// Without its store an agent has no part of a window to spend: nothing accrues.
func TestAWindowWithoutItsStoreDenies(t *testing.T) {
	w := newWorld(t, windowRules)
	w.want("with the store", false, w.decide(1, d("user=a")))
	w.fail = ErrStoreDown
	w.now += 30 * time.Second
	if s := w.want("without it", true, w.decide(1, d("user=a"))).Statuses[0]; s.Reason != StoreDegraded || s.Retry <= 0 {
		t.Errorf("have %+v", s)
	}
	if have := w.e.Owing(); have != 0 {
		t.Errorf("%d keys owe", have)
	}
	w.fail = nil
	w.want("with the store again", false, w.decide(9, d("user=a")))
}

// The clock is read for rules with windows only, and once for a request.
func TestTheWallClockIsReadOnce(t *testing.T) {
	reads := 0
	w := newWorld(t, windowRules+"  - {key: plain, rate_limit: {unit: second, requests_per_unit: 5, quota: {standing_share: 1}}}\n")
	w.e.cfg.Wall = func() quota.Micros { reads++; return w.wall() }
	w.decide(1, d("plain=a"))
	if reads != 0 {
		t.Errorf("a rule without windows read it %d times", reads)
	}
	w.decide(1, d("user=a"), d("account=a"), d("both=a"))
	if reads != 1 {
		t.Errorf("three rules with windows read it %d times", reads)
	}
}

// Whatever is asked and however time passes, no window admits more than its requests,
// and who is denied for good is told the end of the window to the microsecond.
func TestNoWindowAdmitsMoreThanItHas(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, windowRules, func(c *Config) { c.RememberDenials = true })
		admitted := map[quota.Key]uint64{}
		for range rapid.IntRange(1, 100).Draw(rt, "steps") {
			w.now += time.Duration(rapid.SampledFrom([]int64{0, 1, 100, 999, 5000, 20_000, 3_600_000}).Draw(rt, "ms")) * time.Millisecond
			hits := uint32(rapid.IntRange(1, 4).Draw(rt, "hits"))
			one := d(rapid.SampledFrom([]string{"user=a", "account=a", "both=a"}).Draw(rt, "descriptor"))
			in, k := w.window(one)
			dec := w.decide(hits, one)
			limit := w.e.Adoption().Set.Match("api", one.Entries).Limits[0]
			s := dec.Statuses[0]
			if !dec.Over {
				if admitted[k] += uint64(hits); admitted[k] > uint64(limit.RequestsPerUnit) {
					rt.Fatalf("%s has admitted %d of %d", k, admitted[k], limit.RequestsPerUnit)
				}
			}
			if s.WindowSeconds == 0 {
				continue // the second binds
			}
			end := (in.End - w.wall()).Duration()
			if s.Reset != end || dec.Over && s.Retry != end || end <= 0 {
				rt.Fatalf("%s: have the reset in %v and %v to wait, want %v", k, s.Reset, s.Retry, end)
			}
			if left := uint64(limit.RequestsPerUnit) - admitted[k]; !dec.Over && uint64(s.Remaining) != left || dec.Over && left >= uint64(hits) {
				rt.Fatalf("%s: over %v with %d remaining, want %d", k, dec.Over, s.Remaining, left)
			}
		}
	})
}

// A record is needed until the window is over, not for 20 years.
func TestRecordsOfWindowsExpire(t *testing.T) {
	w := newWorld(t, windowRules)
	w.now = time.Hour + 30*time.Second
	w.connect(1)
	w.decide(1, d("user=a"))
	_, k := w.window(d("user=a"))
	if life := w.store.Life(k); life != 91*quota.Second {
		t.Errorf("have a life of %v, want what is left of the minute, one more, and a second", life.Duration())
	}
	w.grant(k, 1, 1, 1, 0)
	if life := w.store.Life(k); life != 91*quota.Second {
		t.Errorf("with a lease: have a life of %v", life.Duration())
	}
	if st := w.asked[0][0].Standing; st.Capacity != (quota.Capacity{Rate: quota.Rate{Per: 60 * quota.Second}, Burst: 10 * quota.Token}) {
		t.Errorf("have the share %v", st.Capacity)
	}
	if rec, ok := w.store.Read(k); !ok || rec.Level != 9*quota.Token {
		t.Errorf("have the record %+v", rec)
	}
}
