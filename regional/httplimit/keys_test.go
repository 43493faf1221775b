package httplimit

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quorate/quorate/regional/caller"
)

func addresses(t *testing.T, trusted ...string) *caller.Addresses {
	t.Helper()
	a, err := caller.NewAddresses(caller.AddressConfig{Trusted: trusted})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func with(header string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(header)] = values }
}

func from(peer string, forwarded ...string) func(*http.Request) {
	return func(r *http.Request) {
		r.RemoteAddr = peer
		with("X-Forwarded-For", forwarded...)(r)
	}
}

// K90: a value that is missing, empty or ambiguous is counted as somebody has chosen,
// or the request is refused; it never passes in silence.
func TestK90Keys(t *testing.T) {
	behind := addresses(t, "10.0.0.0/8")
	for why, c := range map[string]struct {
		key  Key
		edit func(*http.Request)
		code int
		want string // what is asked, empty when nothing is
	}{
		"a header":                   {Header("k", "X-Tenant", caller.Refuse), with("X-Tenant", "acme"), 200, "k=acme;"},
		"no header: refuse":          {Header("k", "X-Tenant", caller.Refuse), nil, 400, ""},
		"no header: skip":            {Header("k", "X-Tenant", caller.Skip), nil, 200, ""},
		"no header: share":           {Header("k", "X-Tenant", caller.Share), nil, 200, "k=;"},
		"an empty header is none":    {Header("k", "X-Tenant", caller.Refuse), with("X-Tenant", ""), 400, ""},
		"two headers":                {Header("k", "X-Tenant", caller.Skip), with("X-Tenant", "a", "b"), 400, ""},
		"a key":                      {APIKey("k", "X-Api-Key", caller.Refuse), with("X-API-Key", "secret"), 200, "k=2bb80d537b1da3e38bd30361aa855686;"},
		"no key: share":              {APIKey("k", "X-Api-Key", caller.Share), nil, 200, "k=;"},
		"two keys":                   {APIKey("k", "X-Api-Key", caller.Share), with("X-API-Key", "secret", "other"), 400, ""},
		"a token":                    {Bearer("k", caller.Refuse), with("Authorization", "Bearer secret"), 200, "k=2bb80d537b1da3e38bd30361aa855686;"},
		"its scheme in another case": {Bearer("k", caller.Refuse), with("Authorization", "bEARER  secret"), 200, "k=2bb80d537b1da3e38bd30361aa855686;"},
		"another scheme":             {Bearer("k", caller.Refuse), with("Authorization", "Basic secret"), 400, ""},
		"an address":                 {ClientIP("k", behind, caller.Refuse), from("203.0.113.7:1"), 200, "k=203.0.113.7;"},
		"an address behind a proxy":  {ClientIP("k", behind, caller.Refuse), from("10.0.0.1:1", "1.1.1.1, 203.0.113.7"), 200, "k=203.0.113.7;"},
		"an IPv6 address":            {ClientIP("k", behind, caller.Refuse), from("[2001:db8::1]:1"), 200, "k=2001:db8::/64;"},
		"a socket: share":            {ClientIP("k", behind, caller.Share), from("@"), 200, "k=;"},
		"a socket: refuse":           {ClientIP("k", behind, caller.Refuse), from("@"), 400, ""},
		"a proxy that says nonsense": {ClientIP("k", behind, caller.Skip), from("10.0.0.1:1", "unknown"), 400, ""},
		"a method":                   {Method("k"), nil, 200, "k=GET;"},
		"a path":                     {Path("k"), func(r *http.Request) { r.URL.Path = "//a/./b/../b/" }, 200, "k=/a/b;"},
		"no path":                    {Path("k"), func(r *http.Request) { r.URL.Path = "" }, 200, "k=/;"},
		"no pattern":                 {Pattern("k", caller.Refuse), nil, 400, ""},
		"a pattern":                  {Pattern("k", caller.Refuse), func(r *http.Request) { r.Pattern = "GET /a/{id}" }, 200, "k=GET /a/{id};"},
		"the same for all":           {Value("k", "v"), nil, 200, "k=v;"},
	} {
		by := new(deciding)
		w := get(middleware(t, Config{Decide: by.decide, Descriptors: [][]Key{{c.key}}}), c.edit)
		have := ""
		if len(by.asked) > 0 {
			have = by.entries()
		}
		if w.Code != c.code || have != c.want {
			t.Errorf("%s: want %d %q, have %d %q %s", why, c.code, c.want, w.Code, have, w.Body)
		}
		if w.Code == 400 && (!strings.Contains(w.Body.String(), `rate limit key \"k\"`) || strings.Contains(w.Body.String(), "secret")) {
			t.Errorf("%s: have %s", why, w.Body)
		}
	}
}

// A pattern is known to what a mux calls, and not before it.
func TestPatternInsideOfAMux(t *testing.T) {
	by := new(deciding)
	mux := http.NewServeMux()
	mux.Handle("GET /users/{id}", middleware(t, Config{Decide: by.decide, Descriptors: [][]Key{{Pattern("route", caller.Refuse)}}}))
	for i := range 2 {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/users/%d", i), nil))
		if w.Code != 200 || by.entries() != "route=GET /users/{id};" {
			t.Errorf("have %d, %s", w.Code, by.entries())
		}
	}
}
