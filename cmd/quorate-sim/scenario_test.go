package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/report"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const short = `limit: {rate: 10}
regions: [eu, us]
load: [{steady: 8}]
duration: 10s
seed: 5
`

// object reads JSON and checks that the named keys are in it.
func object(t *testing.T, text string, keys ...string) map[string]any {
	t.Helper()
	var have map[string]any
	if err := json.Unmarshal([]byte(text), &have); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	for _, k := range keys {
		if _, ok := have[k]; !ok {
			t.Errorf("no key %s in %s", k, text)
		}
	}
	return have
}

func TestRunAScenario(t *testing.T) {
	file := write(t, "short.yaml", short)
	code, stdout, stderr := run(t.Context(), "run", file)
	if code != cli.OK || stderr != "" {
		t.Fatalf("have code %d, stderr %q", code, stderr)
	}
	for _, want := range []string{"short\n", "seed          5\n", "10 tokens a second", "utilization", "every promise kept\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("have %s\nwant %q", stdout, want)
		}
	}
	_, again, _ := run(t.Context(), "run", file)
	_, other, _ := run(t.Context(), "run", file, "--seed", "6")
	if again != stdout || other == stdout || !strings.Contains(other, "seed          6\n") {
		t.Error("the same seed must give the same run, another seed another")
	}
}

func TestRunAsJSON(t *testing.T) {
	file := write(t, "short.yaml", short)
	code, stdout, _ := run(t.Context(), "run", file, "-o", "json", "--trace")
	have := object(t, stdout, "plan", "seed", "sim_seconds", "keys", "violations", "log_entries", "messages", "events", "counts", "hash", "utilization", "commit", "scenario", "trace")
	if code != cli.OK || have["seed"] != 5.0 {
		t.Errorf("have code %d, seed %v", code, have["seed"])
	}
	// The scenario in it runs the same again.
	again := write(t, "again.yaml", have["scenario"].(string))
	_, stdout, _ = run(t.Context(), "run", again, "-o", "json")
	if second := object(t, stdout); second["hash"] != have["hash"] || second["events"] != have["events"] {
		t.Errorf("have hash %v, %v events, want %v, %v", second["hash"], second["events"], have["hash"], have["events"])
	}
}

// What a seed draws comes first; replay and run are the same.
func TestReplay(t *testing.T) {
	code, stdout, _ := run(t.Context(), "replay", "3")
	if code != cli.OK || !strings.HasPrefix(stdout, "# drawn by seed 3 at commit ") || !strings.Contains(stdout, "\nevery promise kept\n") {
		t.Errorf("have code %d, %s", code, stdout)
	}
	if _, other, _ := run(t.Context(), "run", "swarm", "--seed", "3"); other != stdout {
		t.Errorf("run swarm: have %s\nwant %s", other, stdout)
	}
	_, traced, _ := run(t.Context(), "replay", "3", "--trace")
	if !strings.Contains(traced, "s  leader of term 1 begins\n") {
		t.Errorf("nothing is told: %s", traced)
	}
}

func TestSweep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sweep.json")
	code, stdout, stderr := run(t.Context(), "sweep", "--seeds", "6", "--first", "40", "-o", "json", "--json", file)
	if code != cli.OK { // a slow machine is told how far it is
		t.Fatalf("have code %d, stderr %q", code, stderr)
	}
	have := object(t, stdout,
		"seeds", "long_worlds", "sim_hours", "violations", "worst_overshoot_tokens", "worst_overshoot_over_bound", "faults_fired", "sometimes",
		"unreached", "first_seed", "commit", "go", "cpu", "date", "took_s", "partial")
	if have["seeds"] != 6.0 || have["first_seed"] != 40.0 || have["partial"] != false {
		t.Errorf("have %v seeds from %v, partial %v", have["seeds"], have["first_seed"], have["partial"])
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != stdout {
		t.Errorf("the file: have %q, %v, want what is on stdout", data, err)
	}
	code, stdout, _ = run(t.Context(), "report", file)
	if code != cli.OK || !strings.Contains(stdout, "6 random worlds from seed 40,") {
		t.Errorf("have code %d, %s", code, stdout)
	}
}

// Half a sweep and the other half are the whole one.
func TestSweepInParts(t *testing.T) {
	dir := t.TempDir()
	part := func(first, seeds string) string {
		file := filepath.Join(dir, first+"-"+seeds+".json")
		if code, _, stderr := run(t.Context(), "sweep", "--first", first, "--seeds", seeds, "--json", file); code != cli.OK {
			t.Fatalf("sweep %s seeds from %s: have code %d, %q", seeds, first, code, stderr)
		}
		return file
	}
	late, early, whole := part("44", "3"), part("41", "3"), part("41", "6")
	code, stdout, stderr := run(t.Context(), "report", "-o", "json", late, early)
	if code != cli.OK {
		t.Fatalf("have code %d, %q", code, stderr)
	}
	have := object(t, stdout)
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	want := object(t, string(data))
	if h, w := have["sim_hours"].(float64), want["sim_hours"].(float64); math.Abs(h-w) > 1e-9 {
		t.Errorf("have %v hours, want %v", h, w)
	}
	for _, name := range []string{"took_s", "sim_hours"} { // a sum depends on its order
		delete(have, name)
		delete(want, name)
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("have %v\nwant %v", have, want)
	}
	for _, files := range [][]string{{early, part("45", "1")}, {early, whole}} {
		code, stdout, stderr := run(t.Context(), append([]string{"report"}, files...)...)
		if code != cli.Usage || stdout != "" || !strings.Contains(stderr, "no parts of one sweep") {
			t.Errorf("%q: have code %d, %q, %q", files, code, stdout, stderr)
		}
	}
}

func TestSweepEndsByTime(t *testing.T) {
	began := time.Now()
	code, stdout, _ := run(t.Context(), "sweep", "--for", "300ms", "-o", "json")
	have := object(t, stdout)
	if took := time.Since(began); code != cli.OK || have["partial"] != false || took > 10*time.Second {
		t.Errorf("have code %d, partial %v after %v", code, have["partial"], took)
	}
}

func TestInterruptedSweepPrintsWhatItHas(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	code, stdout, _ := run(ctx, "sweep", "--seeds", "1000000")
	if code != cli.OK || !strings.Contains(stdout, "ended early") {
		t.Errorf("have code %d, %s", code, stdout)
	}
	cancel()
	if code, _, stderr := run(ctx, "sweep"); code != cli.Unavailable || !strings.Contains(stderr, "nothing was checked") {
		t.Errorf("before the first run: have code %d, %q", code, stderr)
	}
}

func TestReportOfABrokenPromise(t *testing.T) {
	s := report.Sweep{Sweep: sim.Sweep{Seeds: 4, Violations: 1, Failed: []sim.Report{{Seed: 9, Violations: []sim.Violation{{Promise: "Bound", What: "3 tokens more"}}}}}}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := run(t.Context(), "report", write(t, "sweep.json", string(data)))
	if code != cli.No || !strings.Contains(stdout, "BROKEN in 1 of 4 runs") || !strings.Contains(stdout, "quorate-sim replay 9 --trace\n") {
		t.Errorf("have code %d, %s", code, stdout)
	}
}

func TestBadUsageOfScenarios(t *testing.T) {
	for _, tt := range []struct {
		reason string
		args   []string
		want   string
	}{
		{"no scenario", []string{"run"}, "name one scenario file"},
		{"a scenario that is not there", []string{"run", "nowhere.yaml"}, "no such file"},
		{"a scenario that is wrong", []string{"run", write(t, "bad.yaml", short+"durration: 3s\n")}, "bad.yaml:6:1: unknown key `durration`"},
		{"a seed that is none", []string{"run", "swarm", "--seed", "x"}, "--seed"},
		{"replay of nothing", []string{"replay"}, "replay needs one seed"},
		{"replay of a word", []string{"replay", "abc"}, `"abc"`},
		{"a sweep of nothing", []string{"sweep", "--seeds", "0"}, "--seeds 0"},
		{"a sweep for no time", []string{"sweep", "--for", "0s"}, "--for 0s"},
		{"a sweep into nowhere", []string{"sweep", "-o", "xml"}, "xml"},
		{"a report of nothing", []string{"report"}, "name a file"},
		{"a report of what is not there", []string{"report", "nowhere.json"}, "no such file"},
		{"a report of something else", []string{"report", write(t, "x.json", `{"seed": 3}`)}, "unknown field"},
		{"a report of no runs", []string{"report", write(t, "x.json", `{"seeds": 0}`)}, "no seeds"},
	} {
		code, stdout, stderr := run(t.Context(), tt.args...)
		if code != cli.Usage || !strings.Contains(stderr, tt.want) || stdout != "" {
			t.Errorf("%s: have code %d, stdout %q, stderr %q, want %d and %q", tt.reason, code, stdout, stderr, cli.Usage, tt.want)
		}
	}
}

func TestSweepSaysWhenItWillEnd(t *testing.T) {
	for _, tt := range []struct {
		reason string
		o      sweepOptions
		want   string
	}{
		{"by the number of runs", sweepOptions{seeds: 100}, "20 of 100 runs, 2 a second, ends in about 40s"},
		{"by time", sweepOptions{seeds: 1<<63 - 1, length: time.Minute}, "20 runs, 2 a second, ends in about 50s"},
		{"by what comes first", sweepOptions{seeds: 24, length: time.Minute}, "20 of 24 runs, 2 a second, ends in about 2s"},
		{"runs under way when the time is over", sweepOptions{seeds: 1<<63 - 1, length: time.Second}, "20 runs, 2 a second, ends in about 0s"},
	} {
		if have := tt.o.status(20, 0, 10*time.Second); have != tt.want {
			t.Errorf("%s: have %q, want %q", tt.reason, have, tt.want)
		}
	}
}

func TestProgressIsALineEveryTenSeconds(t *testing.T) {
	var b strings.Builder
	p := progress{out: &b, began: time.Now().Add(-25 * time.Second), options: sweepOptions{seeds: 100}}
	p.done(10, 7)
	p.done(11, 8)
	p.clear()
	if have := b.String(); strings.Count(have, "\n") != 1 || !strings.HasPrefix(have, "10 of 100 runs, 0 a second, 7 simulated hours, ends in") {
		t.Errorf("have %q", have)
	}
	b.Reset()
	p = progress{out: &b, terminal: true, began: time.Now().Add(-time.Second), options: sweepOptions{seeds: 100}}
	p.done(10, 7)
	p.clear()
	if have := b.String(); strings.Contains(have, "\n") || !strings.HasPrefix(have, "\r10 of 100") || !strings.HasSuffix(have, "\r") {
		t.Errorf("on a terminal: have %q", have)
	}
}
