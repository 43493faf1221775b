package regional

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

const windowDoc = `
domain: api
descriptors:
- key: year
  rate_limit: {unit: year, requests_per_unit: 20, quota: {algorithm: fixed_window, standing_share: 1}}
- key: month
  rate_limit: {unit: month, requests_per_unit: 20, quota: {algorithm: fixed_window, standing_share: 1, time_zone: Europe/Berlin}}
- key: block
  rate_limit: {unit: month, requests_per_unit: 20, quota: {algorithm: fixed_window, standing_share: 1, align: epoch}}
- key: few
  rate_limit: {unit: year, requests_per_unit: 5, quota: {algorithm: fixed_window, standing_share: 0, cold_start_wait: 5s}}
`

func TestCasesOfWindows(t *testing.T) {
	c := startCoordinator(t, windowDoc)
	redis := redistest.Run(t)
	a := startAgent(t, redis.URL(), nil, c.addr)
	a.ready(t)
	start := time.Date(time.Now().UTC().Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	end := start.AddDate(1, 0, 0)
	length := int64(end.Sub(start) / time.Second)

	t.Run("K31CountsDown", func(t *testing.T) {
		for want := uint32(9); want > 6; want-- {
			s := a.ask(t, 0, "year=31").Statuses[0]
			if left := time.Until(end); s.LimitRemaining != want || s.CurrentLimit.Unit != rls.RateLimitResponse_RateLimit_YEAR ||
				(s.DurationUntilReset.AsDuration()-left).Abs() > time.Second {
				t.Errorf("want %d remaining and the reset in %v, have %v", want, left, s)
			}
		}
	})
	t.Run("K14HeavyThenLight", func(t *testing.T) {
		for _, hits := range []uint32{8, 1, 1} {
			if over(a.ask(t, hits, "year=14")) {
				t.Errorf("a cost of %d was denied", hits)
			}
		}
		resp := a.ask(t, 1, "year=14")
		retry, _ := strconv.Atoi(header(resp, headers.RetryAfter))
		left := time.Until(end)
		// The region has all of the limit that it will ever get, so the wait is for the
		// next window, rounded up.
		if !over(resp) || (time.Duration(retry)*time.Second-left).Abs() > 2*time.Second || time.Duration(retry)*time.Second < left {
			t.Errorf("have %v to wait for the end, want %v rounded up: %v", retry, left, resp)
		}
		if have := header(resp, headers.Policy); !strings.HasSuffix(have, fmt.Sprintf(";q=20;w=%d", length)) {
			t.Errorf("have the policy %q", have)
		}
	})
	t.Run("K29EachCalendarHasItsOwnReset", func(t *testing.T) {
		now := time.Now()
		resp := a.ask(t, 0, "month=a", "block=a")
		berlin, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		y, m, _ := now.In(berlin).Date()
		first := time.Date(y, m+1, 1, 0, 0, 0, 0, berlin)
		const block = 30 * 24 * time.Hour
		next := time.Unix(0, 0).Add((now.Sub(time.Unix(0, 0))/block + 1) * block)
		for i, want := range []time.Time{first, next} {
			if have := now.Add(resp.Statuses[i].DurationUntilReset.AsDuration()); have.Sub(want).Abs() > 5*time.Second {
				t.Errorf("have the reset at %v, want %v", have, want)
			}
		}
	})
	t.Run("K50TheRecordLivesUntilTheEnd", func(t *testing.T) {
		a.ask(t, 0, "year=50")
		reply, err := redis.Do("PTTL", fmt.Sprintf("quorate:b:{api|year=50##%d+%d}", start.Unix(), length))
		if err != nil {
			t.Fatal(err)
		}
		ms, err := strconv.ParseInt(reply, 10, 64)
		if left := time.Until(end); err != nil || time.Duration(ms)*time.Millisecond < left || time.Duration(ms)*time.Millisecond > left+75*time.Second {
			t.Errorf("the record lives %d ms more, want %v and a minute: %q", ms, left, reply)
		}
	})
	t.Run("AFirstLeaseIsOneOfTheWindow", func(t *testing.T) {
		var asked quota.Key
		c.mu.Lock()
		c.grant = func(req quota.SyncRequest) (all []quota.Assignment) {
			for _, u := range req.Usage {
				if strings.HasPrefix(string(u.Key), "api|few=a##") {
					asked = u.Key
					all = append(all, quota.Assignment{
						Key: u.Key, Session: 1, Epoch: 1, Credit: 5 * quota.Token,
						Lease: quota.Capacity{Rate: quota.Rate{Per: 365 * 86400 * quota.Second}, Burst: 5 * quota.Token},
					})
				}
			}
			return all
		}
		c.mu.Unlock()
		for i := range 5 {
			if over(a.ask(t, 0, "few=a")) {
				t.Errorf("request %d was denied", i)
			}
		}
		resp := a.ask(t, 0, "few=a")
		if !over(resp) || header(resp, headers.Reason) != "global_exhausted" {
			t.Errorf("the sixth: have %v", resp)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if want := fmt.Sprintf("api|few=a##%d+%d", start.Unix(), length); string(asked) != want {
			t.Errorf("the coordinator was asked for %s, want %s", asked, want)
		}
	})
	t.Run("Explained", func(t *testing.T) {
		code, _, body := a.get(t, a.admin+"/v1/explain?domain=api&year=x")
		if code != http.StatusOK || !strings.Contains(body, "api|year=x##") || !strings.Contains(body, "burst 20") {
			t.Errorf("have %d %s", code, body)
		}
	})
}
