package fasttime

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// document is the rule of these tests: some requests a second, of which each of
// the three regions owns a twenty-fifth for ever.
func document(perSecond int, onDisconnect string) string {
	return fmt.Sprintf(`
domain: api
descriptors:
  - key: service
    rate_limit:
      unit: second
      requests_per_unit: %d
      quota: {standing_share: 0.12, on_disconnect: %s}
`, perSecond, onDisconnect)
}

var (
	// limit is that of document(100, …), and share what each region owns of it.
	limit = capacity(100, 100)
	share = 4.0
)

// loads offers three times the limit over all regions.
func (w *world) loads() {
	for _, name := range all {
		w.load(name, 100)
	}
}

// serves fails the test unless at least that part of the ideal was admitted in a
// span of the scenario.
func (w *world) serves(what string, from, to quota.Micros, least float64) {
	w.t.Helper()
	have := w.share(limit, from, to)
	if have < least {
		w.t.Errorf("%s: admitted %.3f of the ideal, want %.3f", what, have, least)
	}
	w.t.Logf("%s: admitted %.3f of the ideal", what, have)
}

// admits fails the test unless a region admitted between least and most requests
// a second in a span of the scenario.
func (w *world) admits(what, name string, from, to quota.Micros, least, most float64) {
	w.t.Helper()
	have := w.rate(name, from, to)
	if have < least || have > most {
		w.t.Errorf("%s: region %s admitted %.2f/s, want %.2f…%.2f", what, name, have, least, most)
	}
	w.t.Logf("%s: region %s admitted %.2f/s", what, name, have)
}

// reaches waits until a region admits so much in a whole second from now on, and
// returns how long that took, the second included.
func (w *world) reaches(limit time.Duration, name string, perSecond float64) time.Duration {
	w.t.Helper()
	time.Sleep(time.Second)
	return time.Second + w.within(limit, fmt.Sprintf("region %s admits %.0f/s", name, perSecond), func() error {
		if have := w.rate(name, now()-quota.Second, now()); have < perSecond {
			return fmt.Errorf("it admits %.0f/s", have)
		}
		return nil
	})
}

func TestThreeTimesTheLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		loads map[string]float64
	}{
		{"in one region", map[string]float64{"eu": 300}},
		{"in all regions", map[string]float64{"ap": 100, "eu": 100, "us": 100}},
		{"in unequal regions", map[string]float64{"ap": 15, "eu": 240, "us": 45}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, document(100, "standing"), func(w *world) {
				from := now()
				for _, name := range all {
					w.load(name, c.loads[name])
				}
				time.Sleep(3 * time.Minute)
				w.bound(limit, 0)
				w.serves("all the time", from, now(), 0.9)
			})
		})
	}
}

func TestLastAgentThatLeavesGivesLeasesBackAtOnce(t *testing.T) {
	run(t, document(100, "standing"), func(w *world) {
		w.load("eu", 300)
		w.load("us", 300)
		time.Sleep(30 * time.Second)
		w.admits("before", "us", now()-10*quota.Second, now(), 40, 55)
		w.leave(w.regions["eu"].agents[0])
		took := w.reaches(3*time.Second, "us", 85)
		t.Logf("the other region had the quota after %v", took)
		time.Sleep(30 * time.Second)
		w.admits("afterwards", "us", now()-10*quota.Second, now(), 90, 100)
		w.bound(limit, 0)
	})
}

func TestRuleEditsUnderLoad(t *testing.T) {
	run(t, document(100, "standing"), func(w *world) {
		w.loads()
		time.Sleep(30 * time.Second)

		w.apply(document(40, "standing"))
		took := w.within(10*time.Second, "the lower limit is in force", w.outstanding)
		t.Logf("lowered: in force after %v", took)
		lowered := now()
		time.Sleep(30 * time.Second)
		w.bound(capacity(40, 40), lowered)
		w.bound(limit, 0)
		for _, name := range all {
			w.admits("lowered", name, lowered+5*quota.Second, now(), 11, 15)
		}

		raised := now()
		w.apply(document(150, "standing"))
		took = w.within(10*time.Second, "the higher limit is in force", w.outstanding)
		t.Logf("raised: in force after %v", took)
		time.Sleep(30 * time.Second)
		// A raise is worth no token: the bucket still holds at most the old burst.
		w.bound(capacity(150, 40), raised)
		for _, name := range all {
			w.admits("raised", name, raised+5*quota.Second, now(), 45, 52)
		}
	})
}
