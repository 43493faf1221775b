package redisbucket

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// Requests that share one script call leave one after the other all the same: each is
// told to wait for those before it.
func TestShapedRequestsThatShareACall(t *testing.T) {
	r := redistest.Run(t)
	s := openAt(t, r.URL(), nil)
	e := decider(t, s, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 10, quota: {algorithm: leaky_bucket, shape: true, standing_share: 1}}
`)
	release := hold(t, r, s, state(t, s))
	delays := make([]time.Duration, 11)
	var wg sync.WaitGroup
	for i := range delays {
		wg.Go(func() {
			d, err := e.Decide(context.Background(), time.Hour, enforce.Request{
				Domain: "api", Descriptors: []enforce.Descriptor{{Entries: []rules.Entry{{Key: "user", Value: "a"}}}},
			})
			if delays[i] = d.Delay; err != nil || d.Over {
				delays[i] = -1
			}
		})
	}
	queued(t, s, len(delays))
	release()
	wg.Wait()
	slices.Sort(delays)
	want := []time.Duration{-1} // the eleventh
	for i := range 10 {
		want = append(want, time.Duration(i)*100*time.Millisecond)
	}
	if !slices.Equal(delays, want) {
		t.Errorf("have %v, want %v", delays, want)
	}
}
