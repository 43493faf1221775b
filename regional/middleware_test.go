package regional

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/regional/caller"
	"github.com/quorate/quorate/regional/grpclimit"
	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/httplimit"
	"github.com/quorate/quorate/regional/memory"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// overHTTP returns a request through the middleware, as its status and header.
func overHTTP(t *testing.T, a *Agent, policy caller.OnFailure, keys ...httplimit.Key) func(edit func(*http.Request)) (int, http.Header) {
	t.Helper()
	mw, err := httplimit.New(httplimit.Config{
		Decide: a.Decide, Domain: "api", Descriptors: [][]httplimit.Key{keys}, OnFailure: policy,
	})
	if err != nil {
		t.Fatal(err)
	}
	h := mw(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return func(edit func(*http.Request)) (int, http.Header) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if edit != nil {
			edit(r)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Header()
	}
}

// overGRPC returns a call through the interceptor, as its code.
func overGRPC(t *testing.T, a *Agent, policy caller.OnFailure, keys ...grpclimit.Key) func(ctx context.Context) codes.Code {
	t.Helper()
	limit, err := grpclimit.New(grpclimit.Config{
		Decide: a.Decide, Domain: "api", Descriptors: [][]grpclimit.Key{keys}, OnFailure: policy,
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) codes.Code {
		err := limit.Stream(nil, &stream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: "/shop.Cart/Add"}, func(any, grpc.ServerStream) error { return nil })
		return status.Code(err)
	}
}

// stream is the server's side of a stream on which nothing is sent.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *stream) Context() context.Context    { return s.ctx }
func (s *stream) SetHeader(metadata.MD) error { return nil }

// K57: without Redis each rule's policy answers in the middleware, too, and without
// rules what the application has chosen.
func TestK57MiddlewareFollowsThePolicies(t *testing.T) {
	server := redistest.Run(t)
	c := startCoordinator(t, rulesDoc)
	a := startAgent(t, server.URL(), nil, c.addr)
	a.ready(t)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	empty, err := Start(Config{Region: "here", Alone: true, Store: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := empty.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, tt := range []struct {
		why    string
		agent  *Agent
		policy caller.OnFailure
		key    string
		http   int
		grpc   codes.Code
	}{
		{"no Redis, on_store_failure: deny", a.Agent, caller.Admit, "closed", 429, codes.ResourceExhausted},
		{"no Redis, on_store_failure: allow", a.Agent, caller.Deny, "open", 200, codes.OK},
		{"no rules, Deny", empty, caller.Deny, "open", 503, codes.Unavailable},
		{"no rules, Admit", empty, caller.Admit, "closed", 200, codes.OK},
	} {
		if code, _ := overHTTP(t, tt.agent, tt.policy, httplimit.Value(tt.key, "1"))(nil); code != tt.http {
			t.Errorf("%s: want %d, have %d", tt.why, tt.http, code)
		}
		if code := overGRPC(t, tt.agent, tt.policy, grpclimit.Value(tt.key, "1"))(t.Context()); code != tt.grpc {
			t.Errorf("%s: want %v, have %v", tt.why, tt.grpc, code)
		}
	}
}

// inMemory is an agent that serves a document alone.
func inMemory(t *testing.T, doc string) *Agent {
	t.Helper()
	store, err := memory.WithRules("here", doc)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), Config{Region: "here", Alone: true, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func client(t *testing.T, trusted ...string) httplimit.Key {
	t.Helper()
	from, err := caller.NewAddresses(caller.AddressConfig{Trusted: trusted})
	if err != nil {
		t.Fatal(err)
	}
	return httplimit.ClientIP("ip", from, caller.Refuse)
}

// fiveDoc admits five requests of an address and of a key.
const fiveDoc = `
domain: api
descriptors:
- {key: ip, rate_limit: {unit: day, requests_per_unit: 5, quota: {standing_share: 1}}}
- {key: key, rate_limit: {unit: day, requests_per_unit: 5, quota: {standing_share: 1}}}
`

// admitted returns how many of 20 requests pass, each edited by its number.
func admitted(ask func(func(*http.Request)) (int, http.Header), edit func(r *http.Request, i int)) (n int) {
	for i := range 20 {
		if code, _ := ask(func(r *http.Request) { edit(r, i) }); code == http.StatusOK {
			n++
		}
	}
	return n
}

// K88: a client that writes another X-Forwarded-For into each request stays one
// client, unless a trusted proxy vouches for what it says.
func TestK88RotatingForwardedFor(t *testing.T) {
	for why, c := range map[string]struct {
		trusted []string
		behind  string // what the proxy adds to what the client writes
		want    int
	}{
		"nobody is trusted":        {nil, "", 5},
		"another proxy is trusted": {[]string{"10.0.0.0/8"}, "", 5},
		"it comes through a proxy": {[]string{"192.0.2.0/24"}, ", 203.0.113.7", 5},
		"a proxy says it":          {[]string{"192.0.2.0/24"}, "", 20},
	} {
		ask := overHTTP(t, inMemory(t, fiveDoc), caller.Deny, client(t, c.trusted...))
		have := admitted(ask, func(r *http.Request, i int) {
			r.RemoteAddr = "192.0.2.1:1234"
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d%s", i, c.behind))
		})
		if have != c.want {
			t.Errorf("%s: want %d admitted, have %d", why, c.want, have)
		}
	}
}

// K89: twenty addresses of one IPv6 network are one client, those of twenty networks
// are not; IPv4 mapped into IPv6 is IPv4.
func TestK89RotatingIPv6(t *testing.T) {
	for why, c := range map[string]struct {
		peer func(i int) string
		want int
	}{
		"one /64":     {func(i int) string { return fmt.Sprintf("[2001:db8:0:1:%x::1]:1", i) }, 5},
		"twenty /64":  {func(i int) string { return fmt.Sprintf("[2001:db8:0:%x::1]:1", i) }, 20},
		"zones":       {func(i int) string { return fmt.Sprintf("[fe80::1%%eth%d]:1", i) }, 5},
		"mapped IPv4": {func(i int) string { return []string{"192.0.2.1:1", "[::ffff:192.0.2.1]:1"}[i%2] }, 5},
	} {
		ask := overHTTP(t, inMemory(t, fiveDoc), caller.Deny, client(t))
		if have := admitted(ask, func(r *http.Request, i int) { r.RemoteAddr = c.peer(i) }); have != c.want {
			t.Errorf("%s: want %d admitted, have %d", why, c.want, have)
		}
	}
}

// K82: who waits as long as Retry-After says is served.
func TestK82RetryAfterOfTheMiddlewareIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := overHTTP(t, inMemory(t, strings.Replace(fiveDoc, "unit: day", "unit: second, unit_multiplier: 7", 1)), caller.Deny, client(t))
		for range 6 {
			_, _ = ask(nil)
		}
		code, header := ask(nil)
		wait, err := strconv.Atoi(header.Get(headers.RetryAfter))
		if code != 429 || err != nil || wait < 1 || wait > 7 {
			t.Fatalf("have %d, %v", code, header)
		}
		time.Sleep(time.Duration(wait) * time.Second)
		if code, header := ask(nil); code != 200 {
			t.Errorf("after %d s: have %d, %v", wait, code, header)
		}
	})
}

// K97: a secret is in no key of Redis, no log, no metric and no reply.
func TestK97SecretsStayInTheProcess(t *testing.T) {
	const secret = "hunter2-hunter2-hunter2"
	server := redistest.Run(t)
	c := startCoordinator(t, fiveDoc)
	a := startAgent(t, server.URL(), nil, c.addr)
	a.ready(t)
	asHTTP := map[string]func(func(*http.Request)) (int, http.Header){
		"X-Api-Key":     overHTTP(t, a.Agent, caller.Deny, httplimit.APIKey("key", "X-API-Key", caller.Refuse)),
		"Authorization": overHTTP(t, a.Agent, caller.Deny, httplimit.Bearer("key", caller.Refuse)),
		// No rule matches: the log warns of it.
		"X-Other": overHTTP(t, a.Agent, caller.Deny, httplimit.APIKey("unknown", "X-Other", caller.Refuse)),
	}
	var seen strings.Builder
	for header, ask := range asHTTP {
		value := secret
		if header == "Authorization" {
			value = "Bearer " + secret
		}
		for range 4 { // three of the first two are admitted, and some denied
			code, h := ask(func(r *http.Request) { r.Header.Set(header, value) })
			fmt.Fprintln(&seen, code, h)
		}
	}
	asGRPC := overGRPC(t, a.Agent, caller.Deny, grpclimit.Bearer("key", caller.Refuse))
	if have := asGRPC(metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+secret))); have != codes.ResourceExhausted {
		t.Errorf("the same token over gRPC has another key: %v", have)
	}
	keys, err := server.Do("KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(keys, caller.Digest(secret)) {
		t.Errorf("the digest is in none of the keys\n%s", keys)
	}
	_, _, metrics := a.get(t, a.admin+"/metrics")
	for where, text := range map[string]string{"keys": keys, "log": a.log.String(), "metrics": metrics, "replies": seen.String()} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("the secret is in the %s:\n%s", where, text)
		}
	}
	if !strings.Contains(a.log.String(), "unknown") {
		t.Error("the log has nothing of the key without a rule, so it was not tried")
	}
	for _, r := range c.requests() {
		for _, u := range r.Usage {
			if strings.Contains(string(u.Key), "hunter2") {
				t.Errorf("the secret was reported to the coordinator: %s", u.Key)
			}
		}
	}
}
