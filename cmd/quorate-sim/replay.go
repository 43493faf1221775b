package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/output"
)

func replayCommand() *cobra.Command {
	var trace bool
	var format output.Format
	c := &cobra.Command{
		Use:   "replay SEED",
		Short: "Run one seed of a sweep again",
		Long: `replay runs the world of one seed again: the same as in the sweep, event by event,
if the commit is the same. What the seed has drawn is printed first, as a scenario.

Exit code 1 says that a promise was broken.`,
		Example: `  quorate-sim replay 4711 --trace`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Fail(cli.Usage, errSeed(args), "See quorate-sim replay --help.")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			seed, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return cli.Fail(cli.Usage, errSeed(args), "A seed is a whole number, as a sweep names it.")
			}
			return simulate(c, drawn(seed), true, trace, format)
		},
	}
	c.Flags().BoolVar(&trace, "trace", false, "tell event by event what happens")
	output.AddFlag(c, c.Flags(), &format)
	return c
}

func errSeed(args []string) error { return cli.Usagef("replay needs one seed, not %q", args) }
