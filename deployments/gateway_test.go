//go:build envoy || nginx

package deployments

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/sim/live"
)

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return portOf(t, l.Addr().String())
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(addr, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// await polls until try succeeds, for at most half a minute.
func await(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("waiting until %s: %v", what, err)
}

type answer struct {
	code   int
	header http.Header
}

// get asks with header fields, each a name and a value.
func get(t *testing.T, url string, fields ...string) answer {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header}
}

// twoRegions is start with the shipped rules of an API, and an upstream that always
// answers 200.
func twoRegions(t *testing.T) (w *live.World, upstream string) {
	t.Helper()
	return start(t, "rules/api.yaml", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
}

// start starts a cluster with a document of rules and one agent in each of two
// regions, and an upstream.
func start(t *testing.T, document string, answer http.HandlerFunc) (w *live.World, upstream string) {
	t.Helper()
	rules, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w, err = live.Start(ctx, live.Options{
		Dir:     t.TempDir(),
		Regions: []live.RegionSpec{{Name: "eu", Store: live.StoreRedis}, {Name: "us", Store: live.StoreRedis}},
		Rules:   string(rules),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.AwaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return w, server.URL
}
