package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/problem"
)

var (
	rule   = &rules.Rule{ID: "api/user", Name: "per-user"}
	minute = &rules.Limit{
		Limit: quota.Limit{Capacity: quota.Capacity{
			Rate: quota.Rate{Tokens: quota.Whole(100), Per: 60 * quota.Second}, Burst: quota.Whole(100),
		}},
		RequestsPerUnit: 100,
	}
	admitted = enforce.Decision{Statuses: []enforce.Status{
		{Rule: rule, Limit: minute, Remaining: 7, Reset: time.Second, Reason: enforce.WithinLease},
	}}
	deniedOnce = enforce.Decision{Over: true, Retry: 1900 * time.Millisecond, Statuses: []enforce.Status{
		{Over: true, Rule: rule, Limit: minute, Reset: time.Minute, Retry: 1900 * time.Millisecond, Reason: enforce.LeaseEmpty, Source: enforce.FromLease},
	}}
)

// handler answers every decision with d and err.
func handler(d enforce.Decision, err error) http.Handler {
	return Handler(Config{
		Decide: func(context.Context, enforce.Request) (enforce.Decision, error) { return d, err },
		JSON: func(_ context.Context, body []byte) ([]byte, bool, error) {
			if !json.Valid(body) {
				return nil, false, fmt.Errorf("%w: not JSON", ErrBadRequest)
			}
			return []byte(`{"overallCode":"OK"}`), d.Over, err
		},
		NotReady: func() []string { return nil },
		Headers:  headers.Full(),
	})
}

func ask(h http.Handler, method, target, body string) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w.Result()
}

func TestCheckAnswersInStatusAndHeaders(t *testing.T) {
	r := ask(handler(admitted, nil), "GET", "/v1/check?domain=api&user=42", "")
	if r.StatusCode != 200 || r.Header.Get(headers.Remaining) != "7" || r.Header.Get(headers.RetryAfter) != "" {
		t.Fatalf("admitted: have %d %v", r.StatusCode, r.Header)
	}
	var a Allowed
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil || !a.Allowed || *a.Remaining != 7 || a.Reason != enforce.WithinLease {
		t.Fatalf("admitted: have %+v, %v", a, err)
	}

	r = ask(handler(deniedOnce, nil), "GET", "/v1/check?domain=api&user=42", "")
	if r.StatusCode != 429 {
		t.Fatalf("denied: want 429, have %d", r.StatusCode)
	}
	for name, want := range map[string]string{
		headers.RetryAfter: "2", headers.Limit: "100", headers.Remaining: "0", headers.Reset: "60", headers.XRetry: "2",
		headers.RateLimit: `"per-user";r=0;t=60`, headers.Policy: `"per-user";q=100;w=60`,
		headers.Reason: "lease_empty", headers.Rule: "api/user", "Content-Type": "application/problem+json",
	} {
		if have := r.Header.Get(name); have != want {
			t.Errorf("denied: %s: want %q, have %q", name, want, have)
		}
	}
	var p problem.Problem
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	if want := (problem.Problem{
		Type: problem.QuotaExceeded, Title: p.Title, Status: 429, Detail: p.Detail, ViolatedPolicies: []string{"per-user"},
		Rule: "api/user", Reason: enforce.LeaseEmpty, Source: enforce.FromLease, Scope: "region", RetryAfterS: 2,
	}); !reflect.DeepEqual(p, want) || p.Detail == "" || p.Title == "" {
		t.Fatalf("want %+v, have %+v", want, p)
	}
}

func TestCheckTellsTheDelay(t *testing.T) {
	delayed := admitted
	delayed.Delay = 1500 * time.Microsecond
	for why, c := range map[string]struct {
		d      enforce.Decision
		header string
		want   int64
	}{
		"rounded up":        {delayed, "2", 2},
		"nothing to wait":   {admitted, "", 0},
		"and not if denied": {deniedOnce, "", 0},
	} {
		r := ask(handler(c.d, nil), "GET", "/v1/check?domain=api&user=42", "")
		var a Allowed
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil || a.DelayMS != c.want || r.Header.Get(headers.Delay) != c.header {
			t.Errorf("%s: have %+v, %v, %v", why, a, err, r.Header)
		}
	}
}

func TestCheckAnswersAnyMethod(t *testing.T) {
	for _, m := range []string{"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PROPFIND"} {
		if r := ask(handler(deniedOnce, nil), m, "/v1/check?domain=api&user=42", "ignored"); r.StatusCode != 429 {
			t.Errorf("%s: want 429, have %d", m, r.StatusCode)
		}
	}
}

func TestStatusOfErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"no rules yet is ours":     {enforce.ErrNoConfig, 503},
		"empty domain is theirs":   {enforce.ErrEmptyDomain, 400},
		"no descriptors is theirs": {fmt.Errorf("decide: %w", enforce.ErrNoDescriptors), 400},
		"S5: our failure is ours":  {errors.New("boom"), 500},
		"client has gone":          {context.Canceled, 499},
		"deadline":                 {context.DeadlineExceeded, 504},
	} {
		for _, target := range []string{"/v1/check?domain=api&user=42", "/json"} {
			method := "GET"
			if target == "/json" {
				method = "POST"
			}
			r := ask(handler(enforce.Decision{}, c.err), method, target, "{}")
			if r.StatusCode != c.want || r.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s, %s: want %d, have %d %s", name, target, c.want, r.StatusCode, r.Header.Get("Content-Type"))
			}
		}
	}
}

func TestJSON(t *testing.T) {
	if r := ask(handler(admitted, nil), "POST", "/json", "{}"); r.StatusCode != 200 {
		t.Errorf("admitted: want 200, have %d", r.StatusCode)
	}
	if r := ask(handler(deniedOnce, nil), "POST", "/json", "{}"); r.StatusCode != 429 {
		t.Errorf("denied: want 429, have %d", r.StatusCode)
	}
	if r := ask(handler(admitted, nil), "POST", "/json", "{"); r.StatusCode != 400 {
		t.Errorf("bad body: want 400, have %d", r.StatusCode)
	}
	if r := ask(handler(admitted, nil), "GET", "/json", ""); r.StatusCode != 405 {
		t.Errorf("GET: want 405, have %d", r.StatusCode)
	}
	if r := ask(handler(admitted, nil), "POST", "/json", strings.Repeat(" ", 1<<20+1)); r.StatusCode != 413 {
		t.Errorf("large body: want 413, have %d", r.StatusCode)
	}
}

func TestParseCheck(t *testing.T) {
	zero, three := uint64(0), uint64(3)
	own, err := rules.ParseOverride("10/minute")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		query string
		want  enforce.Request
	}{
		"pairs keep their order": {"b=2&domain=api&a=1&b=3", enforce.Request{Domain: "api", Descriptors: []enforce.Descriptor{
			{Entries: []rules.Entry{{Key: "b", Value: "2"}, {Key: "a", Value: "1"}, {Key: "b", Value: "3"}}}}}},
		"encoded text": {"domain=api&user=a%26b+c", enforce.Request{Domain: "api", Descriptors: []enforce.Descriptor{
			{Entries: []rules.Entry{{Key: "user", Value: "a&b c"}}}}}},
		"hits may be 0": {"domain=api&user=1&hits=0", enforce.Request{Domain: "api", Descriptors: []enforce.Descriptor{
			{Entries: []rules.Entry{{Key: "user", Value: "1"}}, Hits: &zero}}}},
		"several descriptors, reserved names inside": {"domain=api&hits=3&user=1&descriptor=domain%3Dx%26ip%3D1%252B1", enforce.Request{
			Domain: "api", Descriptors: []enforce.Descriptor{
				{Entries: []rules.Entry{{Key: "user", Value: "1"}}, Hits: &three},
				{Entries: []rules.Entry{{Key: "domain", Value: "x"}, {Key: "ip", Value: "1+1"}}, Hits: &three},
			}}},
		"an override for each descriptor": {"domain=api&user=1&override=10%2Fminute&descriptor=override%3D1", enforce.Request{
			Domain: "api", Descriptors: []enforce.Descriptor{
				{Entries: []rules.Entry{{Key: "user", Value: "1"}}, Override: own},
				{Entries: []rules.Entry{{Key: "override", Value: "1"}}, Override: own},
			}}},
		"an override as people type it": {"domain=api&user=1&override=10/minute", enforce.Request{
			Domain: "api", Descriptors: []enforce.Descriptor{{Entries: []rules.Entry{{Key: "user", Value: "1"}}, Override: own}}}},
		"a key without value": {"domain=api&user", enforce.Request{Domain: "api", Descriptors: []enforce.Descriptor{
			{Entries: []rules.Entry{{Key: "user"}}}}}},
	} {
		have, err := ParseCheck(c.query)
		if err != nil || !reflect.DeepEqual(have, c.want) {
			t.Errorf("%s: want %+v, have %+v, %v", name, c.want, have, err)
		}
	}
	for name, query := range map[string]string{
		"no domain":             "user=1",
		"two domains":           "domain=a&domain=b&user=1",
		"no descriptor":         "domain=api",
		"empty descriptor":      "domain=api&descriptor=",
		"bad escape":            "domain=api&user=%zz",
		"not UTF-8":             "domain=api&user=%ff",
		"no name":               "domain=api&=1",
		"hits not a number":     "domain=api&user=1&hits=6O",
		"hits negative":         "domain=api&user=1&hits=-1",
		"hits fraction":         "domain=api&user=1&hits=1.5",
		"hits too large":        "domain=api&user=1&hits=18446744073709551616",
		"hits twice":            "domain=api&user=1&hits=1&hits=2",
		"override of no unit":   "domain=api&user=1&override=10",
		"override unknown unit": "domain=api&user=1&override=10/fortnight",
		"override too large":    "domain=api&user=1&override=4294967296/second",
		"override negative":     "domain=api&user=1&override=-1/second",
		"override fraction":     "domain=api&user=1&override=1.5/second",
		"override twice":        "domain=api&user=1&override=1/second&override=1/second",
		"too many entries":      "domain=api&" + strings.Repeat("a=1&", 65),
	} {
		if _, err := ParseCheck(query); !errors.Is(err, ErrBadRequest) {
			t.Errorf("%s: want ErrBadRequest, have %v", name, err)
		}
	}
}

