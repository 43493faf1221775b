package redisbucket

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/lease"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// Requests that share one script call leave one after the other all the same: each is
// told to wait for those before it.
func TestShapedRequestsThatShareACall(t *testing.T) {
	r := redistest.Run(t)
	s := openAt(t, r.URL(), nil)
	e := shaping(t, s, `
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

// shaping returns an enforcer of the store's first incarnation, which has adopted doc
// and owns all of its limits.
func shaping(t *testing.T, s *Store, doc string) *enforce.Enforcer {
	t.Helper()
	ctx, st := context.Background(), connected(t, s)
	blob, err := lease.Encode(quota.Config{
		Version: 1, Sources: []quota.Source{{Name: "rules.yaml", Text: doc}}, Shares: quota.Shares{{Region: "eu", Weight: 1}},
	}, "eu", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.MarkFirst(ctx, st.Incarnation); err != nil {
		t.Fatal(err)
	}
	if err := s.Adopt(ctx, st.Incarnation, 1, blob); err != nil {
		t.Fatal(err)
	}
	st = state(t, s)
	current, previous, err := s.Config(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a, err := lease.Adopt("eu", 0, st, current, previous)
	if err != nil {
		t.Fatal(err)
	}
	e := enforce.New(enforce.Config{Store: s})
	e.Adopt(a)
	e.SetView(enforce.View{Region: st.Region, Now: st.Now, Agents: 1})
	return e
}
