package httplimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/quorate/quorate/regional"
	"github.com/quorate/quorate/regional/caller"
	"github.com/quorate/quorate/regional/httplimit"
	"github.com/quorate/quorate/regional/memory"
)

func Example() {
	store, err := memory.WithRules("here", `
domain: api
descriptors:
- key: remote_address
  rate_limit: {unit: hour, requests_per_unit: 2, quota: {standing_share: 1}}
`)
	if err != nil {
		log.Fatal(err)
	}
	agent, err := regional.Open(context.Background(), regional.Config{Region: "here", Alone: true, Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()

	clients, err := caller.NewAddresses(caller.AddressConfig{Trusted: []string{"10.0.0.0/8"}})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := httplimit.New(httplimit.Config{
		Decide: agent.Decide, Domain: "api", OnFailure: caller.Deny,
		Descriptors: [][]httplimit.Key{{httplimit.ClientIP("remote_address", clients, caller.Refuse)}},
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") }))

	for range 3 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:443" // a load balancer
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Printf("%d, %s left, retry later: %t\n", w.Code, w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("Retry-After") != "")
	}
	// Output:
	// 200, 1 left, retry later: false
	// 200, 0 left, retry later: false
	// 429, 0 left, retry later: true
}
