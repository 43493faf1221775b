package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/output"
	"github.com/quorate/quorate/coordinator/rules"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

func (t *tool) rulesDiff() *cobra.Command {
	var files []string
	c := &cobra.Command{
		Use: "diff -f FILE|DIR", Short: "Say what applying these documents would change", Args: cobra.NoArgs,
		Long: "Compares the rules of the documents with those of the cluster: what a request would notice,\n" +
			"not the text. Exit code 1 says that they differ.",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := t.load(); err != nil {
				return err
			}
			docs, err := readDocuments(files, c.InOrStdin())
			if err != nil {
				return err
			}
			new, err := rules.Parse(forMessages(docs))
			if err != nil {
				return cli.Fail(cli.Usage, fmt.Errorf("the documents are not valid:\n%w", err), "")
			}
			a, err := ask(c.Context(), t, reads, quoratev1.AdminClient.GetRules, &quoratev1.GetRulesRequest{})
			if err != nil {
				return err
			}
			old, err := rules.Parse(fromWire(a.GetSources()))
			if err != nil {
				return cli.Fail(cli.Unavailable, fmt.Errorf("the rules of the cluster are not valid here:\n%w", err),
					"The cluster may run a newer version than this quoratectl.")
			}
			return t.printDiff(c, a.GetRulesVersion(), rules.Diff(old, new))
		},
	}
	addFiles(c, &files)
	return c
}

func (t *tool) printDiff(c *cobra.Command, version uint64, diff []rules.Change) error {
	type change struct {
		Rule   string `json:"rule"`
		Kind   string `json:"kind"` // added, removed or changed
		Detail string `json:"detail"`
	}
	result := struct {
		RulesVersion uint64   `json:"rules_version"`
		Changes      []change `json:"changes"`
	}{version, []change{}}
	for _, d := range diff {
		result.Changes = append(result.Changes, change{d.RuleID, d.Kind.String(), d.Detail})
	}
	err := t.print(c, result, func(w io.Writer) error {
		var rows [][]string
		for _, d := range result.Changes {
			sign := map[string]string{"added": "+", "removed": "-"}[d.Kind]
			if sign == "" {
				sign = "~"
			}
			rows = append(rows, []string{sign, d.Rule, d.Detail})
		}
		return output.Columns(w, nil, rows)
	})
	if err != nil {
		return err
	}
	if len(diff) == 0 {
		fmt.Fprintf(c.ErrOrStderr(), "no difference to rules version %d\n", version)
		return nil
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s to rules version %d\n", plural(len(diff), "change"), version)
	return cli.Answer(cli.No)
}

func (t *tool) rulesValidate() *cobra.Command {
	var files []string
	c := &cobra.Command{
		Use: "validate -f FILE|DIR", Short: "Check rule documents without a cluster", Args: cobra.NoArgs,
		Long: "Checks rule documents on this machine and names every problem with its place.\nExit code 1 says that there are some.",
		RunE: func(c *cobra.Command, _ []string) error {
			docs, err := readDocuments(files, c.InOrStdin())
			if err != nil {
				return err
			}
			set, err := rules.Parse(forMessages(docs))
			var found rules.Problems
			if err != nil && !errors.As(err, &found) {
				return cli.Fail(cli.Usage, err, "")
			}
			return t.printProblems(c, docs, set, found)
		},
	}
	addFiles(c, &files)
	return c
}

func (t *tool) printProblems(c *cobra.Command, docs []document, set *rules.Set, found rules.Problems) error {
	type problem struct {
		File    string `json:"file"`
		Line    int    `json:"line"`
		Column  int    `json:"column"`
		Key     string `json:"key"`
		Message string `json:"message"`
	}
	result := struct {
		Valid    bool      `json:"valid"`
		Rules    int       `json:"rules"`
		Problems []problem `json:"problems"`
	}{Valid: len(found) == 0, Problems: []problem{}}
	for _, p := range found {
		result.Problems = append(result.Problems, problem{p.File, p.Line, p.Col, p.Key, p.Message})
	}
	if result.Valid {
		result.Rules = len(set.Rules())
	}
	err := t.print(c, result, func(w io.Writer) error {
		for _, p := range found {
			fmt.Fprintln(w, p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !result.Valid {
		fmt.Fprintf(c.ErrOrStderr(), "%s in %s\n", plural(len(found), "problem"), plural(len(docs), "document"))
		return cli.Answer(cli.No)
	}
	fmt.Fprintf(c.ErrOrStderr(), "valid: %s in %s\n", plural(result.Rules, "rule"), plural(len(docs), "document"))
	return nil
}
