package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/logging"
	"github.com/quorate/quorate/cmd/internal/output"
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/live/demo"
)

func liveCommand() *cobra.Command {
	o := demo.Options{}
	s := &livePlay{}
	var report, store string
	var plain bool
	c := &cobra.Command{
		Use:   "live [SCENARIO]",
		Short: "Hold limits on real processes on this machine, under load and faults",
		Long: `live starts three coordinators and three regions as processes on this machine,
with a wide-area network between them and a Redis per region (redis-server when it
is installed, else an embedded one). Demand of twice the limit moves between the
regions; a flash crowd comes and goes, the leader is killed, a region is cut off
and healed. An auditor that sees admitted requests only measures the Bound.

With a scenario file it plays that: the load, faults and limits that ` + "`quorate-sim run`" + `
has in virtual time, on processes that are killed and stopped, lines that lose and
delay, and a redis-server per region. What no real process can do is refused by its
place in the file. Afterwards everything heals, and each region must get its fair
share again. The report is the one of run; what happens meanwhile is told on
standard error. The same seed asks for the same and goes wrong the same, but real
processes never run twice alike.

On a terminal the first shows a live view, elsewhere a line a second. Ctrl-C ends it
early and prints what was measured. Everything listens on 127.0.0.1 and ends with it.`,
		Example: `  quorate-sim live
  quorate-sim live --duration 20s --seed 7 --json result.json
  quorate-sim live --json - 2>/dev/null | jq .utilization
  quorate-sim live sim/testdata/cut-off.yaml
  quorate-sim live sim/testdata/live/failover.yaml --duration 30s --seed 7 -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Fail(cli.Usage, fmt.Errorf("%d arguments: name one scenario file, or none for the demo", len(args)), "See quorate-sim live --help.")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				s.options.Seed, s.options.Duration, s.options.Keep = o.Seed, o.Duration, o.Keep
				return s.run(c, args[0])
			}
			if err := onlyFor(c, "a scenario", scenarioFlags); err != nil {
				return err
			}
			o.Store = live.Store(store)
			if store == "auto" {
				o.Store = live.StoreAny
			}
			if err := o.Validate(); err != nil {
				return cli.Fail(cli.Usage, err, "See quorate-sim live --help.")
			}
			// With the report on standard output, everything else is talk.
			o.Out, o.Input = c.OutOrStdout(), os.Stdin
			if report == "-" {
				o.Out = c.ErrOrStderr()
			}
			o.View = !plain && logging.Terminal(o.Out) && logging.Terminal(os.Stdin)
			return runLive(c.Context(), o, report, c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.DurationVar(&o.Duration, "duration", time.Minute, "how long the load runs; default is the scenario's, whose times shrink or grow with it")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the arrivals and of all that goes wrong; default is the scenario's, or 1")
	f.Uint32Var(&o.Rate, "rate", 400, "the limit, in requests a second")
	f.Uint32Var(&o.Burst, "burst", 400, "the limit's burst, in requests")
	f.StringVar(&report, "json", "", "write the result as JSON to `FILE`, - for standard output")
	f.StringVar(&store, "store", "auto", "the regions' stores: auto, redis or embedded")
	f.StringVar(&o.Keep, "keep", "", "keep stores and logs in this `DIR`, which must be empty")
	f.BoolVar(&plain, "plain", false, "a line a second, also on a terminal")
	f.IntVar(&s.options.Coordinators, "coordinators", 0, "of a scenario: 3 or 5 nodes; default is what it says, or 3")
	f.BoolVar(&s.options.Sentinel, "sentinel", false, "of a scenario: a pair of Redis with Sentinels for each region")
	output.AddFlag(c, f, &s.format)
	return c
}

func runLive(ctx context.Context, o demo.Options, report string, stdout io.Writer) error {
	summary, err := demo.Run(ctx, o)
	if summary.Regions == 0 {
		if errors.Is(err, context.Canceled) {
			err = errors.New("ended before the load began: nothing was measured")
		}
		return cli.Fail(cli.Unavailable, err, "")
	}
	summary.Write(o.Out)
	if report != "" {
		if failed := writeReport(report, stdout, summary); failed != nil {
			return cli.Fail(cli.Unavailable, errors.Join(err, failed), "")
		}
	}
	switch {
	case summary.Broken():
		return cli.Fail(cli.No, fmt.Errorf("the bound was broken by %g tokens", summary.OvershootTokens), "")
	case err != nil:
		return cli.Fail(cli.Unavailable, err, "")
	}
	return nil
}

func writeReport(path string, stdout io.Writer, summary demo.Summary) error {
	data, err := json.MarshalIndent(summary, "", "  ")
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	data = append(data, '\n')
	if path == "-" {
		_, err = stdout.Write(data)
	} else {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
