package enforce

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

func userLimit(unit string, requests int) string {
	return fmt.Sprintf(`
domain: api
descriptors:
  - key: user
    rate_limit: {unit: %s, requests_per_unit: %d, quota: {standing_share: 1}}
`, unit, requests)
}

// K34: a limit that is raised after it was spent is worth something at once: its new
// rate. It gives no burst for nothing, which the old limit would have bounded.
func TestK34ARaisedLimitIsInForceAtOnce(t *testing.T) {
	w := newWorld(t, userLimit("hour", 10))
	for i := range 50 {
		w.want("before", i >= 10, w.decide(1, d("user=a")))
	}
	w.adopt(userLimit("hour", 20))
	dec := w.want("no burst for nothing", true, w.decide(1, d("user=a")))
	if s := dec.Statuses[0]; s.Limit.RequestsPerUnit != 20 || s.Retry != 3*time.Minute {
		t.Errorf("have %+v, want 20 an hour", s)
	}
	admitted := 0
	for range 60 {
		w.now += time.Minute
		w.connect(1)
		if !w.decide(1, d("user=a")).Over {
			admitted++
		}
	}
	if admitted != 20 {
		t.Errorf("in the next hour: admitted %d, want 20", admitted)
	}
}

// K46: no number of the old limit outlives it in what the store kept.
func TestK46ALoweredLimitIsInForceAtOnce(t *testing.T) {
	for _, tc := range []struct {
		reason string
		used   uint32
		left   uint32
	}{
		{"an untouched bucket is cut to the new burst", 0, 10},
		{"and so is a used one", 2, 10},
		{"what is below the new burst stays", 15, 5},
	} {
		w := newWorld(t, userLimit("hour", 20))
		if tc.used > 0 {
			w.want(tc.reason, false, w.decide(tc.used, d("user=a")))
		}
		w.adopt(userLimit("hour", 10))
		s := w.decide(1, d("user=a", 0)).Statuses[0]
		if s.Remaining != tc.left || s.Limit.RequestsPerUnit != 10 {
			t.Errorf("%s: have %d left of %d, want %d of 10", tc.reason, s.Remaining, s.Limit.RequestsPerUnit, tc.left)
		}
		dec := w.want("twelve", true, w.decide(12, d("user=a")))
		if s := dec.Statuses[0]; !s.Never || s.Reason != BurstExceeded {
			t.Errorf("%s: have %+v, want never", tc.reason, s)
		}
		w.want("what is left", false, w.decide(tc.left, d("user=a")))
		w.want("and no more", true, w.decide(1, d("user=a")))
	}
}

// K36: what two routes ask for one rule is one bucket, in the store and in memory
// while the store is away.
func TestK36RoutesShareTheBucketOfTheirRule(t *testing.T) {
	for name, away := range map[string]bool{"in the store": false, "in memory": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, userLimit("second", 5)+`
  - key: route
    rate_limit: {unit: second, requests_per_unit: 100, quota: {standing_share: 1}}
`)
			if away {
				w.fail = ErrStoreDown
				w.decide(1, d("user=first"))
				w.now += time.Second // memory begins empty
			}
			admitted := 0
			for _, route := range []string{"route=a", "route=b"} {
				for range 3 {
					if !w.decide(1, d(route), d("user=a")).Over {
						admitted++
					}
				}
			}
			if admitted != 5 {
				t.Errorf("admitted %d of 3 and 3, want 5", admitted)
			}
		})
	}
}

// K63: a memory without room enforces or denies. It never lets through what it
// cannot count.
func TestK63MemoryWithoutRoomDenies(t *testing.T) {
	for _, tc := range []struct {
		keys, want int
	}{
		{1, 5},
		{0, 20 * 5}, // the default, which is not none
	} {
		w := newWorld(t, userLimit("second", 5), func(c *Config) { c.MaxLocalKeys = tc.keys })
		w.fail = ErrStoreDown
		w.decide(1, d("user=first"))
		w.now += time.Second
		admitted := 0
		for i := range 200 {
			if !w.decide(1, d(fmt.Sprintf("user=%d", i%20))).Over {
				admitted++
			}
		}
		if admitted != tc.want {
			t.Errorf("room for %d keys: admitted %d, want %d", tc.keys, admitted, tc.want)
		}
	}
}

// K69: the period becomes shorter while a lease of the old one is in force.
func TestK69AShorterPeriodWhileLeased(t *testing.T) {
	w := newWorld(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 100, quota: {standing_share: 0.1}}
`)
	w.grant(key(w, d("user=a")), 1, 1, 1, 90*quota.Token)
	w.want("on the old lease", false, w.decide(30, d("user=a")))
	w.adopt(`
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 10, quota: {standing_share: 0.1}}
`)
	// The coordinator counts the old lease until the region has given it back, so it
	// is spent until then, but by no request that the new limit would never admit.
	if s := w.decide(1, d("user=a")).Statuses[0]; s.Over || s.Limit.RequestsPerUnit != 10 || s.Reset > time.Minute {
		t.Errorf("next check: have %+v, want one of 10 a minute", s)
	}
	w.want("larger than the new limit", true, w.decide(11, d("user=a")))
	w.grant(key(w, d("user=a")), 2, 1, 1, 0)
	s := w.decide(1, d("user=a", 0)).Statuses[0]
	if s.Remaining != 10 || s.Reason != WithinLease {
		t.Errorf("on the new lease: have %+v, want 10 left", s)
	}
	w.want("the new burst", false, w.decide(10, d("user=a")))
	if dec := w.want("is spent", true, w.decide(1, d("user=a"))); dec.Retry != 6*time.Second {
		t.Errorf("have %+v, want a token in 6 s", dec.Statuses[0])
	}
	if rec, _ := w.store.Read(key(w, d("user=a"))); rec.Lease.Rate.Per != 60*quota.Second || rec.Level >= quota.Token {
		t.Errorf("have %+v", rec)
	}
}

// K66: an outage that is longer than the period. What was admitted meanwhile counts in the
// time in which it was admitted: the window that runs after it has all of its requests, and
// no time has more than its algorithm gives it.
func TestK66AnOutageLongerThanThePeriod(t *testing.T) {
	for algorithm, most := range map[string]int{
		"token_bucket": 25, "leaky_bucket": 25, "fixed_window": 20, "sliding_window_log": 20, "sliding_window_counter": 20,
	} {
		w := newWorld(t, fmt.Sprintf(`
domain: api
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 10, quota: {algorithm: %s, standing_share: 1}}}
`, algorithm))
		w.now = 2 * time.Hour
		w.connect(1)
		w.want(algorithm+": before", false, w.decide(10, d("user=a")))
		w.fail = ErrStoreDown
		admitted := 10
		for range 90 {
			w.now += time.Second
			if !w.decide(1, d("user=a")).Over {
				admitted++
			}
		}
		w.fail = nil
		w.connect(1)
		w.settle()
		for range 20 {
			if !w.decide(1, d("user=a")).Over {
				admitted++
			}
		}
		if admitted > most || algorithm == "fixed_window" && admitted != most {
			t.Errorf("%s: admitted %d in a minute and a half, want %d", algorithm, admitted, most)
		}
		w.now += 2 * time.Minute
		w.connect(1)
		w.want(algorithm+": later", false, w.decide(10, d("user=a")))
	}
}
