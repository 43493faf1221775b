package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/output"
	"github.com/quorate/quorate/cmd/internal/version"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/report"
	"github.com/quorate/quorate/sim/scenario"
)

// swarm is the word for a plan that the seed draws.
const swarm = "swarm"

func runCommand() *cobra.Command {
	var seed uint64
	var trace bool
	var format output.Format
	c := &cobra.Command{
		Use:   "run SCENARIO|swarm",
		Short: "Run a scenario in virtual time and draw what happened",
		Long: `run plays a scenario file in virtual time and draws demand, leases and admissions
of each region; or, with the word swarm, a world whose load and faults the seed
draws, printed first as a scenario. The same scenario, seed and commit give the
same run, event by event.

Exit code 1 says that a promise was broken.`,
		Example: `  quorate-sim run sim/testdata/cut-off.yaml
  quorate-sim run sim/testdata/flash.yaml --seed 7 -o json | jq .utilization
  quorate-sim run swarm --seed 17`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Fail(cli.Usage, fmt.Errorf("%d arguments: name one scenario file, or swarm", len(args)), "See quorate-sim run --help.")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] == swarm {
				return simulate(c, drawn(seed), true, trace, format)
			}
			s, err := scenario.Load(args[0])
			if err != nil {
				return unreadable(args[0], err)
			}
			if c.Flags().Changed("seed") {
				s.Seed = seed
			}
			return simulate(c, s, false, trace, format)
		},
	}
	f := c.Flags()
	f.Uint64Var(&seed, "seed", 1, "seed of the arrivals and of all that goes wrong; default is the scenario's, or 1")
	f.BoolVar(&trace, "trace", false, "tell event by event what happens")
	output.AddFlag(c, f, &format)
	return c
}

// unreadable is the error of a scenario that there is not, or that is wrong.
func unreadable(file string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Fail(cli.Usage, err, "Name a scenario file, for example one of sim/testdata, or the word swarm.")
	}
	return cli.Fail(cli.Usage, fmt.Errorf("%s is no scenario:\n%w", file, err), "")
}

// drawn is the world of a seed.
func drawn(seed uint64) scenario.Scenario {
	return scenario.Scenario{Seed: seed, Plan: sim.Draw(seed)}
}

// result is a run as JSON.
type result struct {
	sim.Report
	// Utilization is that of the first key.
	Utilization float64 `json:"utilization"`
	Commit      string  `json:"commit"`
	// Scenario runs the same again, with this commit.
	Scenario string      `json:"scenario"`
	Trace    []traceLine `json:"trace,omitempty"`
}

type traceLine struct {
	AtUS quota.Micros `json:"at_us"`
	Text string       `json:"text"`
}

// simulate runs a scenario and prints what happened. What a seed has drawn is printed
// before the run begins, so that it is known whatever becomes of the run.
func simulate(c *cobra.Command, s scenario.Scenario, drawn, trace bool, format output.Format) error {
	out := c.OutOrStdout()
	s.Plan.KeepLeases = true // to say how much they move
	text := scenario.Format(s.Plan, s.Seed)
	if drawn && format == output.Table {
		fmt.Fprintf(out, "# drawn by seed %d at commit %s\n%s\n", s.Seed, version.String(), text)
	}
	var lines []traceLine
	var tell func(quota.Micros, string)
	switch {
	case trace && format == output.Table:
		tell = func(at quota.Micros, line string) {
			fmt.Fprintf(out, "%12.6fs  %s\n", (at - s.Plan.Start).Duration().Seconds(), line)
		}
	case trace:
		tell = func(at quota.Micros, line string) { lines = append(lines, traceLine{at - s.Plan.Start, line}) }
	}
	r, err := sim.Trace(s.Plan, s.Seed, tell)
	if err != nil {
		return cli.Fail(cli.Usage, fmt.Errorf("run scenario: %w", err), "")
	}
	if trace && format == output.Table {
		fmt.Fprintln(out)
	}
	shown := r
	shown.Violations = []sim.Violation{}
	for _, v := range r.Violations {
		v.At -= s.Plan.Start // as everywhere else in the output
		shown.Violations = append(shown.Violations, v)
	}
	whole := result{Report: shown, Utilization: r.Keys[0].Utilization(), Commit: version.String(), Scenario: text, Trace: lines}
	err = output.Write(out, format, whole, func(w io.Writer) error {
		return report.Run{About: s.About, Plan: s.Plan, Result: r}.Write(w)
	})
	if err != nil {
		return err
	}
	if r.Broken() {
		return cli.Fail(cli.No, fmt.Errorf("a promise was broken: %s, seed %d", r.Violations[0].Promise, s.Seed), "Run it with --trace to see how it came to that.")
	}
	return nil
}
