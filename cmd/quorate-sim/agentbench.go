package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/logging"
	"github.com/quorate/quorate/cmd/internal/output"
	"github.com/quorate/quorate/cmd/internal/version"
	"github.com/quorate/quorate/sim/agentbench"
	"github.com/quorate/quorate/sim/report"
)

// agentBenchOptions are the flags of a bench of the agent.
type agentBenchOptions struct {
	workloads   []string
	concurrency []int
	rounds      int
	time        time.Duration
	peer        string
	profile     string
	format      output.Format
}

func agentBenchCommand() *cobra.Command {
	var o agentBenchOptions
	c := &cobra.Command{
		Use:   "bench-agent",
		Short: "Measure what a decision of an agent costs on this machine",
		Long: `bench-agent asks a real agent over gRPC on the loopback, with a real redis-server
behind it, with and without allowances, and two others in turn with it: an RLS handler
that decides nothing, and an agent that makes one script call for each request. With
--peer it measures another RLS server beside them. It prints decisions a second
and for each second of CPU time (server and Redis), latencies, and what Redis had to
do. Figures are medians over the rounds. It takes real time, about rounds x 2 to 3 minutes.

On a busy machine only the ratios mean something.`,
		Example: `  quorate-sim bench-agent
  quorate-sim bench-agent --workload 'hot key' --concurrency 50 --rounds 5 -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runAgentBench(c, o) },
	}
	f := c.Flags()
	f.StringArrayVar(&o.workloads, "workload", nil, "only the workload of this `NAME`; may be repeated")
	f.IntSliceVar(&o.concurrency, "concurrency", []int{1, 50, 200}, "how many callers ask at the same time")
	f.IntVar(&o.rounds, "rounds", 3, "how often everything is measured")
	f.DurationVar(&o.time, "time", time.Second, "how long one measurement takes")
	f.StringVar(&o.peer, "peer", "", "also measure the RLS server of this shell `COMMAND`; it gets its Redis in $REDIS and the port to open in $PORT")
	f.StringVar(&o.profile, "cpuprofile", "", "also write a CPU profile of the agent into `FILE`, for go tool pprof")
	output.AddFlag(c, f, &o.format)
	// The error means that the completion exists already, which cannot be.
	_ = c.RegisterFlagCompletionFunc("workload", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return agentWorkloadNames(), cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

func agentWorkloadNames() (names []string) {
	for _, w := range agentbench.Workloads() {
		names = append(names, w.Name)
	}
	return names
}

func runAgentBench(c *cobra.Command, o agentBenchOptions) error {
	usage := func(format string, args ...any) error {
		return cli.Fail(cli.Usage, fmt.Errorf(format, args...), "See quorate-sim bench-agent --help.")
	}
	known := agentWorkloadNames()
	for _, name := range o.workloads {
		if !slices.Contains(known, name) {
			return cli.Fail(cli.Usage, fmt.Errorf("there is no workload %q", name), "There are: "+strings.Join(known, "; ")+".")
		}
	}
	switch {
	case o.rounds < 1:
		return usage("--rounds %d: at least one is needed", o.rounds)
	case o.time < 10*time.Millisecond:
		return usage("--time %s: at least 10ms are needed", o.time)
	case len(o.concurrency) == 0 || slices.Min(o.concurrency) < 1:
		return usage("--concurrency: give one or more numbers above 0")
	}
	cfg := agentbench.Config{Concurrency: o.concurrency, Rounds: o.rounds, Time: o.time, Workloads: agentbench.Workloads(), Profile: o.profile, Peer: o.peer}
	if len(o.workloads) > 0 {
		cfg.Workloads = slices.DeleteFunc(cfg.Workloads, func(w agentbench.Workload) bool { return !slices.Contains(o.workloads, w.Name) })
	}
	talk := c.ErrOrStderr()
	if logging.Terminal(talk) {
		cfg.Progress = func(done, all int, what string) { fmt.Fprintf(talk, "\r\x1b[K%d/%d %s", done, all, what) }
		defer fmt.Fprint(talk, "\r\x1b[K")
	}
	began := time.Now()
	results, err := agentbench.Run(c.Context(), cfg)
	if err == nil {
		err = c.Context().Err()
	}
	if err != nil {
		return cli.Fail(cli.Unavailable, errors.Join(errors.New("nothing was measured"), err), "")
	}
	inProcess, err := agentbench.InProcess(o.rounds, o.time/5)
	if err != nil {
		return err
	}
	all := agentbench.Report{
		Origin: report.Here(version.String(), began), Command: typed("bench-agent", c.Flags()), Rounds: o.rounds,
		Results: results, InProcess: inProcess,
	}
	return output.Write(c.OutOrStdout(), o.format, all, all.WriteTable)
}
