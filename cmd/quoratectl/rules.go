package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

func (t *tool) rulesCommand() *cobra.Command {
	return cli.Group("rules", "Check, compare and apply rule documents",
		t.rulesApply(), t.rulesDiff(), t.rulesGet(), t.rulesValidate())
}

// addFiles adds the flag that names rule documents.
func addFiles(c *cobra.Command, files *[]string) {
	c.Flags().StringArrayVarP(files, "file", "f", nil, "rule document, or a folder with *.yaml and *.yml, or - for standard input (repeatable)")
}

// outstanding says what an edit still waits for. The JSON names are an interface.
type outstanding struct {
	// Regions have not confirmed the newest configuration.
	Regions []string `json:"regions"`
	// OverdrawnAccounts have promised more than the new limit: leases are being recalled.
	OverdrawnAccounts int64 `json:"overdrawn_accounts"`
	// InForceWithinMS bounds when the edit is fully in force; null without a
	// bound, because a region without a session has yet to confirm it.
	InForceWithinMS *int64 `json:"in_force_within_ms"`
}

func toOutstanding(o *quoratev1.Outstanding) outstanding {
	return outstanding{
		Regions: append([]string{}, o.GetRegions()...), OverdrawnAccounts: o.GetOverdrawnAccounts(),
		InForceWithinMS: milliseconds(o.GetInForceWithinUs()),
	}
}

func (o outstanding) String() string {
	var waits []string
	if len(o.Regions) > 0 {
		waits = append(waits, "for "+strings.Join(o.Regions, ", ")+" to confirm")
	}
	if o.OverdrawnAccounts > 0 {
		waits = append(waits, "for the leases of "+plural(int(o.OverdrawnAccounts), "account")+" to be recalled")
	}
	when := "in force now"
	switch {
	case o.InForceWithinMS == nil:
		when = "in force once every region has confirmed"
	case *o.InForceWithinMS > 0:
		when = "fully in force within " + short(*o.InForceWithinMS)
	}
	if len(waits) > 0 {
		when += ", waits " + strings.Join(waits, " and ")
	}
	return when
}

func (t *tool) rulesApply() *cobra.Command {
	var files []string
	var version uint64
	var dryRun bool
	c := &cobra.Command{
		Use: "apply -f FILE|DIR", Short: "Replace the rules of the cluster by these documents", Args: cobra.NoArgs,
		Long: "Replaces all rule documents of the cluster. One bad document changes nothing.",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := t.load(); err != nil {
				return err
			}
			docs, err := readDocuments(files, c.InOrStdin())
			if err != nil {
				return err
			}
			q := &quoratev1.ApplyRulesRequest{Sources: forWire(docs), DryRun: dryRun}
			if c.Flags().Changed("if-version") {
				q.IfVersion = &version
			}
			e := changes
			if dryRun {
				e = reads
			}
			a, err := ask(c.Context(), t, e, quoratev1.AdminClient.ApplyRules, q)
			if err != nil {
				return err
			}
			result := struct {
				RulesVersion  uint64      `json:"rules_version"`
				ConfigVersion uint64      `json:"config_version"`
				Changed       bool        `json:"changed"`
				DryRun        bool        `json:"dry_run"`
				Outstanding   outstanding `json:"outstanding"`
			}{a.GetRulesVersion(), a.GetConfigVersion(), a.GetChanged(), dryRun, toOutstanding(a.GetOutstanding())}
			return t.print(c, result, func(w io.Writer) error {
				what := "no change"
				switch {
				case result.Changed && dryRun:
					what = "these documents would change the rules"
				case result.Changed:
					what = "applied"
				}
				if !dryRun {
					what += ", " + result.Outstanding.String()
				}
				_, err := fmt.Fprintf(w, "rules version %d: %s\n", result.RulesVersion, what)
				return err
			})
		},
	}
	addFiles(c, &files)
	c.Flags().Uint64Var(&version, "if-version", 0, "apply only if the rules are still at this version (see rules get)")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "let the cluster check the documents and change nothing")
	return c
}

func (t *tool) rulesGet() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "get", Short: "Print the rule documents of the cluster", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := t.load(); err != nil {
				return err
			}
			a, err := ask(c.Context(), t, reads, quoratev1.AdminClient.GetRules, &quoratev1.GetRulesRequest{})
			if err != nil {
				return err
			}
			type source struct {
				Name string `json:"name"`
				Text string `json:"text"`
			}
			result := struct {
				RulesVersion  uint64      `json:"rules_version"`
				ConfigVersion uint64      `json:"config_version"`
				Documents     []source    `json:"documents"`
				Outstanding   outstanding `json:"outstanding"`
			}{a.GetRulesVersion(), a.GetConfigVersion(), []source{}, toOutstanding(a.GetOutstanding())}
			for _, s := range a.GetSources() {
				result.Documents = append(result.Documents, source{s.GetName(), s.GetText()})
				if dir != "" {
					if err := writeDocument(dir, s.GetName(), s.GetText()); err != nil {
						return cli.Fail(cli.Usage, err, "")
					}
				}
			}
			fmt.Fprintf(c.ErrOrStderr(), "rules version %d, %s, %s\n", result.RulesVersion,
				plural(len(result.Documents), "document"), result.Outstanding)
			return t.print(c, result, func(w io.Writer) error {
				for i, d := range result.Documents {
					if dir != "" {
						fmt.Fprintln(w, filepath.Join(dir, d.Name))
						continue
					}
					if i > 0 {
						fmt.Fprintln(w, "---")
					}
					fmt.Fprintf(w, "# %s\n%s", d.Name, d.Text)
					if !strings.HasSuffix(d.Text, "\n") {
						fmt.Fprintln(w)
					}
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "write the documents into this folder instead of printing them")
	return c
}

// writeDocument refuses names that lead out of dir: they come from the cluster.
func writeDocument(dir, name, text string) error {
	if !filepath.IsLocal(name) {
		return fmt.Errorf("write rules: the document name %q leads out of %s", name, dir)
	}
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	return nil
}
