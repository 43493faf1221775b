// Command quorate-sim runs quorate against itself: `live` runs the real parts on
// this machine, with real load, and measures the Bound.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/sim/agentbench"
	"github.com/quorate/quorate/sim/live"
)

func main() {
	// A World starts this program again for each of its nodes.
	live.Main()
	// And a bench of the agent for each of its servers.
	agentbench.Main()
	os.Exit(cli.Main(root()))
}

func root() *cobra.Command {
	c := cli.Root("quorate-sim", "Run quorate against itself and measure the Bound",
		`quorate-sim runs quorate's own parts and measures from the outside what they
admit against what one central token bucket would have admitted.

Exit codes: 0 the Bound was kept, 1 it was broken, 2 bad usage, 3 a part failed.`)
	c.AddCommand(liveCommand(), mutantsCommand())
	c.AddCommand(runCommand(), replayCommand(), sweepCommand(), reportCommand())
	c.AddCommand(benchCommand(), agentBenchCommand())
	return c
}
