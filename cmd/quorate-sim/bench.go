package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/logging"
	"github.com/quorate/quorate/cmd/internal/output"
	"github.com/quorate/quorate/cmd/internal/version"
	"github.com/quorate/quorate/sim/bench"
	"github.com/quorate/quorate/sim/report"
)

// benchOptions are the flags of a bench.
type benchOptions struct {
	workloads []string
	seeds     int
	chart     string
	dir       string
	format    output.Format
}

func benchCommand() *cobra.Command {
	var o benchOptions
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure utilization and overshoot against other ways to hold a limit",
		Long: `bench asks quorate and others the same requests in virtual time: a fixed part of
the limit for each region (static), the whole limit in each region (independent),
and regions that tell one another what they admitted (gossip). It prints how much
of what one central bucket would admit each of them admits, and how much it admits
beyond the limit. Every figure is the median over the seeds.

Ctrl-C prints the workloads that are done; files are written for all only.

Exit code 1 says that quorate broke a promise. A goal that is missed is marked, and
is no failure.`,
		Example: `  quorate-sim bench
  quorate-sim bench --workload 'follow the sun' --workload 'flash crowd 10x' --seeds 1 -o json
  quorate-sim bench --out sim/results`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.seeds < 1 {
				return cli.Fail(cli.Usage, fmt.Errorf("--seeds %d: a bench needs at least one", o.seeds), "See quorate-sim bench --help.")
			}
			chosen, err := chooseWorkloads(o.workloads)
			if err != nil {
				return err
			}
			if o.dir != "" {
				// Before the bench, which takes a while.
				if err := os.MkdirAll(o.dir, 0o755); err != nil {
					return cli.Fail(cli.Usage, fmt.Errorf("write results: %w", err), "")
				}
			}
			return runBench(c, o, chosen)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.workloads, "workload", nil, "only the workload of this `NAME`; may be repeated")
	f.IntVar(&o.seeds, "seeds", 3, "how many seeds each workload runs with, from 1")
	f.StringVar(&o.chart, "chart", "", "also draw the result into `FILE`, as SVG")
	f.StringVar(&o.dir, "out", "", "also write bench.json, bench.txt and bench.svg into `DIR`")
	output.AddFlag(c, f, &o.format)
	// The error means that the completion exists already, which cannot be.
	_ = c.RegisterFlagCompletionFunc("workload", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return workloadNames(bench.Workloads()), cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

func workloadNames(all []bench.Workload) (names []string) {
	for _, w := range all {
		names = append(names, w.Name)
	}
	return names
}

// chooseWorkloads returns the workloads with the names in their usual order, all of
// them for no names.
func chooseWorkloads(names []string) ([]bench.Workload, error) {
	all := bench.Workloads()
	known := workloadNames(all)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, cli.Fail(cli.Usage, fmt.Errorf("there is no workload %q", name), "There are: "+strings.Join(known, "; ")+".")
		}
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(w bench.Workload) bool { return !slices.Contains(names, w.Name) }), nil
}

func runBench(c *cobra.Command, o benchOptions, chosen []bench.Workload) error {
	ctx, began := c.Context(), time.Now()
	made := report.Here(version.String(), began)
	all := bench.Comparison{
		Origin:  bench.Origin{Commit: made.Commit, Go: made.Go, CPU: made.CPU, Date: made.Date, Command: typed("bench", c.Flags()), Seeds: o.seeds},
		Results: []bench.Result{},
	}
	p := progress{
		out: c.ErrOrStderr(), terminal: logging.Terminal(c.ErrOrStderr()), began: began,
		options: sweepOptions{seeds: uint64(len(chosen) * o.seeds)},
	}
	for i, w := range chosen {
		runs, err := runWorkload(ctx, w, o.seeds, func(done int) { p.done(i*o.seeds+done, 0) })
		if errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			p.clear()
			return err
		}
		all.Workloads = append(all.Workloads, w)
		all.Results = append(all.Results, bench.Medians(runs)...)
	}
	p.clear()
	if len(all.Workloads) == 0 {
		return cli.Fail(cli.Unavailable, errors.New("ended before the first workload was done: nothing was measured"), "")
	}
	partial := len(all.Workloads) < len(chosen)
	if partial {
		fmt.Fprintf(c.ErrOrStderr(), "ended early, with %d of %d workloads; no file was written\n", len(all.Workloads), len(chosen))
	} else if err := writeBench(c.ErrOrStderr(), o, all); err != nil {
		return err
	}
	return output.Write(c.OutOrStdout(), o.format, all.Results, all.WriteTable)
}

// runWorkload measures a workload with every seed, and ends between two of them
// with ctx.
func runWorkload(ctx context.Context, w bench.Workload, seeds int, done func(int)) (runs [][]bench.Result, err error) {
	for n := range seeds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		seed := uint64(n + 1)
		results, err := bench.Run(w, seed)
		if err != nil {
			err = fmt.Errorf("seed %d: %w", seed, err)
			if errors.Is(err, bench.ErrBroken) {
				return nil, cli.Fail(cli.No, err, "")
			}
			return nil, err
		}
		runs = append(runs, results)
		done(n + 1)
	}
	return runs, nil
}

// writeBench writes the files that were asked for.
func writeBench(talk io.Writer, o benchOptions, all bench.Comparison) error {
	type file struct {
		name  string
		write func(io.Writer) error
	}
	var files []file
	if o.chart != "" {
		files = append(files, file{o.chart, all.WriteChart})
	}
	if o.dir != "" {
		asJSON := func(w io.Writer) error { return output.Write(w, output.JSON, all.Results, nil) }
		files = append(files,
			file{filepath.Join(o.dir, "bench.json"), asJSON},
			file{filepath.Join(o.dir, "bench.txt"), all.WriteTable},
			file{filepath.Join(o.dir, "bench.svg"), all.WriteChart})
	}
	for _, f := range files {
		var b bytes.Buffer
		if err := f.write(&b); err != nil {
			return err
		}
		if err := os.WriteFile(f.name, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
	if len(files) > 0 && (all.Commit == "devel" || strings.HasSuffix(all.Commit, "dirty")) {
		fmt.Fprintf(talk, "the files name commit %s: nobody can make them again. Use go run -buildvcs=true in a clean tree.\n", all.Commit)
	}
	return nil
}

// typed returns the command that makes the same again. It runs the source code,
// because that is what a commit names; go run does not say the commit by itself.
func typed(command string, flags *pflag.FlagSet) string {
	words := []string{"go run -buildvcs=true ./cmd/quorate-sim " + command}
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			words = append(words, "--"+f.Name+" "+quoted(v))
		}
	})
	return strings.Join(words, " ")
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./=+-]+$`)

// quoted returns a word as a shell reads it.
func quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
