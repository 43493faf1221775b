package regional

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// rulesDoc gives region eu half of each limit as its standing share, so that
// 8 a day become 4 here.
const rulesDoc = `
domain: api
descriptors:
- key: user
  rate_limit: {name: per-user, unit: day, requests_per_unit: 8, quota: {standing_share: 1}}
  descriptors:
  - key: path
    value: /login
    rate_limit: {name: logins, unit: hour, requests_per_unit: 4, quota: {standing_share: 1}}
- key: ip
  rate_limit: {name: per-ip, unit: day, requests_per_unit: 20, quota: {standing_share: 1}}
- key: zero
  rate_limit: {unit: second, requests_per_unit: 0}
- key: free
  rate_limit: {unlimited: true}
- key: zero-allow
  rate_limit: {unit: second, requests_per_unit: 0, quota: {on_store_failure: allow, on_disconnect: allow}}
- key: two
  rate_limits:
  - {name: burst, unit: second, unit_multiplier: 5, requests_per_unit: 20, quota: {standing_share: 1}}
  - {name: daily, unit: day, requests_per_unit: 24, quota: {standing_share: 1}}
- key: method
  value: "*"
  rate_limit: {unit: day, requests_per_unit: 2000, quota: {standing_share: 1}}
- key: method
  value: login
  rate_limit: {unit: day, requests_per_unit: 20, quota: {standing_share: 1}}
- key: plan
  descriptors:
  - key: account
    rate_limit: {unit: day, requests_per_unit: 4, quota: {standing_share: 1}}
- key: smooth
  rate_limit: {unit: hour, requests_per_unit: 20, quota: {algorithm: leaky_bucket, shape: true, standing_share: 1}}
- key: stream
  rate_limit: {unit: hour, requests_per_unit: 20, quota: {max_debt: 5, settle: true, standing_share: 1}}
- key: brisk
  rate_limit: {unit: second, requests_per_unit: 2, quota: {standing_share: 1}}
- key: quick
  rate_limit: {unit: second, requests_per_unit: 2000, quota: {standing_share: 1, on_store_failure: deny}}
- key: seen
  rate_limit: {unit: day, requests_per_unit: 2, quota: {standing_share: 1}}
  shadow_mode: true
- key: small
  rate_limit: {unit: day, requests_per_unit: 5, quota: {standing_share: 0, cold_start_wait: 5s}}
- key: closed
  rate_limit: {unit: day, requests_per_unit: 1000, quota: {standing_share: 1, on_store_failure: deny}}
- key: open
  rate_limit: {unit: day, requests_per_unit: 1000, quota: {standing_share: 1, on_store_failure: allow}}
`

func TestEnvoysMessages(t *testing.T) {
	c := startCoordinator(t, rulesDoc)
	a := startAgent(t, redistest.Run(t).URL(), nil, c.addr)
	a.ready(t)
	day := rls.RateLimitResponse_RateLimit_DAY

	for i := range uint32(4) {
		resp := a.ask(t, 0, "user=1", "ip=10.0.0.1", "nobody=x", "free=1")
		if over(resp) || len(resp.Statuses) != 4 {
			t.Fatalf("request %d: have %v", i, resp)
		}
		s := resp.Statuses[0]
		if s.LimitRemaining != 3-i || s.CurrentLimit.Name != "per-user" || s.CurrentLimit.RequestsPerUnit != 8 || s.CurrentLimit.Unit != day {
			t.Errorf("request %d: per user: have %v", i, s)
		}
		// Half of a day's 8 tokens: one token takes six hours of the share's rate.
		if reset := s.DurationUntilReset.AsDuration(); reset <= time.Duration(i)*6*time.Hour || reset > time.Duration(i+1)*6*time.Hour {
			t.Errorf("request %d: duration_until_reset: have %s", i, reset)
		}
		if s := resp.Statuses[1]; s.LimitRemaining != 9-i || s.CurrentLimit.Name != "per-ip" {
			t.Errorf("request %d: per ip: have %v", i, s)
		}
		if s := resp.Statuses[2]; s.CurrentLimit != nil || s.Code != rls.RateLimitResponse_OK {
			t.Errorf("no rule: have %v", s)
		}
		if s := resp.Statuses[3]; s.CurrentLimit != nil || s.LimitRemaining != math.MaxUint32 {
			t.Errorf("unlimited: have %v", s)
		}
		if have := header(resp, headers.Remaining); have != fmt.Sprint(3-i) {
			t.Errorf("request %d: want the least remaining in %s, have %q", i, headers.Remaining, have)
		}
	}
	resp := a.ask(t, 0, "user=1", "ip=10.0.0.1")
	if !over(resp) || resp.Statuses[0].Code != rls.RateLimitResponse_OVER_LIMIT || resp.Statuses[0].LimitRemaining != 0 {
		t.Fatalf("fifth request: have %v", resp)
	}
	if header(resp, headers.RetryAfter) == "" || header(resp, headers.Limit) != "8" || header(resp, headers.Reason) == "" ||
		header(resp, headers.Policy) != `"per-user";q=8;w=86400, "per-ip";q=20;w=86400` {
		t.Errorf("headers of a denial: have %v", resp.ResponseHeadersToAdd)
	}
	// A denial charges none of the rules of the request.
	if s := a.ask(t, 0, "ip=10.0.0.1").Statuses[0]; s.LimitRemaining != 5 {
		t.Errorf("per ip after a denial by another rule: want 5 left, have %v", s)
	}
	// Another user, and a nested descriptor of the first, have buckets of their own.
	if over(a.ask(t, 0, "user=2")) || over(a.ask(t, 2, "user=1,path=/login")) {
		t.Error("another user or path was denied")
	}
	if !over(a.ask(t, 1, "user=1,path=/login")) {
		t.Error("the third login was admitted")
	}
	if s := a.ask(t, 0, "user=1,path=/other").Statuses[0]; s.CurrentLimit != nil {
		t.Errorf("a rule at a shallower level applied to a longer descriptor: %v", s)
	}
}

