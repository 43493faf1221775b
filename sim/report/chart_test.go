package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
)

func TestChart(t *testing.T) {
	for _, tt := range []struct {
		reason string
		series series
		want   string
	}{
		{"what is admitted, and denied above it", series{demand: []float64{60, 60, 30}, admitted: []float64{60, 30, 30}}, `
   72 |
      |#.
      |#.
   36 |#::
      |###
      |###`},
		{"a line that is reached, missed and at nothing", series{demand: []float64{60, 60, 0}, admitted: []float64{60, 20, 0}, line: []float64{60, 60, 0}}, `
   72 |
      |=-
      |#.
   36 |#.
      |#:
      |##`},
		{"demand far above what is admitted", series{demand: []float64{1000, 10}, admitted: []float64{10, 10}}, `
   18 |^
      |.
      |::
    9 |##
      |##
      |##`},
		{"half a row", series{demand: []float64{5, 6}, admitted: []float64{5, 6}}, `
  7.2 |
      | #
      |##
  3.6 |##
      |##
      |##`},
		{"nothing at all", series{demand: []float64{0}, admitted: []float64{0}, line: []float64{0}}, `
    1 |
      |
      |
  0.5 |
      |
      |`},
	} {
		if have := "\n" + strings.Join(tt.series.draw(), "\n"); have != tt.want {
			t.Errorf("%s: have%s\nwant%s", tt.reason, have, tt.want)
		}
	}
}

func TestTimeAxis(t *testing.T) {
	have := axis(21, map[int]byte{3: 'A', 20: 'B'}) + "\n" + times(21, 20)
	want := "    0 +" + "+--A------+---------B" + "\n" + "       0s        3m20s     6m40s"
	if have != want {
		t.Errorf("have\n%s\nwant\n%s", have, want)
	}
}

func TestNumbersFitTheAxis(t *testing.T) {
	for v := 0.2; v < 1e8; v *= 1.37 {
		if top := roundUp(v); top < v || top > 1.35*v || len(short(top)) > 5 || len(short(top/2)) > 5 {
			t.Errorf("%g: have an axis up to %g, written %q and %q", v, top, short(top), short(top/2))
		}
	}
}

func TestBrokenPromisesAreNamed(t *testing.T) {
	plan := sim.Swarm(1)
	result, err := sim.Run(plan, 1)
	if err != nil {
		t.Fatal(err)
	}
	result.Violations = []sim.Violation{{Promise: "Bound", At: 3 * quota.Second, What: "7 tokens more"}}
	var b bytes.Buffer
	if err := (Run{Plan: plan, Result: result}).Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := "\nBROKEN: Bound at 3s: 7 tokens more\n"; !strings.HasSuffix(b.String(), want) || strings.Contains(b.String(), "every promise") {
		t.Errorf("have %s, want it to end with %q", b.String(), want)
	}
}

func TestSweepSummary(t *testing.T) {
	began := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	s := NewSweep(sim.Sweep{Seeds: 10, LongWorlds: 1, SimHours: 20.2, Faults: sim.Counts{"elections": 3}, Sometimes: sim.Counts{"surrenders": 4}}, 5, "abc", began, 1500*time.Millisecond)
	s.Go, s.CPU = "go1.0", "a processor"
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := `sweep         10 random worlds from seed 5, 1 of them long,
              20.2 simulated hours in 1.5s
made by       commit abc, go1.0, 2026-03-04
on            a processor
promises      every promise kept in every run
overshoot     0 tokens over the Bound in the worst window,
              0 where a clock was frozen on purpose

faults fired
            3  elections

sometimes
            4  surrenders

every state of interest was reached
`
	if b.String() != want {
		t.Errorf("have\n%s\nwant\n%s", b.String(), want)
	}
	s.Violations, s.Partial, s.Unreached = 1, true, []string{"releases"}
	s.Failed = []sim.Report{{Seed: 7, Violations: []sim.Violation{{Promise: "I1", At: quota.Second, What: "too much"}}}}
	b.Reset()
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"from seed 5 (ended early: go on with --first 15)", "BROKEN in 1 of 10 runs", "seed 7; see how with: quorate-sim replay 7 --trace\n  I1 at 1s: too much\n", "never reached\n  releases\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("have\n%s\nwant %q", b.String(), want)
		}
	}
}
