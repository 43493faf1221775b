package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/regional/headers"
)

func run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = cli.Run(ctx, command(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestBadUsageNamesEveryProblem(t *testing.T) {
	code, _, stderr := run(t.Context(), "--grpc-addr", "nowhere", "--headers", "x-ratelimit,bogus", "--denial-log", "1001")
	if code != cli.Usage {
		t.Errorf("want exit code %d, have %d", cli.Usage, code)
	}
	for _, want := range []string{"region: missing", "coordinators: missing", "redis: missing", `grpc-addr: "nowhere"`, `"bogus"`, "denial-log: 1001", "--help"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in:\n%s", want, stderr)
		}
	}
}

func TestAnAgentThatNobodyCanAskIsAMistake(t *testing.T) {
	code, _, stderr := run(t.Context(), "--region", "eu", "--coordinators", "c:1", "--redis", "embedded", "--grpc-addr", "", "--http-addr", "")
	if code != cli.Usage || !strings.Contains(stderr, "grpc_addr, http_addr: both empty") {
		t.Errorf("have %d:\n%s", code, stderr)
	}
}

func TestPasswordIsNeverShown(t *testing.T) {
	_, stdout, stderr := run(t.Context(), "config", "show", "--redis", "redis://user:hunter2@host:6379")
	if strings.Contains(stdout+stderr, "hunter2") || !strings.Contains(stdout, "host:6379") {
		t.Errorf("have:\n%s%s", stdout, stderr)
	}
	_, stdout, stderr = run(t.Context(), "--region", "eu", "--coordinators", "c:1", "--redis", "http://user:hunter2@host:6379 %zz")
	if strings.Contains(stdout+stderr, "hunter2") {
		t.Errorf("have:\n%s%s", stdout, stderr)
	}
}

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte("region: from-file\nagent: from-file\ngrpc_addr: from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("QUORATE_AGENT", "from-env")
	t.Setenv("QUORATE_GRPC_ADDR", "from-env")
	code, stdout, stderr := run(t.Context(), "config", "show", "--config", file, "--grpc-addr", "from-flag", "-o", "json")
	if code != cli.OK {
		t.Fatalf("have %d: %s", code, stderr)
	}
	var out struct {
		Settings []struct {
			Key   string
			Value any
		}
	}
	if err := json.Unmarshal([]byte(stdout), &out); err != nil {
		t.Fatal(err)
	}
	have := map[string]any{}
	for _, s := range out.Settings {
		have[s.Key] = s.Value
	}
	if have["region"] != "from-file" || have["agent"] != "from-env" || have["grpc_addr"] != "from-flag" || have["http_addr"] != ":8080" {
		t.Errorf("have %v", have)
	}
}

func TestStartsAndStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as if the signal came at once
	code, _, stderr := run(ctx, "--region", "eu", "--coordinators", "127.0.0.1:1", "--redis", "embedded",
		"--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--log-format", "text")
	if code != cli.OK || !strings.Contains(stderr, "agent stopped") || !strings.Contains(stderr, "embedded") {
		t.Errorf("have %d:\n%s", code, stderr)
	}
}

func TestPortInUseIsUnavailable(t *testing.T) {
	code, _, stderr := run(t.Context(), "--region", "eu", "--coordinators", "127.0.0.1:1", "--redis", "embedded",
		"--grpc-addr", "192.0.2.1:1", "--http-addr", "", "--admin-addr", "")
	if code != cli.Unavailable || !strings.Contains(stderr, "192.0.2.1:1") {
		t.Errorf("have %d:\n%s", code, stderr)
	}
}

func TestStyle(t *testing.T) {
	for name, c := range map[string]struct {
		kinds []string
		want  headers.Style
	}{
		"nothing": {nil, headers.Style{}},
		"all":     {[]string{"all"}, headers.Full()},
		"some":    {[]string{"IETF", " retry-after"}, headers.Style{IETF: true, RetryAfter: true}},
		"beside all": {[]string{"epoch", "all", "explain"}, headers.Style{
			Legacy: true, IETF: true, RetryAfter: true, Reason: true, Delay: true, Explain: true, Epoch: true,
		}},
		"delay":    {[]string{"delay"}, headers.Style{Delay: true}},
		"explicit": {[]string{"none"}, headers.Style{}},
	} {
		if have, err := style(c.kinds); err != nil || have != c.want {
			t.Errorf("%s: want %+v, have %+v, %v", name, c.want, have, err)
		}
	}
}
