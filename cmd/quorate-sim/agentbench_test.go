package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/sim/agentbench"
)

// A short run with the real processes: every system answers, costs something, and
// makes the calls that its name promises. How fast they are is no matter of a test.
func TestBenchAgent(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "cpu.pprof")
	code, stdout, stderr := run(t.Context(), "bench-agent", "--rounds", "1", "--time", "100ms", "--concurrency", "20",
		"--workload", "10k keys", "--cpuprofile", profile, "-o", "json")
	if code != cli.OK {
		t.Fatalf("have code %d, stderr %q", code, stderr)
	}
	var have agentbench.Report
	if err := json.Unmarshal([]byte(stdout), &have); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if len(have.Results) != 2*len(agentbench.Systems) || len(have.InProcess) != 5 {
		t.Fatalf("have %+v", have)
	}
	for i, r := range have.Results {
		if want := agentbench.Systems[i%len(agentbench.Systems)]; r.System != want || r.PerSecond <= 0 || r.P99MS < r.P50MS || r.P50MS <= 0 {
			t.Errorf("result %d: want figures of %q, have %+v", i, want, r)
		}
		switch {
		case r.System == agentbench.Empty && r.Calls != 0,
			r.System == agentbench.Each && (r.Calls < 0.9 || r.Calls > 1.1),
			(r.System == agentbench.Quorate || r.System == agentbench.Exact) && (r.Calls <= 0 || r.Calls > 1.1):
			t.Errorf("%s: %v script calls for each decision", r.System, r.Calls)
		}
	}
	var table strings.Builder
	if err := have.WriteTable(&table); err != nil || !strings.Contains(table.String(), "10k keys, 20 callers") {
		t.Errorf("have %v in table %s", err, table.String())
	}
	if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
		t.Errorf("want a profile, have %v, %v", info, err)
	}
}

func TestBenchAgentBadUsage(t *testing.T) {
	for _, tt := range []struct {
		reason string
		args   []string
		want   string
	}{
		{"an unknown workload", []string{"--workload", "cold key"}, "hot key; 10k keys"},
		{"no round", []string{"--rounds", "0"}, "--rounds 0"},
		{"nobody asks", []string{"--concurrency", "0"}, "--concurrency"},
		{"no time", []string{"--time", "1us"}, "--time 1µs"},
	} {
		code, stdout, stderr := run(t.Context(), append([]string{"bench-agent"}, tt.args...)...)
		if code != cli.Usage || !strings.Contains(stderr, tt.want) || stdout != "" {
			t.Errorf("%s: have code %d, stdout %q, stderr %q, want %d and %q", tt.reason, code, stdout, stderr, cli.Usage, tt.want)
		}
	}
}
