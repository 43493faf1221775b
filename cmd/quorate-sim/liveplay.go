package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/output"
	"github.com/quorate/quorate/cmd/internal/version"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/live/play"
	"github.com/quorate/quorate/sim/scenario"
)

// Flags of `live` that only the demo has, or only a scenario.
var (
	demoFlags     = []string{"rate", "burst", "json", "store", "plain"}
	scenarioFlags = []string{"coordinators", "sentinel", "output"}
)

// onlyFor refuses flags that are for something else.
func onlyFor(c *cobra.Command, what string, flags []string) error {
	for _, name := range flags {
		if c.Flags().Changed(name) {
			return cli.Fail(cli.Usage, fmt.Errorf("--%s is for %s only", name, what), "See quorate-sim live --help.")
		}
	}
	return nil
}

// livePlay plays a scenario on real processes.
type livePlay struct {
	options play.Options
	format  output.Format
}

// livePlayed is a run on real processes as JSON.
type livePlayed struct {
	play.Report
	Commit string `json:"commit"`
}

func (l *livePlay) run(c *cobra.Command, file string) error {
	if err := onlyFor(c, "the demo, which has no scenario,", demoFlags); err != nil {
		return err
	}
	s, err := scenario.Load(file)
	if err != nil {
		return unreadable(file, err)
	}
	o := l.options
	o.Scenario, o.Out = s, c.ErrOrStderr()
	if !c.Flags().Changed("seed") {
		o.Seed = s.Seed
	}
	if !c.Flags().Changed("duration") {
		o.Duration = 0
	}
	report, err := play.Run(c.Context(), o)
	var wrong rules.Problems
	switch {
	case errors.As(err, &wrong):
		return cli.Fail(cli.Usage, fmt.Errorf("%s cannot be played on real processes:\n%w", file, wrong), "`quorate-sim run` plays it in virtual time.")
	case errors.Is(err, play.ErrOptions):
		return cli.Fail(cli.Usage, err, "See quorate-sim live --help.")
	case len(report.Keys) == 0:
		if errors.Is(err, context.Canceled) {
			err = errors.New("ended before the load began: nothing was measured")
		}
		return cli.Fail(cli.Unavailable, err, "")
	}
	whole := livePlayed{Report: report, Commit: version.String()}
	if failed := output.Write(c.OutOrStdout(), l.format, whole, func(w io.Writer) error { return report.Write(w) }); failed != nil {
		return errors.Join(err, failed)
	}
	switch {
	case report.Broken():
		return cli.Fail(cli.No, fmt.Errorf("a promise was broken: %s, seed %d", report.Violations[0].Promise, o.Seed), "Run it with --keep DIR to have the logs of all processes.")
	case err != nil:
		return cli.Fail(cli.Unavailable, err, "")
	}
	return nil
}
