package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
)

const settleDoc = `
domain: api
descriptors:
- {key: user, rate_limit: {unit: minute, requests_per_unit: 100, quota: {standing_share: 1, max_debt: 50}}}
- {key: plain, rate_limit: {unit: minute, requests_per_unit: 100, quota: {standing_share: 1}}}
`

// Each step is one request on the limit that is at the level of the step before.
func TestSettle(t *testing.T) {
	f := newFrontEnd(t, settleDoc)
	for _, tc := range []struct {
		reason, target string
		want           Settled
		remaining      uint32
	}{
		{"less than estimated, of a bucket that nobody used", "/v1/settle?domain=api&user=a&estimate=100&actual=40", Settled{Refunded: 60}, 100},
		{"more than estimated", "/v1/settle?domain=api&user=a&estimate=10&actual=90", Settled{Charged: 80}, 20},
		{"into debt", "/v1/settle?domain=api&user=a&estimate=10&actual=50", Settled{Charged: 40}, 0},
		{"deeper than there is room", "/v1/settle?actual=100&domain=api&estimate=0&user=a", Settled{Charged: 30, Uncharged: 70}, 0},
		{"as estimated", "/v1/settle?domain=api&user=a&estimate=7&actual=7", Settled{}, 0},
		{"less than estimated", "/v1/settle?domain=api&user=a&estimate=80&actual=20", Settled{Refunded: 60}, 10},
		{"two descriptors: the one with the least room", "/v1/settle?domain=api&descriptor=user%3Da&descriptor=plain%3Da&estimate=0&actual=120", Settled{Charged: 60, Uncharged: 60}, 0},
		{"an entry called estimate", "/v1/settle?domain=api&descriptor=estimate%3D1&estimate=0&actual=1", Settled{Charged: 1}, 0},
		{"costs beyond any limit", "/v1/settle?domain=api&user=b&estimate=18446744073709551615&actual=18446744073709551615", Settled{}, 100},
	} {
		r := ask(f.handler, "POST", tc.target, "")
		var have Settled
		if err := json.NewDecoder(r.Body).Decode(&have); err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("%s: have %d, %v", tc.reason, r.StatusCode, err)
			continue
		}
		left := uint32(0)
		if have.Remaining != nil {
			left = *have.Remaining
		}
		if have.Charged != tc.want.Charged || have.Refunded != tc.want.Refunded || have.Uncharged != tc.want.Uncharged || left != tc.remaining {
			t.Errorf("%s: have %+v with %d remaining, want %+v with %d", tc.reason, have, left, tc.want, tc.remaining)
		}
		if r.Header.Get(headers.RetryAfter) != "" {
			t.Errorf("%s: a Retry-After", tc.reason)
		}
	}
	if code, retry := f.check("user=a&hits=0", 2*time.Minute); code != http.StatusTooManyRequests || retry < 30*time.Second {
		t.Errorf("a look in debt: have %d, %v", code, retry)
	}
}

func TestSettleTakesAForm(t *testing.T) {
	const params = "domain=api&user=a&estimate=0&actual=3"
	for _, tc := range []struct {
		reason, query, kind, body string
		want                      int
	}{
		{"in the URL", params, "", "", 200},
		{"in the body", "", "application/x-www-form-urlencoded; charset=utf-8", params + "\n", 200},
		{"in both", params, "application/x-www-form-urlencoded", params, 400},
		{"another type of body", "", "application/json", `{"domain":"api"}`, 400},
		{"no type of body", "", "", params, 400},
		{"a body that is too large", "", "application/x-www-form-urlencoded", params + strings.Repeat("&a=b", 20_000), 400},
	} {
		r := httptest.NewRequest("POST", "/v1/settle?"+tc.query, strings.NewReader(tc.body))
		r.Header.Set("Content-Type", tc.kind)
		w := httptest.NewRecorder()
		newFrontEnd(t, settleDoc).handler.ServeHTTP(w, r)
		if w.Code != tc.want {
			t.Errorf("%s: have %d %s, want %d", tc.reason, w.Code, w.Body, tc.want)
		}
	}
	if r := ask(newFrontEnd(t, settleDoc).handler, "GET", "/v1/settle?"+params, ""); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: have %d", r.StatusCode)
	}
	if r := ask(handler(enforce.Decision{}, enforce.ErrNoConfig), "POST", "/v1/settle?"+params, ""); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("no rules yet: have %d", r.StatusCode)
	}
}

func TestParseSettleSaysWhatIsWrong(t *testing.T) {
	for query, want := range map[string]string{
		"":                                        "domain is missing, ask /v1/settle?domain=DOMAIN&KEY=VALUE",
		"domain=d&estimate=1&actual=1":            "no descriptor, ask /v1/settle?domain=d&KEY=VALUE",
		"domain=d&a=b&estimate=1":                 "actual=N",
		"domain=d&a=b&actual=1":                   "estimate=N",
		"domain=d&a=b&estimate=1&actual=-1":       `"actual=-1": give one whole number`,
		"domain=d&a=b&estimate=1.5&actual=1":      `"estimate=1.5": give one whole number`,
		"domain=d&a=b&estimate=&actual=1":         `"estimate=": give one whole number`,
		"domain=d&a=b&actual=1&actual=1":          "give one whole number",
		"domain=d&a=b&estimate=1&actual=1&hits=1": "hits has no meaning here",
		"domain=d&a=%zz&estimate=1&actual=1":      "value of",
	} {
		if _, err := ParseSettle(query); !errors.Is(err, ErrBadRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q, have %v", query, want, err)
		}
	}
}

func FuzzParseSettle(f *testing.F) {
	f.Add("domain=api&user=42&estimate=10&actual=7")
	f.Add("domain=api&descriptor=a%3Db%26c%3Dd&actual=1&estimate=18446744073709551615")
	f.Fuzz(func(t *testing.T, query string) {
		req, err := ParseSettle(query)
		switch {
		case err != nil && !errors.Is(err, ErrBadRequest):
			t.Errorf("%q: %v is not %v", query, err, ErrBadRequest)
		case err == nil && (!req.Settle || req.Domain == "" || len(req.Descriptors) == 0):
			t.Errorf("%q: have %+v", query, req)
		}
		for i := range req.Descriptors {
			if req.Descriptors[i].Hits == nil || len(req.Descriptors[i].Entries) == 0 {
				t.Errorf("%q: have %+v", query, req)
			}
		}
	})
}
