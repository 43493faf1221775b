package httplimit

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
)

// A request that a shaped limit admits is served when its turn has come, and its client
// is not told to wait once more.
func TestRequestsAreHeldBack(t *testing.T) {
	const turn = 3 * time.Second
	late := status("a", 1, enforce.Status{Over: true, Retry: 1500 * time.Millisecond, Reason: enforce.DelayTooLong})
	for why, c := range map[string]struct {
		d        enforce.Decision
		gone     time.Duration // 0: never
		took     time.Duration
		code     int
		retry    string
		maxDelay time.Duration
	}{
		"its turn":        {enforce.Decision{Delay: turn, Statuses: []enforce.Status{status("a", 1, enforce.Status{Delay: turn})}}, 0, turn, 200, "", 0},
		"a client gone":   {enforce.Decision{Delay: turn, Statuses: []enforce.Status{status("a", 1, enforce.Status{Delay: turn})}}, time.Second, time.Second, 499, "", 0},
		"too long a turn": {enforce.Decision{Over: true, Retry: 1500 * time.Millisecond, Statuses: []enforce.Status{late}}, 0, 0, 429, "2", time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			by := &deciding{answer: c.d}
			h := middleware(t, Config{Decide: by.decide, MaxDelay: c.maxDelay})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.gone > 0 {
				defer time.AfterFunc(c.gone, cancel).Stop()
			}
			began := time.Now()
			w := get(h, func(r *http.Request) { *r = *r.WithContext(ctx) })
			if took := time.Since(began); took != c.took || w.Code != c.code || w.Header().Get(headers.RetryAfter) != c.retry || w.Header().Get(headers.Delay) != "" {
				t.Errorf("%s: have %d after %v: %v", why, w.Code, took, w.Header())
			}
			if (w.Body.String() == "served") != (c.code == 200) {
				t.Errorf("%s: have %s", why, w.Body)
			}
			if c.maxDelay > 0 && by.asked[0].MaxDelay != c.maxDelay {
				t.Errorf("%s: asked for %v", why, by.asked[0].MaxDelay)
			}
		})
	}
}