func FuzzParseCheck(f *testing.F) {
	f.Add("domain=api&user=1&hits=0&descriptor=a%3Db")
	f.Add("domain=api&user=1&override=10%2Fminute")
	f.Fuzz(func(t *testing.T, query string) {
		r, err := ParseCheck(query)
		if err == nil && (r.Domain == "" || len(r.Descriptors) == 0) {
			t.Fatalf("accepted %q as %+v", query, r)
		}
	})
}

func TestReadiness(t *testing.T) {
	missing := []string{"no rules adopted yet"}
	h := Handler(Config{NotReady: func() []string { return missing }})
	if r := ask(h, "GET", "/readyz", ""); r.StatusCode != 503 {
		t.Errorf("want 503, have %d", r.StatusCode)
	}
	if r := ask(h, "GET", "/healthz", ""); r.StatusCode != 200 {
		t.Errorf("alive though not ready: want 200, have %d", r.StatusCode)
	}
	missing = nil
	if r := ask(h, "GET", "/readyz", ""); r.StatusCode != 200 {
		t.Errorf("want 200, have %d", r.StatusCode)
	}
}

func TestK95AdminAnswersBeforeTheFirstConfiguration(t *testing.T) {
	loaded := false
	h := Admin(AdminConfig{
		Metrics:  http.NotFoundHandler(),
		NotReady: func() []string { return nil },
		Rules:    func() (string, bool) { return "domain: api\n", loaded },
		Explain: func(_ context.Context, domain string, d enforce.Descriptor) (any, error) {
			if !loaded {
				return nil, enforce.ErrNoConfig
			}
			return map[string]string{"domain": domain, "key": d.Entries[0].Key}, nil
		},
	})
	for _, c := range []struct {
		target      string
		before, now int
	}{
		{"/rlconfig", 503, 200}, {"/v1/explain?domain=api&user=1", 503, 200}, {"/v1/explain?user=1", 400, 400},
		{"/v1/explain?domain=api&descriptor=a%3D1&descriptor=b%3D1", 400, 400},
		{"/livez", 200, 200}, {"/readyz", 200, 200}, {"/debug/pprof/", 200, 200}, {"/", 200, 200}, {"/nothing", 404, 404},
	} {
		loaded = false
		if r := ask(h, "GET", c.target, ""); r.StatusCode != c.before {
			t.Errorf("%s before: want %d, have %d", c.target, c.before, r.StatusCode)
		}
		loaded = true
		if r := ask(h, "GET", c.target, ""); r.StatusCode != c.now {
			t.Errorf("%s after: want %d, have %d", c.target, c.now, r.StatusCode)
		}
	}
}

// The request's own context reaches the decision: a client that has gone ends it.
func TestDecisionRunsUnderTheRequestsContext(t *testing.T) {
	h := Handler(Config{
		Decide: func(ctx context.Context, _ enforce.Request) (enforce.Decision, error) {
			<-ctx.Done()
			return enforce.Decision{}, ctx.Err()
		},
		NotReady: func() []string { return nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/v1/check?domain=api&user=1", nil))
	if w.Code != 499 {
		t.Fatalf("want 499, have %d", w.Code)
	}
}

func TestServerRefusesHugeHeaders(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.Config = NewServer(handler(admitted, nil), slog.New(slog.NewTextHandler(io.Discard, nil)))
	s.Start()
	defer s.Close()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/v1/check?domain=api&user=1", bytes.NewReader(nil))
	req.Header.Set("X-Large", strings.Repeat("a", 80<<10))
	r, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatalf("want 431, have %d", r.StatusCode)
	}
}

func TestExplanationOnRequest(t *testing.T) {
	h := handler(deniedOnce, nil)
	for value, want := range map[string]string{
		"": "", "0": "",
		"1": `"api/user";over;reason=lease_empty;source=lease;scope=region;limit="per-user";r=0;t=60;retry=2`,
	} {
		r := httptest.NewRequest("GET", "/v1/check?domain=api&user=42", nil)
		r.Header.Set(headers.Explain, value)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if have := w.Header().Get(headers.Explain); have != want {
			t.Errorf("%s: %q: want %q, have %q", headers.Explain, value, want, have)
		}
	}
}
