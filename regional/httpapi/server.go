package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/problem"
)

// ErrBadRequest means that the request cannot be understood; the text says why.
var ErrBadRequest = errors.New("bad request")

// Config is what the front end needs.
type Config struct {
	// Decide makes the decision for one request.
	Decide func(ctx context.Context, r enforce.Request) (enforce.Decision, error)
	// JSON answers a RateLimitRequest in protobuf's JSON mapping. Its error is
	// ErrBadRequest when body is not one.
	JSON func(ctx context.Context, body []byte) (reply []byte, over bool, err error)
	// NotReady returns what is missing before the agent can decide, empty when nothing is.
	NotReady func() []string
	// Headers of replies of /v1/check and /v1/settle.
	Headers headers.Style
	// MaxBodyBytes bounds the body of /json. Default 1 MiB.
	MaxBodyBytes int64
}

// Handler returns the front end.
func Handler(cfg Config) http.Handler {
	if cfg.MaxBodyBytes == 0 {
		cfg.MaxBodyBytes = 1 << 20
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /json", cfg.json)
	mux.HandleFunc("/v1/check", cfg.check)
	mux.HandleFunc("POST /v1/settle", cfg.settle)
	mux.HandleFunc("/healthz", alive)
	mux.HandleFunc("/readyz", ready(cfg.NotReady))
	return mux
}

// NewServer returns a server for h with every limit set that a slow or hostile
// client could otherwise exploit. Errors of the net/http package itself go to log.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      60 * time.Second, // a CPU profile takes 30 s
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

func (cfg *Config) json(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, cfg.MaxBodyBytes))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			problem.Write(w, problem.Problem{Status: http.StatusRequestEntityTooLarge, Detail: err.Error()})
			return
		}
		problem.Write(w, problem.Problem{Status: http.StatusBadRequest, Detail: "read body: " + err.Error()})
		return
	}
	reply, over, err := cfg.JSON(r.Context(), body)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if over {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(reply)
}

func alive(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") }

func ready(notReady func() []string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if missing := notReady(); len(missing) > 0 {
			text(w, http.StatusServiceUnavailable, "not ready: "+strings.Join(missing, "; ")+"\n")
			return
		}
		text(w, http.StatusOK, "ok\n")
	}
}

func text(w http.ResponseWriter, status int, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, s)
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil { // only values of this agent are encoded
		text(w, http.StatusInternalServerError, "encode reply: "+err.Error()+"\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(b, '\n'))
}
