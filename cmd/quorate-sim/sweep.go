package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/logging"
	"github.com/quorate/quorate/cmd/internal/output"
	"github.com/quorate/quorate/cmd/internal/version"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/report"
)

// sweepOptions are the flags of a sweep.
type sweepOptions struct {
	seeds  uint64
	first  uint64
	length time.Duration
	stop   bool
	file   string
	format output.Format
}

func sweepCommand() *cobra.Command {
	var o sweepOptions
	c := &cobra.Command{
		Use:   "sweep",
		Short: "Run many random worlds and check every promise in each",
		Long: `sweep runs the worlds of many seeds on all cores: each draws its limit, regions,
load, and which faults are on and how strong they are. Most worlds last a minute or
two; every twentieth lasts 10 to 30 hours, with load and faults minutes apart. It
counts the faults that fired and the states that were reached, and names the states
that never were.

Ctrl-C ends it early and prints what was found so far; the summary says with which
--first to go on, and quorate-sim report makes one summary of several parts. Exit
code 1 says that a promise was broken; each seed can be run again with quorate-sim
replay.`,
		Example: `  quorate-sim sweep --seeds 2000
  quorate-sim sweep --for 10m --first 100000 -o json > sweep.json
  quorate-sim sweep --seeds 100000 --json sweep.json    # 100,000 hours; see make sweep`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			timed, counted := c.Flags().Changed("for"), c.Flags().Changed("seeds")
			switch {
			case timed && o.length <= 0:
				return cli.Fail(cli.Usage, fmt.Errorf("--for %v: a sweep needs some time", o.length), "See quorate-sim sweep --help.")
			case o.seeds == 0 || o.seeds > math.MaxInt:
				return cli.Fail(cli.Usage, fmt.Errorf("--seeds %d: a sweep needs at least one", o.seeds), "See quorate-sim sweep --help.")
			case timed && !counted:
				o.seeds = math.MaxInt
			}
			return sweep(c, o)
		},
	}
	f := c.Flags()
	f.Uint64Var(&o.seeds, "seeds", 1000, "how many seeds to run; without end with --for alone")
	f.DurationVar(&o.length, "for", 0, "end after this time, with the runs that are under way")
	f.Uint64Var(&o.first, "first", 1, "the first seed")
	f.BoolVar(&o.stop, "stop-at-first", false, "end with the first broken promise")
	f.StringVar(&o.file, "json", "", "also write the result as JSON to `FILE`")
	output.AddFlag(c, f, &o.format)
	return c
}

func sweep(c *cobra.Command, o sweepOptions) error {
	ctx, began := c.Context(), time.Now()
	if ctx.Err() != nil {
		return nothingChecked()
	}
	if os.Getenv("GOGC") == "" {
		// A world is a few megabytes that live as long as its run: to look for
		// garbage among them less often saves a fifth of the time.
		defer debug.SetGCPercent(debug.SetGCPercent(sweepGC))
	}
	if o.length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.length)
		defer cancel()
	}
	p := progress{out: c.ErrOrStderr(), terminal: logging.Terminal(c.ErrOrStderr()), began: began, options: o}
	found, err := sim.RunSweep(ctx, sim.SweepOptions{First: o.first, Seeds: int(o.seeds), StopAtFirst: o.stop, Progress: p.done})
	p.clear()
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	if found.Seeds == 0 { // a run that has begun is finished
		return nothingChecked()
	}
	s := report.NewSweep(found, o.first, version.String(), began, time.Since(began))
	s.Partial = c.Context().Err() != nil
	if o.file != "" {
		if err := writeJSON(o.file, s); err != nil {
			return err
		}
	}
	if err := output.Write(c.OutOrStdout(), o.format, s, s.Write); err != nil {
		return err
	}
	if !s.Broken() {
		return nil
	}
	var seeds []string
	for _, r := range s.Failed {
		seeds = append(seeds, fmt.Sprint(r.Seed))
	}
	more := ""
	if s.Violations > len(s.Failed) {
		more = ", …"
	}
	return cli.Fail(cli.No, fmt.Errorf("%d of %d runs broke a promise: seeds %s%s", s.Violations, s.Seeds, strings.Join(seeds, ", "), more),
		fmt.Sprintf("See how with quorate-sim replay %s --trace.", seeds[0]))
}

// sweepGC is how much the heap may grow between two collections, in percent of
// what is in use.
const sweepGC = 400

func nothingChecked() error {
	return cli.Fail(cli.Unavailable, errors.New("ended before the first run: nothing was checked"), "")
}

func writeJSON(file string, s report.Sweep) error {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	err = output.Write(f, output.JSON, s, nil)
	return errors.Join(err, f.Close())
}

// progress tells how a sweep goes: on one line of a terminal, elsewhere with a line
// every ten seconds.
type progress struct {
	out      io.Writer
	terminal bool
	began    time.Time
	told     time.Time
	width    int // of the line on the terminal
	options  sweepOptions
}

const (
	tellTerminal = 200 * time.Millisecond
	tellLog      = 10 * time.Second
)

// done is called after each run, one call at a time.
func (p *progress) done(runs int, hours float64) {
	now := time.Now()
	every := tellLog
	if p.terminal {
		every = tellTerminal
	}
	if p.told.IsZero() {
		p.told = p.began
	}
	if now.Sub(p.told) < every {
		return
	}
	p.told = now
	line := p.options.status(runs, hours, now.Sub(p.began))
	if !p.terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	fmt.Fprintf(p.out, "\r%-*s", p.width, line)
	p.width = max(p.width, len(line))
}

// clear takes the line off the terminal.
func (p *progress) clear() {
	if p.width > 0 {
		fmt.Fprintf(p.out, "\r%-*s\r", p.width, "")
	}
}

// status says how far a sweep is and when it will end: by the number of runs, or
// by the time that it has, whichever comes first.
func (o sweepOptions) status(runs int, hours float64, took time.Duration) string {
	rate := float64(runs) / took.Seconds()
	text := fmt.Sprintf("%d runs", runs)
	left := time.Duration(math.MaxInt64)
	if o.seeds < math.MaxInt {
		text = fmt.Sprintf("%d of %d runs", runs, o.seeds)
		left = time.Duration(float64(o.seeds-uint64(runs)) / rate * float64(time.Second))
	}
	if o.length > 0 {
		left = min(left, o.length-took)
	}
	text += fmt.Sprintf(", %.0f a second", rate)
	if hours > 0 {
		text += fmt.Sprintf(", %.0f simulated hours", hours)
	}
	return text + fmt.Sprintf(", ends in about %v", max(left, 0).Round(time.Second))
}
