package httplimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/caller"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/httpapi"
)

// served is what is behind the middleware.
var served = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })

// deciding is a Decide that notes what it is asked.
type deciding struct {
	answer enforce.Decision
	err    error
	asked  []enforce.Request
}

func (d *deciding) decide(_ context.Context, r enforce.Request) (enforce.Decision, error) {
	d.asked = append(d.asked, r)
	return d.answer, d.err
}

// entries renders the last request.
func (d *deciding) entries() string {
	var b strings.Builder
	for _, one := range d.asked[len(d.asked)-1].Descriptors {
		for _, e := range one.Entries {
			b.WriteString(e.Key + "=" + e.Value + ";")
		}
	}
	return b.String()
}

func middleware(t *testing.T, cfg Config) http.Handler {
	t.Helper()
	if cfg.Domain == "" {
		cfg.Domain = "api"
	}
	if cfg.OnFailure == 0 {
		cfg.OnFailure = caller.Deny
	}
	if cfg.Descriptors == nil {
		cfg.Descriptors = [][]Key{{Value("all", "1")}}
	}
	mw, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return mw(served)
}

func get(h http.Handler, edit func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/a/b", nil)
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// status is one limit of n a minute.
func status(name string, n uint32, s enforce.Status) enforce.Status {
	s.Rule = &rules.Rule{ID: "api/" + name}
	s.Limit = &rules.Limit{
		Limit: quota.Limit{Capacity: quota.Capacity{
			Rate: quota.Rate{Tokens: quota.Whole(uint64(n)), Per: 60 * quota.Second}, Burst: quota.Whole(uint64(n)),
		}},
		RequestsPerUnit: n,
	}
	return s
}

// An agent's /v1/check and the middleware answer alike.
func TestSameAnswerAsTheGateway(t *testing.T) {
	for why, d := range map[string]enforce.Decision{
		"admitted": {Statuses: []enforce.Status{status("user", 10, enforce.Status{Remaining: 7, Reset: 1500 * time.Millisecond, Reason: enforce.WithinLease})}},
		"denied": {Over: true, Retry: 900 * time.Millisecond, Statuses: []enforce.Status{
			status("user", 10, enforce.Status{Over: true, Retry: 900 * time.Millisecond, Reset: time.Minute, Reason: enforce.LeaseEmpty, Source: enforce.FromLease}),
		}},
		"never": {Over: true, Statuses: []enforce.Status{
			status("user", 10, enforce.Status{Over: true, Never: true, Reset: time.Minute, Reason: enforce.BurstExceeded}),
		}},
		"no rule": {Statuses: []enforce.Status{{Reason: enforce.NoRule}}},
	} {
		by := &deciding{answer: d}
		gateway := httptest.NewRecorder()
		httpapi.Handler(httpapi.Config{Decide: by.decide, Headers: headers.Full()}).
			ServeHTTP(gateway, httptest.NewRequest(http.MethodGet, "/v1/check?domain=api&all=1", nil))
		w := get(middleware(t, Config{Decide: by.decide}), nil)
		if w.Code != gateway.Code || d.Over && w.Body.String() != gateway.Body.String() {
			t.Errorf("%s: want %d %s, have %d %s", why, gateway.Code, gateway.Body, w.Code, w.Body)
		}
		for _, name := range []string{
			headers.Limit, headers.Remaining, headers.Reset, headers.XRetry, headers.Rule, headers.Reason, headers.RetryAfter,
			headers.RateLimit, headers.Policy, headers.Explain,
		} {
			if want, have := gateway.Header().Values(name), w.Header().Values(name); strings.Join(have, "|") != strings.Join(want, "|") {
				t.Errorf("%s: %s: want %q, have %q", why, name, want, have)
			}
		}
		if !d.Over && w.Body.String() != "served" {
			t.Errorf("%s: have %s", why, w.Body)
		}
	}
}

// K85: when two rules deny there is one Retry-After, the longer, and only on a 429.
func TestK85OneRetryAfter(t *testing.T) {
	over := func(name string, retry time.Duration) enforce.Status {
		return status(name, 1, enforce.Status{Over: true, Retry: retry, Reset: time.Minute, Reason: enforce.LeaseEmpty})
	}
	by := &deciding{answer: enforce.Decision{
		Over: true, Retry: 50 * time.Second, Statuses: []enforce.Status{over("a", 10*time.Second), over("b", 50*time.Second)},
	}}
	h := middleware(t, Config{Decide: by.decide})
	if have := get(h, nil).Header().Values(headers.RetryAfter); len(have) != 1 || have[0] != "50" {
		t.Errorf("denied: want one Retry-After of 50, have %q", have)
	}
	by.answer = enforce.Decision{Statuses: []enforce.Status{status("a", 1, enforce.Status{})}}
	if have := get(h, nil).Header().Values(headers.RetryAfter); len(have) != 0 {
		t.Errorf("admitted: have Retry-After %q", have)
	}
}

func TestExplainOnlyWhereItMay(t *testing.T) {
	by := &deciding{answer: enforce.Decision{Statuses: []enforce.Status{status("a", 1, enforce.Status{Reason: enforce.WithinLease})}}}
	ask := func(r *http.Request) { r.Header.Set(headers.Explain, "1") }
	for _, c := range []struct {
		may  bool
		edit func(*http.Request)
		want bool
	}{{false, ask, false}, {true, ask, true}, {true, nil, false}} {
		w := get(middleware(t, Config{Decide: by.decide, Explain: c.may}), c.edit)
		if have := w.Header().Get(headers.Explain) != ""; have != c.want {
			t.Errorf("%+v: have %v", c, w.Header())
		}
	}
}

// K57: what happens when nothing was decided is what the application has chosen.
func TestK57NothingDecided(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithTimeout(t.Context(), -1)
	defer cancelLate()
	for why, c := range map[string]struct {
		ctx    context.Context
		policy caller.OnFailure
		want   int
	}{
		"deny":               {t.Context(), caller.Deny, 503},
		"admit":              {t.Context(), caller.Admit, 200},
		"the client is gone": {gone, caller.Admit, 499},
		"it is too late":     {late, caller.Admit, 504},
	} {
		by := &deciding{err: enforce.ErrNoConfig}
		w := get(middleware(t, Config{Decide: by.decide, OnFailure: c.policy}), func(r *http.Request) { *r = *r.WithContext(c.ctx) })
		if w.Code != c.want || (c.want == 503) != (w.Header().Get(headers.RetryAfter) == "1") {
			t.Errorf("%s: want %d, have %d %v", why, c.want, w.Code, w.Header())
		}
	}
}

func TestNewNamesEveryProblem(t *testing.T) {
	if _, err := New(Config{}); !errors.Is(err, caller.ErrConfig) {
		t.Errorf("have %v", err)
	}
}
