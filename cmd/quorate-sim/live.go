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
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/live/demo"
)

func liveCommand() *cobra.Command {
	o := demo.Options{}
	var report, store string
	var plain bool
	c := &cobra.Command{
		Use:   "live",
		Short: "Hold one limit over three regions on this machine, under load and faults",
		Long: `live starts three coordinators and three regions as processes on this machine,
with a wide-area network between them and a Redis per region (redis-server when it
is installed, else an embedded one). Demand of twice the limit moves between the
regions; a flash crowd comes and goes, the leader is killed, a region is cut off
and healed. An auditor that sees admitted requests only measures the Bound.

On a terminal it shows a live view, elsewhere a line a second. Ctrl-C ends it early
and prints what was measured. Everything listens on 127.0.0.1 and ends with it.`,
		Example: `  quorate-sim live
  quorate-sim live --duration 20s --seed 7 --json result.json
  quorate-sim live --json - 2>/dev/null | jq .utilization`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
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
	f.DurationVar(&o.Duration, "duration", time.Minute, "how long the load runs")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the network's delays and of the arrivals")
	f.Uint32Var(&o.Rate, "rate", 400, "the limit, in requests a second")
	f.Uint32Var(&o.Burst, "burst", 400, "the limit's burst, in requests")
	f.StringVar(&report, "json", "", "write the result as JSON to `FILE`, - for standard output")
	f.StringVar(&store, "store", "auto", "the regions' stores: auto, redis or embedded")
	f.StringVar(&o.Keep, "keep", "", "keep stores and logs in this `DIR`, which must be empty")
	f.BoolVar(&plain, "plain", false, "a line a second, also on a terminal")
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
