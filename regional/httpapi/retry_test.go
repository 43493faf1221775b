package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/lease"
	"github.com/quorate/quorate/regional/problem"
)

// frontEnd is the handler over real decisions and the reference store, with a
// clock that the test advances.
type frontEnd struct {
	t       *testing.T
	now     time.Duration
	store   *bucket.Store
	handler http.Handler
}

const frontEndStart = 1_700_000_000 * quota.Second

func newFrontEnd(t *testing.T, doc string) *frontEnd {
	t.Helper()
	f := &frontEnd{t: t, now: time.Hour, store: bucket.NewStore()}
	c := quota.Config{Version: 1, Sources: []quota.Source{{Name: "rules.yaml", Text: doc}}, Shares: quota.Shares{{Region: "eu", Weight: 1}}}
	blob, err := lease.Encode(c, "eu", nil)
	if err != nil {
		t.Fatal(err)
	}
	f.store.Incarnate(f.time(), "one")
	if err := f.store.MarkFirst("one"); err != nil {
		t.Fatal(err)
	}
	if err := f.store.Adopt(f.time(), "one", c.Version, blob); err != nil {
		t.Fatal(err)
	}
	cur, prev := f.store.Config()
	a, err := lease.Adopt("eu", 0, f.store.State(f.time()), cur, prev)
	if err != nil {
		t.Fatal(err)
	}
	e := enforce.New(enforce.Config{Store: f, Wall: f.time})
	e.Adopt(a)
	f.handler = Handler(Config{
		Decide:   func(ctx context.Context, r enforce.Request) (enforce.Decision, error) { return e.Decide(ctx, f.now, r) },
		NotReady: func() []string { return nil },
		Headers:  headers.Full(),
	})
	return f
}

func (f *frontEnd) time() quota.Micros { return frontEndStart + quota.MicrosOf(f.now) }

func (f *frontEnd) Take(_ context.Context, t enforce.Take) (enforce.TakeResult, error) {
	admitted, verdicts := f.store.Take(f.time(), t.Asks)
	return enforce.TakeResult{Now: f.time(), Admitted: admitted, Verdicts: verdicts}, nil
}

func (f *frontEnd) Charge(context.Context, string, []bucket.Charge) error { return nil }

// whole is what a header may hold of a number (K84): digits, no sign, no fraction.
var (
	whole  = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	inList = regexp.MustCompile(`;([a-z])=([^;,]*)`)
)

// check asks once and returns the status and how long the reply says to wait.
// Every number of the reply must be a whole one from 0 (K83, K84), and a time at
// most window.
func (f *frontEnd) check(query string, window time.Duration) (code int, retry time.Duration) {
	f.t.Helper()
	r := ask(f.handler, "GET", "/v1/check?domain=api&"+query, "")
	limit := int64((window + time.Second - 1) / time.Second)
	number := func(name, text string, bounded bool) (n int64) {
		f.t.Helper()
		n, err := strconv.ParseInt(text, 10, 64)
		if !whole.MatchString(text) || err != nil || bounded && n > limit {
			f.t.Errorf("%s: have %q, want a whole number from 0, of a time at most %d", name, text, limit)
		}
		return n
	}
	for _, name := range []string{headers.Limit, headers.Remaining, headers.Reset} {
		number(name, r.Header.Get(name), name == headers.Reset)
	}
	for _, name := range []string{headers.RateLimit, headers.Policy} {
		params := inList.FindAllStringSubmatch(r.Header.Get(name), -1)
		if len(params) == 0 {
			f.t.Errorf("%s: have %q", name, r.Header.Get(name))
		}
		for _, p := range params {
			number(name+" "+p[1], p[2], p[1] == "t" || p[1] == "w")
		}
	}
	after := r.Header.Get(headers.RetryAfter)
	if r.StatusCode != http.StatusTooManyRequests {
		if after != "" || r.Header.Get(headers.XRetry) != "" {
			f.t.Errorf("status %d with Retry-After %q", r.StatusCode, after)
		}
		return r.StatusCode, 0
	}
	n := number(headers.RetryAfter, after, true)
	var p problem.Problem
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		f.t.Fatal(err)
	}
	if n < 1 || r.Header.Get(headers.XRetry) != after || p.RetryAfterS != n {
		f.t.Errorf("Retry-After %q, %s %q, in the body %d: want the same from 1", after, headers.XRetry, r.Header.Get(headers.XRetry), p.RetryAfterS)
	}
	return r.StatusCode, time.Duration(n) * time.Second
}

