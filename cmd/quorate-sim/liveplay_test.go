package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/sim/live"
)

func TestBadUsageOfLiveScenarios(t *testing.T) {
	file := write(t, "short.yaml", short)
	for _, tt := range []struct {
		reason string
		args   []string
		want   string
	}{
		{"a scenario that is not there", []string{"nowhere.yaml"}, "no such file"},
		{"two scenarios", []string{file, file}, "name one scenario file"},
		{"a flag of the demo", []string{file, "--rate", "7"}, "--rate is for the demo"},
		{"a flag of a scenario", []string{"--sentinel"}, "--sentinel is for a scenario"},
		{"four nodes", []string{file, "--coordinators", "4"}, "4 coordinators; give 3 or 5"},
		{"too short", []string{file, "--duration", "10ms"}, "10ms"},
		{"a clock that stands still", []string{write(t, "frozen.yaml", short+"faults: {outages: 5s, frozen: 0.5}\n")}, "frozen.yaml:6:23: not possible with real processes"},
		{"no Redis to fail over to", []string{write(t, "alone.yaml", short+"live: {events: [{at: 1s, do: failover, region: eu}]}\n")}, "--sentinel"},
	} {
		code, stdout, stderr := run(t.Context(), append([]string{"live"}, tt.args...)...)
		if code != cli.Usage || !strings.Contains(stderr, tt.want) || stdout != "" {
			t.Errorf("%s: have code %d, stdout %q, stderr %q, want %d and %q", tt.reason, code, stdout, stderr, cli.Usage, tt.want)
		}
	}
}

func TestInterruptBeforeTheLoadOfAScenarioSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, _, stderr := run(ctx, "live", write(t, "short.yaml", short))
	if code != cli.Unavailable || !strings.Contains(stderr, "nothing was measured") {
		t.Errorf("have code %d, %q", code, stderr)
	}
}

// A scenario that is ended early, through the command line: all parts for real. What
// a whole run does is tested where it is played.
func TestLiveScenario(t *testing.T) {
	if testing.Short() {
		t.Skip("starts eight processes")
	}
	file := write(t, "short.yaml", short+"events: [{at: 1s, do: kill, region: eu}]\n")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	talk := &told{text: "s  eu-1 is killed\n", then: cancel}
	code := cli.Run(ctx, root(), []string{"live", file, "--seed", "6", "-o", "json"}, &out, talk)
	have := object(t, out.String(), "plan", "keys", "violations", "counts", "utilization", "regions", "events", "partial", "commit")
	if code != cli.OK || have["seed"] != 6.0 || have["store"] != string(live.StoreRedis) || have["partial"] != true {
		t.Errorf("have code %d, %v, %s", code, have, talk)
	}
	if !talk.seen {
		t.Errorf("nothing is told: %q", talk)
	}
}

// told is standard error, and does something when it is told a text.
type told struct {
	bytes.Buffer
	text string
	then func()
	seen bool
}

func (w *told) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if !w.seen && strings.Contains(w.String(), w.text) {
		w.seen = true
		w.then()
	}
	return n, err
}
