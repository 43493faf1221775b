// Package httplimit limits the requests of a net/http server in its own process.
//
//	limit, err := httplimit.New(httplimit.Config{
//		Decide: agent.Decide, Domain: "api", OnFailure: caller.Deny,
//		Descriptors: [][]httplimit.Key{{httplimit.APIKey("api_key", "X-API-Key", caller.Refuse)}},
//	})
//	…
//	http.ListenAndServe(":8080", limit(mux))
//
// It answers as an agent's /v1/check does: the X-RateLimit fields and the IETF pair on
// every reply, and 429 with Retry-After and a problem body when a request is denied.
// Beyond that it answers 400 when a request lacks what it is counted by (see
// caller.Missing) and 503 when nothing was decided (see caller.OnFailure). In this
// package errors become status codes for applications.
//
// A request that a shaped limit admits is held back until its turn has come, and then
// handed on. A client that goes away meanwhile is not served, and has paid.
package httplimit

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/quorate/quorate/regional/caller"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/problem"
)

// Config says what requests count for.
type Config struct {
	// Decide makes the decisions: Agent.Decide.
	Decide func(ctx context.Context, r enforce.Request) (enforce.Decision, error)
	// Domain is that of the rules.
	Domain string
	// Descriptors is what a request counts for: all of them are charged, or none. Each
	// is a list of keys in the order of the rules.
	Descriptors [][]Key
	// Cost returns what a request costs; 0 only looks. Nil means 1.
	Cost func(r *http.Request) uint64
	// OnFailure is for requests about which nothing was decided. There is no default.
	OnFailure caller.OnFailure
	// MaxDelay is how long a request may be held back for shaped limits, and at most until
	// the deadline of its context. One whose turn would come later is answered 429 with Retry-After
	// instead, and charged nothing. Where burst/rate of a limit is longer than that, each
	// decision asks the region's store twice. Default caller.DefaultMaxDelay, 10 s.
	MaxDelay time.Duration
	// Headers of replies. The zero value means headers.Full().
	Headers headers.Style
	// Explain lets clients ask with X-RateLimit-Explain why they were answered as they
	// were, which tells them the rules.
	Explain bool
	// Logger is told when requests begin to be answered without a decision, and why, and
	// when that ends. Nil: nobody hears it.
	Logger *slog.Logger
}

// New returns the middleware. The error is caller.ErrConfig and has all problems.
func New(cfg Config) (func(http.Handler) http.Handler, error) {
	gate, err := caller.New(caller.Config[*http.Request]{
		Decide: cfg.Decide, Domain: cfg.Domain, Descriptors: cfg.Descriptors, Cost: cfg.Cost,
		OnFailure: cfg.OnFailure, MaxDelay: cfg.MaxDelay, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	if cfg.Headers == (headers.Style{}) {
		cfg.Headers = headers.Full()
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d, err := gate.Ask(r.Context(), r)
			if err != nil {
				fail(w, err)
				return
			}
			style := cfg.Headers
			style.Explain = style.Explain || cfg.Explain && headers.Asked(r.Header.Get(headers.Explain))
			for _, h := range headers.Render(d, style, time.Now()) {
				w.Header().Set(h.Name, h.Value)
			}
			if d.Over {
				problem.Write(w, problem.Denied(d))
				return
			}
			next.ServeHTTP(w, r)
		})
	}, nil
}

// fail answers a request about which nothing was decided.
func fail(w http.ResponseWriter, err error) {
	p := problem.Problem{Status: http.StatusServiceUnavailable, Detail: "the rate limit cannot be asked now"}
	var refused *caller.RefusedError
	switch {
	case errors.As(err, &refused):
		p.Status, p.Detail = http.StatusBadRequest, err.Error()
	case errors.Is(err, context.Canceled):
		// The client has gone; 499 is what proxies log for it.
		p.Status, p.Title, p.Detail = 499, "Client Closed Request", ""
	case errors.Is(err, context.DeadlineExceeded):
		p.Status, p.Detail = http.StatusGatewayTimeout, ""
	default:
		w.Header().Set(headers.RetryAfter, "1")
	}
	problem.Write(w, p)
}
