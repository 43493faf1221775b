// Package cli holds what all quorate commands have in common: exit codes, error
// texts, signals and the shape of the root command.
//
// Every command speaks one grammar to scripts. Standard output is data, standard
// error is talk, and the exit code says which kind of answer it was.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/version"
)

// The exit codes of every quorate command.
const (
	// OK: yes, done, nothing changed, no difference.
	OK = 0
	// No: the question was answered, and the answer is no (differs, denied,
	// unhealthy, bound broken).
	No = 1
	// Usage: the command line or an input was wrong. Trying again does not help.
	Usage = 2
	// Unavailable: nobody could be reached, or the server failed.
	Unavailable = 3
	// Conflict: somebody else changed it meanwhile.
	Conflict = 4
	// NotPermitted: the caller may not do this.
	NotPermitted = 5
)

// Error is an error with the exit code it means and what to do about it.
type Error struct {
	Code int
	Err  error
	// Hint is a sentence on what to try next, empty when there is nothing to say.
	Hint string
	// Said means that the output already holds the answer: only the code counts.
	Said bool
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Fail returns err with an exit code and a hint, which may be empty.
func Fail(code int, err error, hint string) error { return &Error{Code: code, Err: err, Hint: hint} }

// Usagef returns an error of bad usage or input.
func Usagef(format string, args ...any) error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, args...)}
}

// Answer returns the error of a command whose output already says the answer,
// so that nothing is added to it but the exit code.
func Answer(code int) error {
	return &Error{Code: code, Err: fmt.Errorf("exit code %d", code), Said: true}
}

// CodeOf returns the exit code that err means. What carries no code comes from
// cobra itself and is a mistake on the command line.
func CodeOf(err error) int {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	}
	return Usage
}

// Root returns a root command that follows the conventions: Run alone prints
// errors, --version is there, an unknown command is answered with the nearest
// one. Give it a RunE to make it do something without a command.
func Root(name, short, long string) *cobra.Command {
	c := Group(name, short)
	c.Long, c.Version = long, version.String()
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return Fail(Usage, err, seeHelp(c))
	})
	return c
}

// Group returns a command that only holds others. Called without one of them it
// prints its help and fails.
func Group(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noCommand, SuggestionsMinimumDistance: 2}
	c.RunE = func(c *cobra.Command, _ []string) error {
		c.SetOut(c.ErrOrStderr())
		if err := c.Help(); err != nil {
			return fmt.Errorf("print help: %w", err)
		}
		return Answer(Usage)
	}
	c.AddCommand(children...)
	return c
}

// noCommand refuses arguments, which here can only be commands misspelt.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := seeHelp(c)
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("Did you mean %s?", strings.Join(near, " or "))
	}
	return Fail(Usage, fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath()), hint)
}

func seeHelp(c *cobra.Command) string { return fmt.Sprintf("See %s --help.", c.CommandPath()) }

// Main runs root with the arguments and streams of the process and returns its
// exit code. The first SIGINT or SIGTERM ends the command's context, so that a
// server drains and a long command prints what it has; the second one kills.
func Main(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return Run(ctx, root, os.Args[1:], os.Stdout, os.Stderr)
}

// Run runs root and returns the exit code. An error is printed to stderr as one
// sentence, with its hint on a second line.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	assumeFailure(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return OK
	}
	var e *Error
	if errors.As(err, &e) && e.Said {
		return e.Code
	}
	text, more, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	fmt.Fprintf(stderr, "%s: %s\n", root.Name(), text)
	if more = strings.TrimSpace(more); more != "" {
		fmt.Fprintln(stderr, more)
	}
	if e != nil && e.Hint != "" {
		fmt.Fprintln(stderr, e.Hint)
	}
	return CodeOf(err)
}

// assumeFailure gives what commands return without a code the code of a
// failure: by the time a command runs, its command line was fine.
func assumeFailure(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			err := run(c, args)
			var e *Error
			if err == nil || errors.As(err, &e) {
				return err
			}
			return Fail(Unavailable, err, "")
		}
	}
	for _, child := range c.Commands() {
		assumeFailure(child)
	}
}
