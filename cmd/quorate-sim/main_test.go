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
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/live/demo"
)

func TestMain(m *testing.M) {
	live.Main()
	os.Exit(m.Run())
}

func run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, talk bytes.Buffer
	code = cli.Run(ctx, root(), args, &out, &talk)
	return code, out.String(), talk.String()
}

func TestBadUsage(t *testing.T) {
	for _, tt := range []struct {
		reason string
		args   []string
		want   string
	}{
		{"no such command", []string{"lvie"}, "live"},
		{"no such flag", []string{"live", "--speed", "3"}, "--speed"},
		{"a duration without a unit", []string{"live", "--duration", "60"}, "duration"},
		{"too short", []string{"live", "--duration", "10ms"}, "10ms"},
		{"no limit", []string{"live", "--rate", "0"}, "rate 0"},
		{"an unknown store", []string{"live", "--store", "disk"}, "disk"},
		{"an argument", []string{"live", "now"}, "now"},
	} {
		code, stdout, stderr := run(t.Context(), tt.args...)
		if code != cli.Usage || !strings.Contains(stderr, tt.want) || stdout != "" {
			t.Errorf("%s: have code %d, stdout %q, stderr %q, want %d and %q", tt.reason, code, stdout, stderr, cli.Usage, tt.want)
		}
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _ := run(t.Context(), "--version")
	if code != cli.OK || !strings.HasPrefix(stdout, "quorate-sim ") {
		t.Errorf("have code %d, %q", code, stdout)
	}
}

func TestInterruptBeforeTheLoadSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, _, stderr := run(ctx, "live", "--duration", "5s")
	if code != cli.Unavailable || !strings.Contains(stderr, "nothing was measured") {
		t.Errorf("have code %d, %q", code, stderr)
	}
}

// A short demo through the command line: all parts for real.
func TestLive(t *testing.T) {
	if testing.Short() {
		t.Skip("starts ten processes")
	}
	file := filepath.Join(t.TempDir(), "result.json")
	for _, tt := range []struct {
		reason, json, store string
	}{
		{"the report in a file", file, "auto"},
		{"the report on standard output, without redis-server", "-", "embedded"},
	} {
		code, stdout, stderr := run(t.Context(), "live", "--duration", "8s", "--rate", "150", "--burst", "150", "--json", tt.json, "--store", tt.store)
		if code != cli.OK {
			t.Fatalf("%s: have code %d\n%s\n%s", tt.reason, code, stdout, stderr)
		}
		data := []byte(stdout)
		if tt.json != "-" {
			var err error
			if data, err = os.ReadFile(tt.json); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(stdout, "utilization") {
				t.Errorf("%s: no summary on stdout: %q", tt.reason, stdout)
			}
		}
		var have demo.Summary
		if err := json.Unmarshal(data, &have); err != nil {
			t.Fatalf("%s: %v in %q", tt.reason, err, data)
		}
		if have.Partial || have.Regions != 3 || have.Admitted == 0 || have.Denied == 0 || have.BoundViolations != 0 || have.Partitions != 1 {
			t.Errorf("%s: have %+v", tt.reason, have)
		}
	}
}