func TestCasesOverEnvoysMessages(t *testing.T) {
	c := startCoordinator(t, rulesDoc)
	a := startAgent(t, redistest.Run(t).URL(), nil, c.addr)
	a.ready(t)

	t.Run("K08ZeroDeniesEverything", func(t *testing.T) {
		var wg sync.WaitGroup
		var admitted, failed atomic.Int64
		for range 8 {
			wg.Go(func() {
				for range 125 {
					resp, err := a.rls.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "api", Descriptors: descriptors("zero=1")})
					if err != nil {
						failed.Add(1)
					} else if !over(resp) {
						admitted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if admitted.Load() != 0 || failed.Load() != 0 {
			t.Errorf("want 1000 denials, have %d admitted, %d failed", admitted.Load(), failed.Load())
		}
	})
	t.Run("K11CostAboveBurstIsNeverServed", func(t *testing.T) {
		resp := a.ask(t, 100, "user=big")
		if !over(resp) || header(resp, headers.Reason) != "burst_exceeded" || header(resp, headers.RetryAfter) != "86400" {
			t.Errorf("have %v", resp)
		}
		if a.ask(t, 1, "user=big").Statuses[0].LimitRemaining != 3 {
			t.Error("the impossible request burned tokens")
		}
	})
	t.Run("K12DeniedRequestBurnsNoTokens", func(t *testing.T) {
		for _, c := range []struct {
			hits uint32
			over bool
			left uint32
		}{{8, false, 2}, {5, true, 0}, {1, false, 1}} {
			if resp := a.ask(t, c.hits, "ip=10.0.0.12"); over(resp) != c.over || resp.Statuses[0].LimitRemaining != c.left {
				t.Errorf("%d hits: want over %v with %d left, have %v", c.hits, c.over, c.left, resp)
			}
		}
	})
	t.Run("K23PeeksDoNotConsume", func(t *testing.T) {
		peek := descriptors("user=peek")
		peek[0].HitsAddend = wrapperspb.UInt64(0)
		for range 5 {
			resp, err := a.rls.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "api", Descriptors: peek})
			if err != nil || over(resp) || resp.Statuses[0].LimitRemaining != 4 {
				t.Fatalf("peek: have %v, %v", resp, err)
			}
		}
		for i := range 5 {
			if have, want := over(a.ask(t, 0, "user=peek")), i == 4; have != want {
				t.Errorf("hit %d: want over %v, have %v", i+1, want, have)
			}
		}
	})
	t.Run("K32TwoWindowsOnOneDescriptor", func(t *testing.T) {
		// Half of 20 in 5 s and of 24 a day: the shorter window denies first.
		for i := range 11 {
			resp := a.ask(t, 1, "two=1")
			if s := resp.Statuses[0]; over(resp) != (i == 10) || s.CurrentLimit.Name != "burst" {
				t.Fatalf("hit %d: have %v", i+1, resp)
			}
		}
		// One comes back in half a second, in the longer window in two hours.
		eventually(t, "the shorter window has room", func() bool { return !over(a.ask(t, 1, "two=1")) })
		eventually(t, "the longer window denies", func() bool {
			resp := a.ask(t, 1, "two=1")
			return over(resp) && resp.Statuses[0].CurrentLimit.Name == "daily"
		})
	})
	t.Run("K35TwoRulesDoNotShareACounter", func(t *testing.T) {
		for i := range 12 {
			if over(a.ask(t, 5, "method=other")) {
				t.Fatal("the wildcard denied")
			}
			if have, want := over(a.ask(t, 1, "method=login")), i >= 10; have != want {
				t.Errorf("login %d: want over %v, have %v", i+1, want, have)
			}
		}
	})
	t.Run("K37EveryValueIsInTheKey", func(t *testing.T) {
		for _, who := range []string{"plan=x,account=a", "plan=x,account=b", "plan=y,account=a", "plan=x,account="} {
			for i := range 3 {
				if have, want := over(a.ask(t, 1, who)), i == 2; have != want {
					t.Errorf("%s, hit %d: want over %v, have %v", who, i+1, want, have)
				}
			}
		}
	})
	t.Run("K82WaitingExactlyRetryAfterIsEnough", func(t *testing.T) {
		resp := a.ask(t, 1, "brisk=1")
		for !over(resp) {
			resp = a.ask(t, 1, "brisk=1")
		}
		wait, err := strconv.Atoi(header(resp, headers.RetryAfter))
		if err != nil || wait != 1 {
			t.Fatalf("Retry-After: want 1, have %q", header(resp, headers.RetryAfter))
		}
		time.Sleep(time.Duration(wait) * time.Second)
		if code, h, _ := a.get(t, a.http+"/v1/check?domain=api&brisk=1"); code != http.StatusOK {
			t.Errorf("after the wait: want 200, have %d %v", code, h)
		}
	})
	t.Run("ShadowRuleIsCountedAndNeverDenies", func(t *testing.T) {
		for range 5 {
			if over(a.ask(t, 1, "seen=1")) {
				t.Error("a shadow rule denied")
			}
		}
		_, _, text := a.get(t, a.admin+"/metrics")
		if want := `quorate_decisions_total{decision="shadow",reason="shadow",rule="api/seen",value=""} 4`; !strings.Contains(text, want) {
			t.Errorf("no line %s", want)
		}
	})
	t.Run("HostileRequests", func(t *testing.T) {
		for name, m := range map[string]*rls.RateLimitRequest{
			"empty domain":   {Descriptors: descriptors("user=1")},
			"no descriptors": {Domain: "api"},
		} {
			if _, err := a.rls.ShouldRateLimit(t.Context(), m); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		for name, d := range map[string]string{
			"4 KiB": "user=" + strings.Repeat("x", 4096), "braces": "user=a{b}c{", "newline": "user=a\nb", "separators": "user=a|b#c%d*",
			"empty": "user=", "no entries": "",
		} {
			if over(a.ask(t, 0, d)) {
				t.Errorf("%s: denied", name)
			}
		}
		absurd := descriptors("user=absurd")
		absurd[0].HitsAddend = wrapperspb.UInt64(math.MaxUint64)
		resp, err := a.rls.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "api", Descriptors: absurd})
		if err != nil || !over(resp) {
			t.Errorf("absurd hits: have %v, %v", resp, err)
		}
		if resp := a.ask(t, 0, "nothing=1"); over(resp) {
			t.Error("no rule: denied")
		}
	})
	t.Run("CheckOverHTTP", func(t *testing.T) {
		for i := range 5 {
			code, h, body := a.get(t, a.http+"/v1/check?domain=api&user=http")
			want := 200
			if i == 4 {
				want = 429
			}
			if code != want {
				t.Fatalf("request %d: want %d, have %d %s", i+1, want, code, body)
			}
			if h.Get(headers.Reset) == "" || (h.Get(headers.RetryAfter) != "") != (code == 429) {
				t.Errorf("request %d: headers: %v", i+1, h)
			}
		}
		body := `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"http"}]}]}`
		resp, err := a.client.Post(a.http+"/json", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("/json: want 429, have %d", resp.StatusCode)
		}
	})
	t.Run("Shape", func(t *testing.T) {
		const gap = 6 * 60_000 // ms: 10 an hour here
		for i := range int64(3) {
			code, h, body := a.get(t, a.http+"/v1/check?domain=api&smooth=1")
			have, _ := strconv.ParseInt(h.Get(headers.Delay), 10, 64)
			if code != 200 || have > i*gap || have < i*gap-gap/2 || have > 0 != strings.Contains(body, fmt.Sprintf(`"delay_ms":%d`, have)) {
				t.Errorf("request %d: have a delay of %d ms: %d %v %s", i+1, have, code, h, body)
			}
		}
		if _, _, body := a.get(t, a.admin+"/metrics"); !strings.Contains(body, "\nquorate_delay_seconds_count 2\n") {
			t.Error("two of three were delayed, and the metrics do not say so")
		}
		_, _, body := a.get(t, a.admin+"/v1/explain?domain=api&smooth=1")
		var x Explanation
		if err := json.Unmarshal([]byte(body), &x); err != nil || len(x.Limits) != 1 {
			t.Fatalf("have %s, %v", body, err)
		}
		if x.Over || x.DelayUS > 3*gap*1000 || x.DelayUS < (3*gap-gap/2)*1000 || !x.Limits[0].Shape || x.Limits[0].Algorithm != "leaky_bucket" {
			t.Errorf("have %s", body)
		}
		if _, _, body := a.get(t, a.admin+"/rlconfig"); !strings.Contains(body, "api/smooth: unit=hour requests_per_unit=20 algorithm=leaky_bucket shape burst=20 ") {
			t.Errorf("have %s", body)
		}
	})
	t.Run("Settle", func(t *testing.T) {
		if code, _, body := a.get(t, a.http+"/v1/check?domain=api&stream=1&hits=30"); code != 200 {
			t.Errorf("a cost that is spent: have %d %s", code, body)
		}
		if code, _, body := a.get(t, a.http+"/v1/check?domain=api&stream=1&hits=0"); code != 429 {
			t.Errorf("a look in debt: have %d %s", code, body)
		}
		if _, _, body := a.get(t, a.admin+"/metrics"); !strings.Contains(body, "\nquorate_uncharged_tokens_total 15\n") {
			t.Error("15 of 30 had no room beside the 10 of the region and the debt, and the metrics do not say so")
		}
		if _, _, body := a.get(t, a.admin+"/v1/explain?domain=api&stream=1"); !strings.Contains(body, `"settle":true`) {
			t.Errorf("have %s", body)
		}
		if _, _, body := a.get(t, a.admin+"/rlconfig"); !strings.Contains(body, " max_debt=5 settle\n") {
			t.Errorf("have %s", body)
		}
	})
	t.Run("Explain", func(t *testing.T) {
		_, _, body := a.get(t, a.admin+"/v1/explain?domain=api&user=http")
		var x Explanation
		if err := json.Unmarshal([]byte(body), &x); err != nil {
			t.Fatal(err)
		}
		if x.Rule != "api/user" || len(x.Limits) != 1 || x.Limits[0].Record == nil || x.Limits[0].Now == nil || x.Limits[0].Now.AdmitsOne ||
			x.State == nil || x.State.Session != 1 || len(x.Considered) == 0 ||
			!x.Over || x.Reason != enforce.LeaseEmpty || x.Source != enforce.FromShare || x.Scope != "region" || x.RetryUS <= 0 {
			t.Errorf("have %s", body)
		}
		if _, _, body := a.get(t, a.admin+"/v1/explain?domain=api&nobody=1"); !strings.Contains(body, `"no_rule"`) {
			t.Errorf("have %s", body)
		}
		if code, _, body := a.get(t, a.admin+"/rlconfig"); code != 200 || !strings.Contains(body, "api/user: name=per-user unit=day requests_per_unit=8") {
			t.Errorf("have %d %s", code, body)
		}
	})
}

