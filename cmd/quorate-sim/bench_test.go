package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/sim/bench"
)

// quick is the workload that takes the least time.
const quick = "costs from 1 to burst"

func TestBenchAsJSON(t *testing.T) {
	code, stdout, stderr := run(t.Context(), "bench", "--workload", quick, "--seeds", "2", "-o", "json")
	if code != cli.OK || stderr != "" {
		t.Fatalf("have code %d, stderr %q", code, stderr)
	}
	var have []map[string]any
	if err := json.Unmarshal([]byte(stdout), &have); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	want := []string{
		"denied_while_available", "log_entries_per_s", "messages_per_s", "overshoot_tokens",
		"system", "time_to_fair_ms", "utilization", "workload",
	}
	var systems []string
	for _, r := range have {
		var keys []string
		for k := range r {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		if !slices.Equal(keys, want) || r["workload"] != quick {
			t.Errorf("have %v, want the keys %v of %s", r, want, quick)
		}
		systems = append(systems, r["system"].(string))
	}
	if !slices.Equal(systems, bench.Systems) {
		t.Errorf("have systems %v, want %v", systems, bench.Systems)
	}
}

func TestBenchWritesFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "results")
	chart := filepath.Join(t.TempDir(), "chart.svg")
	code, stdout, stderr := run(t.Context(), "bench", "--workload", quick, "--seeds", "1", "--out", dir, "--chart", chart)
	if code != cli.OK {
		t.Fatalf("have code %d, stderr %q", code, stderr)
	}
	read := func(file string) string {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if have := read(filepath.Join(dir, "bench.txt")); have != stdout {
		t.Errorf("have %s, want what is on stdout: %s", have, stdout)
	}
	for _, want := range []string{
		"1 workload, seed 1\n", "\nmade by      commit ", "\non           ",
		"bench --chart " + chart + " --out " + dir + " --seeds 1 --workload '" + quick + "'\n", "\n" + quick + "  ",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("have %s, want %q", stdout, want)
		}
	}
	svg := read(chart)
	if svg != read(filepath.Join(dir, "bench.svg")) || !strings.HasPrefix(svg, "<svg ") || !strings.Contains(svg, quick) {
		t.Errorf("have the chart %s", svg)
	}
	var results []bench.Result
	if err := json.Unmarshal([]byte(read(filepath.Join(dir, "bench.json"))), &results); err != nil || len(results) != len(bench.Systems) {
		t.Errorf("have %d results, %v", len(results), err)
	}
	// A test has no commit, so nobody could make these files again.
	if !strings.Contains(stderr, "nobody can make them again") {
		t.Errorf("have stderr %q", stderr)
	}
}

func TestBadUsageOfBench(t *testing.T) {
	file := write(t, "file", "")
	for _, tt := range []struct {
		reason string
		args   []string
		want   string
	}{
		{"no seeds", []string{"--seeds", "0"}, "--seeds 0"},
		{"a workload that there is not", []string{"--workload", "follow the moon"}, "follow the sun; "},
		{"an argument", []string{"follow the sun"}, "follow the sun"},
		{"a format that there is not", []string{"-o", "svg"}, "svg"},
		{"a file for a directory", []string{"--out", file}, file},
	} {
		code, stdout, stderr := run(t.Context(), append([]string{"bench"}, tt.args...)...)
		if code != cli.Usage || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: have code %d, stdout %q, stderr %q, want %d and %q", tt.reason, code, stdout, stderr, cli.Usage, tt.want)
		}
	}
}

func TestBenchThatCannotWrite(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere", "chart.svg")
	code, _, stderr := run(t.Context(), "bench", "--workload", quick, "--seeds", "1", "--chart", nowhere)
	if code != cli.Unavailable || !strings.Contains(stderr, "no such file") {
		t.Errorf("have code %d, stderr %q", code, stderr)
	}
}

func TestInterruptedBench(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	code, stdout, stderr := run(ctx, "bench", "--out", dir)
	if code != cli.Unavailable || stdout != "" || !strings.Contains(stderr, "nothing was measured") {
		t.Errorf("have code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("have %v in the directory, %v", left, err)
	}
}

func TestWorkloadsKeepTheirOrder(t *testing.T) {
	chosen, err := chooseWorkloads([]string{quick, "follow the sun", quick})
	if have := workloadNames(chosen); err != nil || !slices.Equal(have, []string{"follow the sun", quick}) {
		t.Errorf("have %v, %v", have, err)
	}
}

func TestTheCommandCanBeTypedAgain(t *testing.T) {
	f := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	f.StringArray("workload", nil, "")
	f.Int("seeds", 3, "")
	if err := f.Parse([]string{"--workload", "it's", "--workload", "a, b", "--workload", "plain"}); err != nil {
		t.Fatal(err)
	}
	want := `go run -buildvcs=true ./cmd/quorate-sim bench --workload 'it'\''s' --workload 'a, b' --workload plain`
	if have := typed("bench", f); have != want {
		t.Errorf("have %s, want %s", have, want)
	}
}
