package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func tree() *cobra.Command {
	leaf := func(use string, err error) *cobra.Command {
		return &cobra.Command{Use: use, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			fmt.Fprintln(c.OutOrStdout(), use)
			return err
		}}
	}
	root := Root("tool", "A tool", "")
	root.AddCommand(Group("rules", "Rules",
		leaf("apply", Fail(Conflict, errors.New("rules are at version 3, not 2"), "Get them again.")),
		leaf("diff", Answer(No)),
		leaf("get", errors.New("connection refused"))))
	return root
}

func TestExitCodesAndErrorTexts(t *testing.T) {
	for _, c := range []struct {
		name, args string
		code       int
		out, err   string
	}{
		{"an error has a sentence and a hint", "rules apply", Conflict, "apply\n", "tool: rules are at version 3, not 2\nGet them again.\n"},
		{"an answer in the output needs no error text", "rules diff", No, "diff\n", ""},
		{"what carries no code is a failure", "rules get", Unavailable, "get\n", "tool: connection refused\n"},
		{"a misspelt command is answered with the nearest", "rules aply", Usage, "", "tool: unknown command \"aply\" for \"tool rules\"\nDid you mean apply?\n"},
		{"so is one at the top", "ruls", Usage, "", "tool: unknown command \"ruls\" for \"tool\"\nDid you mean rules?\n"},
		{"nothing near points to the help", "zebra", Usage, "", "tool: unknown command \"zebra\" for \"tool\"\nSee tool --help.\n"},
		{"an unknown flag is bad usage", "rules get --frce", Usage, "", "tool: unknown flag: --frce\nSee tool rules get --help.\n"},
		{"surplus arguments are bad usage", "rules get all", Usage, "", "tool: unknown command \"all\" for \"tool rules get\"\n"},
	} {
		var out, err bytes.Buffer
		code := Run(t.Context(), tree(), strings.Fields(c.args), &out, &err)
		if code != c.code || out.String() != c.out || err.String() != c.err {
			t.Errorf("%s:\nhave %d\n%s%s\nwant %d\n%s%s", c.name, code, out.String(), err.String(), c.code, c.out, c.err)
		}
	}
}

func TestGroupAloneHelpsOnStderrAndFails(t *testing.T) {
	for _, args := range [][]string{{}, {"rules"}} {
		var out, err bytes.Buffer
		code := Run(t.Context(), tree(), args, &out, &err)
		if code != Usage || out.Len() > 0 || !strings.Contains(err.String(), "Available Commands") {
			t.Errorf("%v: have %d, stdout %q, stderr %q", args, code, out.String(), err.String())
		}
	}
}

func TestVersionFlag(t *testing.T) {
	var out, err bytes.Buffer
	if code := Run(t.Context(), tree(), []string{"--version"}, &out, &err); code != OK || !strings.HasPrefix(out.String(), "tool ") {
		t.Errorf("have %d %q %q", code, out.String(), err.String())
	}
}

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"no error", nil, OK},
		{"a code survives wrapping", fmt.Errorf("apply rules: %w", Fail(NotPermitted, errors.New("no"), "")), NotPermitted},
		{"cobra's own errors are bad usage", errors.New("accepts 1 arg(s)"), Usage},
		{"input that is wrong", Usagef("no such region %q", "eu"), Usage},
	} {
		if have := CodeOf(c.err); have != c.want {
			t.Errorf("%s: have %d, want %d", c.name, have, c.want)
		}
	}
}
