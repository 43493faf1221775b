package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/cmd/internal/cli"
)

func run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = cli.Run(ctx, command(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestMistakesAreUsageErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte("node: n1\ndata_dri: /x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		reason string
		args   []string
		want   []string
	}{
		{"nothing is given", nil, []string{"node: missing", "data-dir: missing", "initial-cluster: missing"}},
		{"an unknown flag", []string{"--nod", "n1"}, []string{"unknown flag"}},
		{"an unknown key in the file", []string{"--config", file}, []string{file + ":2:", "data_dri"}},
		{"a weight that is no number", []string{"--regions", "eu=x"}, []string{"regions"}},
		{"a certificate without a key", []string{"--grpc-tls-cert", "x.pem"}, []string{"certificate and key must both be named"}},
		{"a log level that does not exist", []string{"--log-level", "loud"}, []string{"loud"}},
	} {
		code, _, stderr := run(t.Context(), tt.args...)
		if code != cli.Usage {
			t.Errorf("%s: have exit code %d, want %d", tt.reason, code, cli.Usage)
		}
		for _, want := range tt.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: have %s, want it to say %q", tt.reason, stderr, want)
			}
		}
	}
}

func TestVersionHelpAndConfigShow(t *testing.T) {
	if code, out, _ := run(t.Context(), "--version"); code != cli.OK || !strings.HasPrefix(out, "quorate-coordinator ") {
		t.Errorf("version: have %d %s", code, out)
	}
	code, out, _ := run(t.Context(), "--help")
	for _, want := range []string{"--initial-cluster", "QUORATE_DATA_DIR", "config show --origin"} {
		if code != cli.OK || !strings.Contains(out, want) {
			t.Errorf("help does not say %q", want)
		}
	}
	if code, out, stderr := run(t.Context(), "config", "show", "--node", "n7"); code != cli.OK || !strings.Contains(out, "n7") {
		t.Errorf("config show: have %d %s %s", code, out, stderr)
	}
}

// buffer is written by the node while the test reads it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A single node starts, becomes ready, serves metrics, and ends with code 0.
func TestNodeRunsAndDrains(t *testing.T) {
	host := fmt.Sprintf("127.%d.%d.51", 1+os.Getpid()>>8&0x7f, os.Getpid()&0xff)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stderr buffer
	done := make(chan int, 1)
	go func() {
		done <- cli.Run(ctx, command(), []string{
			"--node", "n1", "--data-dir", t.TempDir(), "--initial-cluster", "n1=" + host + ":7601", "--regions", "eu=1",
			"--raft-addr", host + ":7601", "--grpc-addr", host + ":7600", "--admin-addr", host + ":7680", "--raft-heartbeat", "200ms",
			"--log-format", "json",
		}, io.Discard, &stderr)
	}()
	defer http.DefaultClient.CloseIdleConnections()
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + host + ":7680" + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if code, _ := get("/readyz"); code == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready within 20 s: %s", stderr.String())
		}
	}
	if _, body := get("/metrics"); !strings.Contains(body, "quorate_build_info") || !strings.Contains(body, "go_goroutines") {
		t.Errorf("metrics: have %s", body)
	}
	cancel()
	if code := <-done; code != cli.OK {
		t.Errorf("have exit code %d: %s", code, stderr.String())
	}
}
