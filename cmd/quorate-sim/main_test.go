package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/sim/agentbench"
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/live/demo"
)

// asProgram is set where this test binary stands for quorate-sim.
const asProgram = "QUORATE_TEST_SIM"

func TestMain(m *testing.M) {
	live.Main()
	agentbench.Main()
	if os.Getenv(asProgram) != "" {
		main()
	}
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
	code, stdout, stderr := run(t.Context(), "live", "--duration", "8s", "--rate", "150", "--burst", "150", "--json", file)
	if code != cli.OK {
		t.Fatalf("have code %d\n%s\n%s", code, stdout, stderr)
	}
	if !strings.Contains(stdout, "utilization") {
		t.Errorf("no summary on stdout: %q", stdout)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	demonstrated(t, data)
}

// demonstrated checks a report: three regions held the limit, over a partition.
func demonstrated(t *testing.T, report []byte) (have demo.Summary) {
	t.Helper()
	if err := json.Unmarshal(report, &have); err != nil {
		t.Fatalf("%v in %q", err, report)
	}
	if have.Partial || have.Regions != 3 || have.Offered == 0 || have.Admitted == 0 || have.Denied == 0 || have.BoundViolations != 0 || have.Partitions != 1 {
		t.Errorf("have %+v", have)
	}
	return have
}

// `make demo` on a machine without redis-server: the program finds none in its
// PATH, embeds the stores, and holds the limit all the same.
func TestLiveWithoutRedisServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts seven processes")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "live", "--duration", "5s", "--json", "-")
	cmd.Env = append(os.Environ(), asProgram+"=1", "PATH="+t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, stdout.String(), stderr.String())
	}
	// Nothing but the report is on standard output.
	if have := demonstrated(t, stdout.Bytes()); have.Store != "embedded" {
		t.Errorf("have store %q, want embedded", have.Store)
	}
	if !strings.Contains(stderr.String(), "utilization") {
		t.Errorf("no summary on stderr: %s", stderr.String())
	}
}
