package regional

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

const overrideDoc = `
domain: api
descriptors:
- {key: user, rate_limit: {name: per-user, unit: day, requests_per_unit: 100, quota: {standing_share: 1, max_debt: 5, cold_start_wait: 5s}}}
- {key: fixed, allow_override: false, rate_limit: {unit: day, requests_per_unit: 8, quota: {standing_share: 1}}}
`

// grantOverrides gives all of each limit of a request that is asked for, from its key
// alone, as a coordinator does.
func (c *coordinator) grantOverrides(t *testing.T, doc string) {
	t.Helper()
	set, err := rules.Parse([]quota.Source{{Name: "rules.yaml", Text: doc}})
	if err != nil {
		t.Fatal(err)
	}
	granted, epoch := map[quota.Key]bool{}, quota.Epoch(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grant = func(req quota.SyncRequest) (all []quota.Assignment) {
		for _, u := range req.Usage {
			_, l := set.LimitOf(u.Key)
			if l == nil || !l.Override || granted[u.Key] {
				continue
			}
			granted[u.Key] = true
			epoch++
			all = append(all, quota.Assignment{Key: u.Key, Session: 1, Epoch: epoch, Lease: l.Capacity, Credit: l.Burst})
		}
		return all
	}
}

func (r *running) askOverride(t *testing.T, n uint32, unit typev3.RateLimitUnit, text string) *rls.RateLimitResponse {
	t.Helper()
	d := descriptor(text)
	d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := r.rls.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "api", Descriptors: []*common.RateLimitDescriptor{d}})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// The same limit of a request on every port, one bucket: over gRPC, as JSON, and in the
