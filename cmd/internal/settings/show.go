package settings

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/output"
)

// Setting is one line of `config show`. The JSON names are an interface.
type Setting struct {
	Key string `json:"key"`
	// Value has the setting's type; durations are texts and secrets are hidden.
	Value  any    `json:"value"`
	Origin string `json:"origin"`
	Env    string `json:"env"`

	text string
}

// Effective returns all settings in the order of the struct.
func (s *Settings) Effective() []Setting {
	list := make([]Setting, len(s.fields))
	for i, f := range s.fields {
		list[i] = Setting{Key: f.key, Value: f.shown(), Origin: f.origin, Env: f.env(), text: f.text()}
		if text, ok := list[i].Value.(string); ok {
			list[i].text = text
		}
	}
	return list
}

// command is `config show [--origin] [-o table|json|yaml]`.
func (s *Settings) command() *cobra.Command {
	var format output.Format
	var origin bool
	show := &cobra.Command{
		Use: "show", Short: "Print the settings in force", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.Load(); err != nil {
				return cli.Fail(cli.Usage, err, "")
			}
			for _, w := range s.Warnings() {
				fmt.Fprintln(c.ErrOrStderr(), "warning:", w)
			}
			result := struct {
				Settings []Setting `json:"settings"`
			}{s.Effective()}
			return output.Write(c.OutOrStdout(), format, result, func(w io.Writer) error {
				header := []string{"KEY", "VALUE"}
				if origin {
					header = append(header, "ORIGIN")
				}
				var rows [][]string
				for _, e := range result.Settings {
					row := []string{e.Key, e.text}
					if origin {
						row = append(row, e.Origin)
					}
					rows = append(rows, row)
				}
				return output.Columns(w, header, rows)
			})
		},
	}
	output.AddFlag(show, show.Flags(), &format)
	show.Flags().BoolVar(&origin, "origin", false, "also print where each value comes from")
	return cli.Group("config", "Look at the settings", show)
}