// K82, K84: what is left is rounded up to whole seconds.
func TestK82RetryAfterIsRoundedUp(t *testing.T) {
	for _, tc := range []struct{ left, want time.Duration }{
		{10 * time.Second, 10 * time.Second}, {1900 * time.Millisecond, 2 * time.Second}, {1001 * time.Millisecond, 2 * time.Second},
		{time.Second, time.Second}, {900 * time.Millisecond, time.Second}, {8370 * time.Microsecond, time.Second}, {time.Microsecond, time.Second},
	} {
		f := newFrontEnd(t, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: second, unit_multiplier: 10, requests_per_unit: 1, quota: {standing_share: 1}}}]")
		if code, _ := f.check("user=a", 10*time.Second); code != http.StatusOK {
			t.Fatal("the first request was denied")
		}
		f.now += 10*time.Second - tc.left
		if code, have := f.check("user=a", 10*time.Second); code != http.StatusTooManyRequests || have != tc.want {
			t.Errorf("%v left: have %d, Retry-After %v, want %v", tc.left, code, have, tc.want)
		}
	}
}

// K82, K83, K84, K87: a client that waits exactly as long as it was told is served, and
// no shorter whole wait would do, whatever the algorithm. Each reply has a reset.
func TestK82WaitingExactlyRetryAfterIsEnough(t *testing.T) {
	const doc = `
domain: api
descriptors:
- {key: user, rate_limit: {unit: minute, requests_per_unit: 7, quota: {standing_share: 1}}}
- {key: fast, rate_limit: {unit: second, requests_per_unit: 3, quota: {standing_share: 1}}}
- {key: slow, rate_limit: {unit: day, requests_per_unit: 11, quota: {standing_share: 1, burst: 5}}}
- {key: leaky, rate_limit: {unit: minute, requests_per_unit: 7, quota: {standing_share: 1, algorithm: leaky_bucket}}}
- {key: fixed, rate_limit: {unit: minute, requests_per_unit: 7, quota: {standing_share: 1, algorithm: fixed_window}}}
- {key: log, rate_limit: {unit: minute, requests_per_unit: 7, quota: {standing_share: 1, algorithm: sliding_window_log}}}
- {key: counter, rate_limit: {unit: minute, requests_per_unit: 7, quota: {standing_share: 1, algorithm: sliding_window_counter}}}
- key: two
  rate_limits:
  - {name: short, unit: second, unit_multiplier: 7, requests_per_unit: 5, quota: {standing_share: 1}}
  - {name: long, unit: hour, requests_per_unit: 60, quota: {standing_share: 1}}
`
	for _, tc := range []struct {
		query  string
		window time.Duration
		costs  int
	}{
		{"user=a", time.Minute, 7}, {"fast=a", time.Second, 3}, {"slow=a", 24 * time.Hour, 5}, {"two=a", time.Hour, 5},
		{"leaky=a", time.Minute, 7}, {"fixed=a", time.Minute, 7}, {"log=a", time.Minute, 7}, {"counter=a", 2 * time.Minute, 7},
		{"descriptor=user%3Db&descriptor=two%3Db", time.Hour, 5},
	} {
		t.Run(tc.query, func(t *testing.T) {
			f := newFrontEnd(t, doc)
			denied := 0
			for i := range 300 {
				query := fmt.Sprintf("%s&hits=%d", tc.query, i%tc.costs+1)
				code, retry := f.check(query, tc.window)
				if code == http.StatusTooManyRequests {
					denied++
					f.now += retry - time.Second
					if code, _ := f.check(query, tc.window); code != http.StatusTooManyRequests {
						t.Fatalf("request %d: told to wait %v, served a second earlier", i, retry)
					}
					f.now += time.Second
					if code, again := f.check(query, tc.window); code != http.StatusOK {
						t.Fatalf("request %d: waited %v as told, have %d, again %v", i, retry, code, again)
					}
				}
				f.now += time.Duration(i%11) * tc.window / 997
			}
			if denied < 50 {
				t.Errorf("only %d of 300 were denied", denied)
			}
		})
	}
}

// K83: what can never be served says so, and does not invite a loop.
func TestK83NeverSatisfiableIsToldTheWholeWindow(t *testing.T) {
	f := newFrontEnd(t, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5, quota: {standing_share: 1}}}, {key: none, rate_limit: {unit: minute, requests_per_unit: 0}}]")
	for _, query := range []string{"user=a&hits=6", "user=a&hits=18446744073709551615", "none=a"} {
		if code, retry := f.check(query, time.Minute); code != http.StatusTooManyRequests || retry != time.Minute {
			t.Errorf("%s: have %d, Retry-After %v", query, code, retry)
		}
	}
}