// query of a check.
func TestOverridesOnTheWire(t *testing.T) {
	c := startCoordinator(t, overrideDoc)
	c.grantOverrides(t, overrideDoc)
	server := redistest.Run(t)
	a := startAgent(t, server.URL(), nil, c.addr)
	a.ready(t)
	post := func(path, body string) (int, string) {
		t.Helper()
		resp, err := a.client.Post(a.http+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}

	first := a.askOverride(t, 4, typev3.RateLimitUnit_DAY, "user=a")
	if s := first.Statuses[0]; over(first) || s.CurrentLimit.GetRequestsPerUnit() != 4 || s.CurrentLimit.GetUnit() != rls.RateLimitResponse_RateLimit_DAY ||
		s.CurrentLimit.GetName() != "per-user" || s.LimitRemaining != 3 {
		t.Fatalf("the first: have %v", first)
	}
	if have := header(first, headers.Limit) + " " + header(first, headers.Remaining) + " " + header(first, headers.Policy); have != `4 3 "per-user";q=4;w=86400` {
		t.Errorf("have the headers %s", have)
	}
	if code, body := post("/json", `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"a"}],"limit":{"requestsPerUnit":4,"unit":"DAY"}}]}`); code != 200 || !strings.Contains(body, `"limitRemaining":2`) && !strings.Contains(body, `"limitRemaining": 2`) {
		t.Errorf("/json: have %d %s", code, body)
	}
	if code, h, body := a.get(t, a.http+"/v1/check?domain=api&user=a&override=4/day"); code != 200 || h.Get(headers.Limit) != "4" || h.Get(headers.Remaining) != "1" {
		t.Errorf("/v1/check: have %d %v %s", code, h, body)
	}
	// max_debt of the rule holds for the override: a charge beyond what is there.
	if code, body := post("/v1/settle?domain=api&user=a&override=4/day&estimate=1&actual=3", ""); code != 200 || !strings.Contains(body, `"charged":2`) || !strings.Contains(body, `"rule":"api/user"`) {
		t.Errorf("/v1/settle: have %d %s", code, body)
	}
	denied := a.askOverride(t, 4, typev3.RateLimitUnit_DAY, "user=a")
	if !over(denied) || header(denied, headers.Limit) != "4" || header(denied, headers.Rule) != "api/user" || header(denied, headers.Reason) != "global_exhausted" {
		t.Errorf("spent: have %v", denied)
	}
	if own := a.ask(t, 0, "user=a"); over(own) || own.Statuses[0].CurrentLimit.GetRequestsPerUnit() != 100 {
		t.Errorf("the rule's own bucket: have %v", own)
	}
	if s := a.askOverride(t, 9, typev3.RateLimitUnit_MONTH, "nobody=a").Statuses[0]; s.CurrentLimit.GetRequestsPerUnit() != 9 || s.CurrentLimit.GetUnit() != rls.RateLimitResponse_RateLimit_MONTH || s.LimitRemaining != 8 {
		t.Errorf("no rule matches: have %v", s)
	}
	if s := a.askOverride(t, 900, typev3.RateLimitUnit_DAY, "fixed=a").Statuses[0]; s.CurrentLimit.GetRequestsPerUnit() != 8 {
		t.Errorf("a rule that is not to be overridden: have %v", s)
	}
	if zero := a.askOverride(t, 0, typev3.RateLimitUnit_DAY, "user=a"); !over(zero) || header(zero, headers.Reason) != "zero_limit" {
		t.Errorf("a limit of 0: have %v", zero)
	}

	for query, want := range map[string]string{
		"override=4/fortnight": "give one of second, minute", "override=4": "give one of second, minute",
		"override=5e9/day": "whole number from 0 to 4294967295", "override=1/day&override=1/day": "give it once",
	} {
		for _, path := range []string{a.http + "/v1/check?domain=api&user=a&", a.admin + "/v1/explain?domain=api&user=a&"} {
			if code, _, body := a.get(t, path+query); code != http.StatusBadRequest || !strings.Contains(body, want) {
				t.Errorf("%s: have %d %s, want 400 and %q", query, code, body, want)
			}
		}
	}
	if code, body := post("/json", `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"a"}],"limit":{"requestsPerUnit":4}}]}`); code != http.StatusBadRequest || !strings.Contains(body, "descriptors[0].limit") {
		t.Errorf("/json without a unit: have %d %s", code, body)
	}
	if exists, err := server.Do("EXISTS", "quorate:b:{api|user=a##override+86400+4}"); err != nil || exists != "1" {
		t.Errorf("the record: have %q, %v", exists, err)
	}
}

func TestOverridesAreExplained(t *testing.T) {
	c := startCoordinator(t, overrideDoc)
	c.grantOverrides(t, overrideDoc)
	a := startAgent(t, redistest.Run(t).URL(), nil, c.addr)
	a.ready(t)
	a.askOverride(t, 4, typev3.RateLimitUnit_DAY, "user=a")
	for _, tt := range []struct{ query, rule, limits, why string }{
		{"user=a&override=4/day", "api/user", "api|user=a##override+86400+4", "takes the place of the rule's: 4 per day"},
		{"nobody=a&override=4/day", "api#override", "api|nobody=a##override+86400+4", "no rule matches, so the request's own limit counts: 4 per day"},
		{"fixed=a&override=4/day", "api/fixed", "api|fixed=a", "allow_override: false"},
	} {
		_, _, body := a.get(t, a.admin+"/v1/explain?domain=api&"+tt.query)
		var x Explanation
		if err := json.Unmarshal([]byte(body), &x); err != nil {
			t.Fatal(err)
		}
		if x.Rule != tt.rule || len(x.Limits) != 1 || x.Limits[0].Key != tt.limits || !strings.Contains(x.Considered[len(x.Considered)-1], tt.why) {
			t.Errorf("%s: have %s", tt.query, body)
		}
		if tt.rule == "api/user" && (x.Over || x.Limits[0].Now == nil || x.Limits[0].Now.Level != "3" || x.Limits[0].Now.Holding != "lease") {
			t.Errorf("%s: have %s", tt.query, body)
		}
	}
}

// K91: whatever limits requests bring, the series of the metrics are those of the rules,
// and those of one more rule for each domain. They go with the domain.
func TestK91OverridesMakeNoSeries(t *testing.T) {
	c := startCoordinator(t, overrideDoc)
	a := startAgent(t, redistest.Run(t).URL(), func(cfg *Config) { cfg.Headers = headers.Style{} }, c.addr)
	a.ready(t)
	lines := func() int {
		_, _, body := a.get(t, a.admin+"/metrics")
		if strings.Contains(body, "86400") || strings.Contains(body, "u17") {
			t.Error("a value of a request is in the metrics")
		}
		return strings.Count(body, "\n")
	}
	ask := func(from, to int) {
		for i := from; i < to; i++ {
			// What costs more than the limit has is denied at once.
			for _, d := range []string{"user", "nobody"} {
				code, _, body := a.get(t, fmt.Sprintf("%s/v1/check?domain=api&hits=%d&%s=u%d&override=%d/day", a.http, i+10, d, i, i))
				if code != http.StatusTooManyRequests {
					t.Fatalf("have %d %s", code, body)
				}
			}
		}
	}
	ask(1, 2)
	before := lines()
	ask(2, 500)
	if after := lines(); after != before {
		t.Errorf("have %d lines after 998 more limits, %d before", after, before)
	}
	if _, _, body := a.get(t, a.admin+"/metrics"); !strings.Contains(body, `rule="api#override"`) {
		t.Error("what no rule matches is not counted")
	}
	c.edit(config(2, "domain: other\n"))
	a.uplink.Urgent()
	eventually(t, "series are gone", func() bool {
		_, _, body := a.get(t, a.admin+"/metrics")
		return !strings.Contains(body, "api#override")
	})
}

// Limiters ask with an override, each in a line and a bucket of its own.
func TestLimitersWithOverrides(t *testing.T) {
	c := startCoordinator(t, overrideDoc)
	c.grantOverrides(t, overrideDoc)
	a := startAgent(t, redistest.Run(t).URL(), nil, c.addr)
	a.ready(t)
	two, err := ParseOverride("2/day")
	if err != nil {
		t.Fatal(err)
	}
	plain := apiLimiter(t, a.Agent, "user", "a")
	own := plain.Override(two)
	keyed, err := NewKeyed(a.Agent, "api", func(to []Entry, user string) []Entry { return append(to, Entry{Key: "user", Value: user}) })
	if err != nil {
		t.Fatal(err)
	}
	if d, err := own.Allow(t.Context()); err != nil || d.Over || d.Statuses[0].Remaining != 1 {
		t.Errorf("the limiter: have %+v, %v", d, err)
	}
	r, err := keyed.Override(two).Reserve(t.Context(), "a")
	if err != nil || !r.OK() || r.Decision().Statuses[0].Remaining != 0 {
		t.Errorf("the same bucket: have %+v, %v", r.Decision(), err)
	}
	if d, err := r.Settle(t.Context(), 0); err != nil || d.Statuses[0].Remaining != 1 {
		t.Errorf("given back: have %+v, %v", d, err)
	}
	if err := own.Wait(t.Context()); err != nil {
		t.Errorf("the limiter waits: %v", err)
	}
	if d, err := own.AllowN(t.Context(), 0); err != nil || d.Statuses[0].Remaining != 0 || d.Statuses[0].Limit.String() != "2 per day" {
		t.Errorf("a look: have %+v, %v", d, err)
	}
	if d, err := own.AllowN(t.Context(), 1<<33); err != nil || !d.Over || d.Statuses[0].Limit.String() != "2 per day" {
		t.Errorf("a large cost: have %+v, %v", d, err)
	}
	for what, d := range map[string]func() (Decision, error){
		"the limiter without":        func() (Decision, error) { return plain.Allow(t.Context()) },
		"the limiter, taken away":    func() (Decision, error) { return own.Override(Override{}).Allow(t.Context()) },
		"the keyed limiter, without": func() (Decision, error) { return keyed.Allow(t.Context(), "a") },
	} {
		if d, err := d(); err != nil || d.Over || d.Statuses[0].Limit.String() != "100 per day" {
			t.Errorf("%s: have %+v, %v", what, d, err)
		}
	}
	if own.identity == plain.identity || own.Override(Override{}).identity != plain.identity {
		t.Error("waits with and without an override stand in one line")
	}
	if _, err := ParseOverride("2/dya"); err == nil {
		t.Error("a misspelt unit has no error")
	}
}

func apiLimiter(t *testing.T, a *Agent, key, value string) *Limiter {
	t.Helper()
	l, err := a.Limiter("api", Entry{Key: key, Value: value})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// An agent that is alone has nobody to lease an override from.
func TestOverridesNeedACoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := ParseOverride("5/second")
		if err != nil {
			t.Fatal(err)
		}
		d, err := limiter(t, alone(t), "user", "a").Override(o).Allow(t.Context())
		if err != nil || !d.Over || d.Statuses[0].Limit.String() != "5 per second" {
			t.Errorf("have %+v, %v", d, err)
		}
	})
}
