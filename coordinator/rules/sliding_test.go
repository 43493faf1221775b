package rules

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

func slidingRule(t *testing.T, algorithm string, seconds int) (*Set, *Rule) {
	t.Helper()
	set, err := Parse([]quota.Source{{Text: fmt.Sprintf(`domain: api
descriptors:
  - key: user
    rate_limit: {unit: second, unit_multiplier: %d, requests_per_unit: 7, quota: {algorithm: %s}}
  - key: several
    rate_limits:
      - {name: short, unit: second, requests_per_unit: 3}
      - {name: long, unit: hour, requests_per_unit: 100, quota: {algorithm: %[2]s}}
`, seconds, algorithm)}})
	if err != nil {
		t.Fatal(err)
	}
	return set, set.Rules()[0]
}

func TestASlidingWindowIsALimitWithoutARate(t *testing.T) {
	set, r := slidingRule(t, "sliding_window_log", 60)
	l := r.Limits[0]
	if l.Rate != (quota.Rate{Per: 60 * quota.Second}) || l.Burst != quota.Whole(7) || l.Window != 60*quota.Second || l.Algorithm != SlidingWindowLog {
		t.Errorf("have %+v", l)
	}
	entries := []Entry{{"user", "ann"}}
	if have := r.Key("api", entries, 0); have != "api|user=ann##log+60" {
		t.Errorf("have %s", have)
	}
	several := set.Rules()[1]
	if have := several.Key("api", []Entry{{"several", ""}}, 1); have != "api|several#long#log+3600" {
		t.Errorf("have %s", have)
	}
	for _, r := range set.Rules() {
		for i := range r.Limits {
			if rule, l := set.LimitOf(r.Sample(i)); rule != r || l != &r.Limits[i] {
				t.Errorf("%s does not lead to limit %d of %s", r.Sample(i), i, r.ID)
			}
		}
	}
}

// After an edit of the algorithm or the window a new count begins: the old keys are
// those of nobody.
func TestAnotherWindowIsAnotherKey(t *testing.T) {
	keys := map[quota.Key]string{}
	for _, algorithm := range []string{"token_bucket", "sliding_window_log", "sliding_window_counter"} {
		for _, seconds := range []int{10, 60} {
			set, r := slidingRule(t, algorithm, seconds)
			key := r.Key("api", []Entry{{"user", "ann"}}, 0)
			if algorithm != "token_bucket" && keys[key] != "" {
				t.Errorf("%s of %d s shares %s with %s", algorithm, seconds, key, keys[key])
			}
			keys[key] = algorithm
			for other := range keys {
				if _, l := set.LimitOf(other); (l != nil) != (other == key) {
					t.Errorf("%s of %d s and the key %s: counted %v", algorithm, seconds, other, l != nil)
				}
			}
		}
	}
}

func TestDecodeKeyRefusesOtherSpellingsOfAWindow(t *testing.T) {
	for _, suffix := range []string{"##log", "##log+", "##log+0", "##log+060", "##log+-1", "##log+6.5", "##LOG+60", "##logs+60", "###log+60", "#log+60#", "##log+99999999999", "#x#"} {
		if _, err := DecodeKey(quota.Key("api|user=ann" + suffix)); err == nil {
			t.Errorf("%s is a key", suffix)
		}
	}
}