// Two agents of a region on a Redis Cluster: the limits hold across both, and a
// request with keys on several nodes counts all of them or none.
func TestTwoAgentsOnACluster(t *testing.T) {
	c := startCoordinator(t, `
domain: api
descriptors:
- {key: user, rate_limit: {unit: day, requests_per_unit: 10, quota: {standing_share: 1}}}
- {key: ip, rate_limit: {unit: day, requests_per_unit: 4, quota: {standing_share: 1}}}`)
	url := redistest.RunCluster(t, 3, false).URL()
	slow := func(cfg *Config) { cfg.RedisTimeout = patience }
	a, b := startAgent(t, url, slow, c.addr), startAgent(t, url, slow, c.addr)
	a.ready(t)
	b.ready(t)
	// eu has half of everything: five requests of a user, two of an address.
	for i, want := range []bool{false, false, true, true} {
		r := []*running{a, b}[i%2]
		if have := over(r.ask(t, 1, "user=1", "ip=1")); have != want {
			t.Errorf("request %d: want over %v, have %v", i, want, have)
		}
	}
	// What was denied because of the address has not cost the user anything.
	for i, want := range []bool{false, false, false, true} {
		r := []*running{a, b}[i%2]
		if have := over(r.ask(t, 1, "user=1")); have != want {
			t.Errorf("request %d of the user: want over %v, have %v", i, want, have)
		}
	}
}
