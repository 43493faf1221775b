package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/output"
	"github.com/quorate/quorate/sim/mutants"
)

func mutantsCommand() *cobra.Command {
	var format output.Format
	var seeds int
	var list bool
	c := &cobra.Command{
		Use:   "mutants [NAME...]",
		Short: "Put known bugs back into the code and say which checker finds each",
		Long: `mutants puts known bugs back, one at a time, and hunts each with random worlds
until a promise breaks: all promises of quorate-sim, in the order of their seeds.
Bugs of adapters, which the simulator replaces, and bugs that it meets too rarely
are hunted by a test of their package.
A bug that is not found means that a fault or a checker is missing.

The bugs are edits of the source code, compiled with go build -overlay; nothing
is written into the source tree. It needs to run inside of it, with Go installed,
and for some bugs a redis-server.

Exit codes: 0 all were found, 1 one was not, 2 bad usage, 3 the hunt failed.`,
		Example: `  quorate-sim mutants
  quorate-sim mutants --list
  quorate-sim mutants missing-is-full refund-on-expiry --seeds 500 -o json`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return mutantNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, names []string) error {
			if seeds < 1 {
				return cli.Usagef("--seeds %d: at least one", seeds)
			}
			chosen, err := choose(names)
			if err != nil {
				return err
			}
			if list {
				return listMutants(c.OutOrStdout(), format, chosen)
			}
			return huntMutants(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), format, seeds, chosen)
		},
	}
	f := c.Flags()
	f.IntVar(&seeds, "seeds", 5000, "random worlds per bug at most")
	f.BoolVar(&list, "list", false, "only say which bugs there are, and what they break")
	output.AddFlag(c, f, &format)
	return c
}

func mutantNames() (names []string) {
	for _, m := range mutants.All() {
		names = append(names, m.Name)
	}
	return names
}

// choose returns the mutants with the names, all of them for no names.
func choose(names []string) ([]mutants.Mutant, error) {
	if len(names) == 0 {
		return mutants.All(), nil
	}
	var chosen []mutants.Mutant
	for _, name := range names {
		m, ok := mutants.Find(name)
		if !ok {
			return nil, cli.Fail(cli.Usage, fmt.Errorf("there is no mutant %q", name), "quorate-sim mutants --list names them.")
		}
		chosen = append(chosen, m)
	}
	return chosen, nil
}

// listed is a mutant for programs.
type listed struct {
	Mutant string   `json:"mutant"`
	Breaks string   `json:"breaks"`
	Files  []string `json:"files"`
	Test   string   `json:"test,omitempty"`
}

func listMutants(w io.Writer, format output.Format, chosen []mutants.Mutant) error {
	all, rows := []listed{}, [][]string{}
	for _, m := range chosen {
		l := listed{Mutant: m.Name, Breaks: m.Breaks, Test: m.Test.Name}
		for _, e := range m.Edits {
			if !slices.Contains(l.Files, e.File) {
				l.Files = append(l.Files, e.File)
			}
		}
		all, rows = append(all, l), append(rows, []string{m.Name, m.Breaks})
	}
	return output.Write(w, format, all, func(w io.Writer) error {
		return output.Columns(w, []string{"MUTANT", "BREAKS"}, rows)
	})
}

// huntMutants hunts one after another and prints what it has found, also when it
// is interrupted.
func huntMutants(ctx context.Context, w, talk io.Writer, format output.Format, seeds int, chosen []mutants.Mutant) error {
	h, err := mutants.Open(ctx, seeds)
	if errors.Is(err, mutants.ErrNoTree) {
		return cli.Fail(cli.Usage, err, "Install Go, clone the repository, and run `go run ./cmd/quorate-sim mutants` in it.")
	}
	if err != nil {
		return cli.Fail(cli.Unavailable, err, "")
	}
	defer h.Close() //nolint:errcheck // a directory of the system's temporary ones is left
	began := time.Now()
	findings := []mutants.Finding{}
	missed := false
	var failed error
	for i, m := range chosen {
		fmt.Fprintf(talk, "%d/%d %s: ", i+1, len(chosen), m.Name)
		start := time.Now()
		f, err := h.Mutant(ctx, m)
		if err != nil {
			if ctx.Err() != nil {
				err = errors.New("interrupted: the other mutants were not hunted")
			}
			fmt.Fprintln(talk, "no answer")
			failed = cli.Fail(cli.Unavailable, err, "")
			break
		}
		findings = append(findings, f)
		missed = missed || !f.Found
		fmt.Fprintf(talk, "%s (%v)\n", verdict(f), time.Since(start).Round(time.Second/10))
	}
	fmt.Fprintf(talk, "%d of %d hunted in %v\n", len(findings), len(chosen), time.Since(began).Round(time.Second))
	if err := output.Write(w, format, findings, func(w io.Writer) error { return drawFindings(w, findings) }); err != nil {
		return err
	}
	switch {
	case failed != nil:
		return failed
	case missed:
		return cli.Fail(cli.No, errors.New("a mutant was not found: a fault or a checker is missing"), "")
	}
	return nil
}

// verdict says in words who found a mutant.
func verdict(f mutants.Finding) string {
	switch {
	case !f.Found:
		return "NOT FOUND"
	case f.Seeds == 0:
		return "found by " + f.Checker
	}
	return fmt.Sprintf("found by %s at seed %d", f.Checker, f.Seeds)
}

func drawFindings(w io.Writer, findings []mutants.Finding) error {
	rows := [][]string{}
	for _, f := range findings {
		by, seeds := f.Checker, ""
		if !f.Found {
			by = "NOT FOUND"
		}
		if f.Seeds > 0 {
			seeds = strconv.Itoa(f.Seeds)
		}
		rows = append(rows, []string{f.Mutant, by, seeds})
	}
	return output.Columns(w, []string{"MUTANT", "FOUND BY", "SEEDS"}, rows)
}
