package lease

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// slot is a key of a sliding log of 10 seconds.
const slot = quota.Key("api|user=alice##log+10")

// slots is doc with a sliding log of n in 10 seconds.
func slots(n int, share string, other string) string {
	text := "domain: api\ndescriptors:\n  - {key: other, rate_limit: {unit: second, requests_per_unit: " + other + "}}\n"
	if n > 0 {
		text += "  - {key: user, rate_limit: {unit: second, unit_multiplier: 10, requests_per_unit: " + strings.Repeat("1", n) + ", quota: {algorithm: sliding_window_log, standing_share: " + share + "}}}\n"
	}
	return text
}

// free is how many places are free at now + in in a record that was written at.
func (r *region) free(in quota.Micros, at quota.Micros) quota.Tokens {
	r.t.Helper()
	st := r.cur.StandingOf(slot, r.now)
	if err := st.Valid(); err != nil || st.Window != bucket.LogWindow || st.Config != r.cur.Version {
		r.t.Fatalf("have %+v, %v", st, err)
	}
	s := bucket.NewStore()
	s.Incarnate(0, "i1")
	if at > 0 {
		known := st
		known.Base, known.Since = st.Burst, 0
		if err := s.Charge(at, "i1", []bucket.Charge{{Key: slot, Tokens: quota.Token, Standing: known}}); err != nil {
			r.t.Fatal(err)
		}
	}
	_, v := s.Take(r.now+in, []bucket.Ask{{Key: slot, Standing: st}})
	return v[0].Level
}

// The limit is 11 in 10 seconds; eu has a part of the share that the weights say.
func TestPlacesOfAMissingRecord(t *testing.T) {
	const s = quota.Second
	all, half := slots(2, "1", "1"), slots(2, "0.6", "1")
	for _, tt := range []struct {
		name  string
		first bool
		play  func(r *region)
		at    quota.Micros // of a record with one place occupied, 0 for none
		in    quota.Micros
		want  uint64
	}{
		{"the first incarnation has its share", true, func(r *region) { r.adopt(config(1, all), nil) }, 0, 0, 5},
		{"one that has lost its store has nothing", false, func(r *region) { r.adopt(config(1, all), nil) }, 0, 10*s - 1, 0},
		{"for a window", false, func(r *region) { r.adopt(config(1, all), nil) }, 0, 10 * s, 5},
		{"a share that grows has what it had", true, func(r *region) {
			r.adopt(config(1, half), nil)
			r.now += 100 * s
			r.adopt(config(2, all), r.cur)
		}, 0, 10*s - 1, 3},
		{"and the rest a window later", true, func(r *region) {
			r.adopt(config(1, half), nil)
			r.now += 100 * s
			r.adopt(config(2, all), r.cur)
		}, 0, 10 * s, 5},
		{"so has a record from before", true, func(r *region) {
			r.adopt(config(1, half), nil)
			r.now += 100 * s
			r.adopt(config(2, all), r.cur)
		}, 1099 * s, 5 * s, 2},
		{"a share that grew before another edit", true, func(r *region) {
			r.adopt(config(1, half), nil)
			r.now += 100 * s
			r.adopt(config(2, all), r.cur)
			r.now += s
			r.adopt(config(3, slots(2, "1", "2")), r.cur)
		}, 0, 8 * s, 0},
		{"a share that shrinks and grows", true, func(r *region) {
			r.adopt(config(1, all), nil)
			r.now += s
			r.adopt(config(2, half), r.cur)
			r.now += s
			r.adopt(config(3, all), r.cur)
		}, 0, 9 * s, 3},
		{"a rule that is new is free", true, func(r *region) {
			r.adopt(config(1, slots(0, "", "1")), nil)
			r.now += s
			r.adopt(config(2, all), r.cur)
		}, 0, 0, 5},
		{"unless versions were skipped", true, func(r *region) {
			r.adopt(config(1, slots(0, "", "1")), nil)
			r.now += s
			r.adopt(config(3, all), r.cur)
		}, 0, 9 * s, 0},
		{"or the region has lost its store just before", false, func(r *region) {
			r.adopt(config(1, slots(0, "", "1")), nil)
			r.now += s
			r.adopt(config(2, all), r.cur)
		}, 0, 8 * s, 0},
		{"another algorithm is another key", true, func(r *region) {
			r.adopt(config(1, strings.ReplaceAll(all, "_log", "_counter")), nil)
			r.now += s
			r.adopt(config(2, all), r.cur)
		}, 0, 0, 5},
		{"a key that no rule counts has nothing", true, func(r *region) { r.adopt(config(1, slots(0, "", "1")), nil) }, 0, 100 * s, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRegion(t, tt.first)
			tt.play(r)
			if have := r.free(tt.in, tt.at); have != quota.Whole(tt.want) {
				t.Errorf("have %v, want %d; %+v", have, tt.want, r.cur.StandingOf(slot, r.now))
			}
		})
	}
}
