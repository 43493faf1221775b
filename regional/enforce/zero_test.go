package enforce

import (
	"testing"
	"time"
)

// K10: zero means the same whether the store decides or the ladder does, and no
// policy for failures turns it into "no limit".
func TestK10ZeroMeansTheSameOnBothPaths(t *testing.T) {
	const doc = `
domain: api
descriptors:
  - {key: zero, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: zero share, rate_limit: {unit: second, requests_per_unit: 0, quota: {standing_share: 1}}}
  - {key: zero allow, rate_limit: {unit: second, requests_per_unit: 0, quota: {on_store_failure: allow, on_disconnect: allow}}}
  - {key: zero hold, rate_limit: {unit: second, requests_per_unit: 0, quota: {on_disconnect: hold}}}
  - {key: zero leaky, rate_limit: {unit: minute, requests_per_unit: 0, quota: {algorithm: leaky_bucket, on_store_failure: allow}}}
  - {key: zero fixed, rate_limit: {unit: minute, requests_per_unit: 0, quota: {algorithm: fixed_window, on_store_failure: allow}}}
  - {key: zero log, rate_limit: {unit: minute, requests_per_unit: 0, quota: {algorithm: sliding_window_log, on_store_failure: allow}}}
  - {key: zero counter, rate_limit: {unit: minute, requests_per_unit: 0, quota: {algorithm: sliding_window_counter, on_store_failure: allow}}}
  - {key: no share, rate_limit: {unit: second, requests_per_unit: 100, quota: {standing_share: 0, cold_start_wait: 0s}}}
  - {key: whole share, rate_limit: {unit: second, requests_per_unit: 100, quota: {standing_share: 1}}}
  - {key: free, rate_limit: {unlimited: true}}
`
	for _, path := range []struct {
		name string
		set  func(w *world)
	}{
		{"the store decides", func(*world) {}},
		{"the store decides, cut off from the coordinator", func(w *world) { w.now += time.Minute }},
		{"the ladder decides", func(w *world) {
			w.fail = ErrStoreDown
			w.decide(1, d("whole share=first"))
			w.now += time.Minute
		}},
	} {
		t.Run(path.name, func(t *testing.T) {
			w := newWorld(t, doc)
			path.set(w)
			for key, over := range map[string]bool{
				"zero": true, "zero share": true, "zero allow": true, "zero hold": true, "zero leaky": true, "zero fixed": true,
				"zero log": true, "zero counter": true, "no share": true, "whole share": false, "free": false,
			} {
				for range 3 {
					dec := w.want(key, over, w.decide(1, d(key+"=x")))
					if s := dec.Statuses[0]; over && key != "no share" && (s.Reason != ZeroLimit || !s.Never) {
						t.Errorf("%s: have %+v", key, s)
					}
				}
			}
			w.want("a zero limit beside one with room", true, w.decide(1, d("whole share=y"), d("zero allow=y")))
		})
	}
}
