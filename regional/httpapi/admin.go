package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"

	"github.com/quorate/quorate/regional/enforce"
)

// AdminConfig is what the admin port shows.
type AdminConfig struct {
	// Metrics serves /metrics.
	Metrics http.Handler
	// NotReady returns what is missing before the agent can decide, empty when nothing is.
	NotReady func() []string
	// Rules returns the rules in force as text, false before the first were adopted.
	Rules func() (string, bool)
	// Explain says what this agent would decide for one descriptor, whatever its cost,
	// and why, as a value for JSON.
	Explain func(ctx context.Context, domain string, d enforce.Descriptor) (any, error)
}

// Admin returns the admin port's handler. It has no authentication: bind it to
// an address that only operators reach.
func Admin(cfg AdminConfig) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", cfg.Metrics)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/healthz", alive)
	mux.HandleFunc("/livez", alive)
	mux.HandleFunc("/readyz", ready(cfg.NotReady))
	mux.HandleFunc("GET /rlconfig", func(w http.ResponseWriter, _ *http.Request) {
		if s, ok := cfg.Rules(); ok {
			text(w, http.StatusOK, s)
			return
		}
		text(w, http.StatusServiceUnavailable, "no rate limit configuration loaded yet\n")
	})
	mux.HandleFunc("GET /v1/explain", cfg.explain)
	mux.HandleFunc("GET /{$}", index)
	return mux
}

func (cfg *AdminConfig) explain(w http.ResponseWriter, r *http.Request) {
	req, err := ParseCheck(r.URL.RawQuery)
	if err == nil && len(req.Descriptors) != 1 {
		err = fmt.Errorf("%w: explain takes one descriptor, have %d", ErrBadRequest, len(req.Descriptors))
	}
	if err != nil {
		fail(w, err)
		return
	}
	v, err := cfg.Explain(r.Context(), req.Domain, req.Descriptors[0])
	if err != nil {
		fail(w, err)
		return
	}
	writeJSON(w, v)
}

func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, `<!doctype html><title>quorate agent</title><h1>quorate agent</h1><ul>
<li><a href="/metrics">/metrics</a>
<li><a href="/rlconfig">/rlconfig</a> the rules in force
<li>/v1/explain?domain=DOMAIN&amp;KEY=VALUE what would be decided, and why
<li><a href="/readyz">/readyz</a> <a href="/livez">/livez</a>
<li><a href="/debug/pprof/">/debug/pprof/</a></ul>
`)
}
