package bench

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite testdata with what is printed now")

// fixed is a comparison whose figures never move: what is tested is how they look.
func fixed() Comparison {
	c := Comparison{
		Origin: Origin{
			Commit: "v1.2.3", Go: "go1.0", CPU: "a processor, 2 cores", Date: "2026-03-04",
			Command: "quorate-sim bench --seeds 5", Seeds: 5,
		},
		Workloads: []Workload{
			{Name: "steady", About: "nothing ever happens <here & there>", Goal: 0.99},
			{Name: "a step, \"just\" missed", About: "one region's demand rises", Goal: 0.985, Step: 20 * time.Second, Steps: []string{"us"}},
			{Name: "never fair", About: "no lease ever comes", Step: 20 * time.Second, Steps: []string{"us"}},
			{Name: "no goal", About: "so hard that nobody knows what to ask for"},
			{Name: "not run", About: "has no results"},
		},
	}
	for i, w := range c.Workloads[:4] {
		n := float64(i)
		c.Results = append(c.Results,
			Result{Workload: w.Name, System: "quorate", Utilization: []float64{0.99, 0.984999, 0.5, 0.27}[i],
				TimeToFairMS: []float64{0, 570, -1, 0}[i], LogEntriesPerS: 1.25 + n, MessagesPerS: 44.9},
			Result{Workload: w.Name, System: "ideal", Utilization: 1},
			Result{Workload: w.Name, System: "static", Utilization: 1.0 / 3, DeniedWhileAvailable: 100},
			Result{Workload: w.Name, System: "independent", Utilization: 1.3 + n, OvershootTokens: []float64{0.04, 9.96, 1211.4, 123456}[i]},
			Result{Workload: w.Name, System: "gossip", Utilization: 1, OvershootTokens: []float64{0, 0.1, 36.7, 99.4}[i], MessagesPerS: 60})
	}
	return c
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := fixed().WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "table.txt")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if have := b.String(); have != string(want) {
		t.Errorf("have\n%s\nwant\n%s", have, want)
	}
}

func TestMedians(t *testing.T) {
	run := func(share, over, denied, fair, log, messages float64) []Result {
		return []Result{
			{"w", "quorate", share, over, denied, fair, log, messages},
			{"w", "static", share / 2, 0, 1, 0, 0, 0},
		}
	}
	for _, tt := range []struct {
		reason string
		runs   [][]Result
		want   Result
	}{
		{"one run is its own median", [][]Result{run(0.9, 1, 2, 3, 4, 5)}, Result{"w", "quorate", 0.9, 1, 2, 3, 4, 5}},
		{
			"each figure has its own middle",
			[][]Result{run(0.7, 30, 1, 500, 2, 9), run(0.9, 10, 3, 700, 1, 8), run(0.8, 20, 2, 600, 3, 7)},
			Result{"w", "quorate", 0.8, 20, 2, 600, 2, 8},
		},
		{
			"between the two in the middle",
			[][]Result{run(0.25, 0, 0, 500, 0, 0), run(0.75, 2, 0, 700, 0, 0)},
			Result{"w", "quorate", 0.5, 1, 0, 600, 0, 0},
		},
		{
			"never is longer than any time",
			[][]Result{run(1, 0, 0, -1, 0, 0), run(1, 0, 0, 500, 0, 0), run(1, 0, 0, 700, 0, 0)},
			Result{"w", "quorate", 1, 0, 0, 700, 0, 0},
		},
		{
			"mostly never is never",
			[][]Result{run(1, 0, 0, -1, 0, 0), run(1, 0, 0, 500, 0, 0), run(1, 0, 0, -1, 0, 0)},
			Result{"w", "quorate", 1, 0, 0, -1, 0, 0},
		},
	} {
		have := Medians(tt.runs)
		if len(have) != 2 || have[0] != tt.want || have[1].System != "static" {
			t.Errorf("%s: have %+v, want %+v", tt.reason, have, tt.want)
		}
	}
}

// A figure that falls short of its goal never reads as if it had reached it.
func TestFiguresDoNotFlatter(t *testing.T) {
	for _, tt := range []struct {
		reason     string
		have, want string
	}{
		{"just below 99 %", percent(0.98999), "98.9"},
		{"99 % itself, which binary fractions miss", percent(0.99), "99.0"},
		{"29 %, which multiplication misses", percent(0.29), "29.0"},
		{"no overshoot", tokens(0), "0"},
		{"hardly any overshoot", tokens(0.001), "<0.1"},
		{"just above 570 ms", toFair(Workload{Step: 1}, Result{TimeToFairMS: 570.2}), "571"},
	} {
		if tt.have != tt.want {
			t.Errorf("%s: have %s, want %s", tt.reason, tt.have, tt.want)
		}
	}
}
