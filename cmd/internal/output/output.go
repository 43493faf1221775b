// Package output prints the result of a command as a table for people, or as
// JSON or YAML for programs.
//
// The JSON field names of a result are an interface that scripts depend on: they
// come from the struct's json tags, and YAML uses the very same names.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Format is how a result is printed. It is a flag value.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// String returns the format's name.
func (f *Format) String() string { return string(*f) }

// Set accepts one of the formats.
func (f *Format) Set(s string) error {
	switch Format(s) {
	case Table, JSON, YAML:
		*f = Format(s)
		return nil
	}
	return fmt.Errorf("%q is none of table, json, yaml", s)
}

// Type names the value in help texts.
func (f *Format) Type() string { return "table|json|yaml" }

// AddFlag adds -o/--output to flags and its completion to c.
func AddFlag(c *cobra.Command, flags *pflag.FlagSet, f *Format) {
	*f = Table
	flags.VarP(f, "output", "o", "output format")
	// The error means that the completion exists already, which cannot be: the
	// flag is new.
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(
		[]cobra.Completion{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// Write prints v to w; table draws it for people.
func Write(w io.Writer, f Format, v any, table func(io.Writer) error) error {
	switch f {
	case JSON:
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		return nil
	case YAML:
		return writeYAML(w, v)
	}
	if err := table(w); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// writeYAML goes through JSON, so that both have the same names and the same
// numbers; a YAML parser reads JSON and keeps the order of its keys.
func writeYAML(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	var n yaml.Node
	if err := yaml.Unmarshal(b.Bytes(), &n); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	unflow(&n)
	y := yaml.NewEncoder(w)
	y.SetIndent(2)
	if err := y.Encode(&n); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	if err := y.Close(); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return nil
}

// unflow drops the braces and quotes that JSON came with; the encoder puts back
// the quotes that are needed, since the tags stay.
func unflow(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && strings.Contains(n.Value, "\n") {
		n.Style = yaml.LiteralStyle
	} else {
		n.Style = 0
	}
	for _, c := range n.Content {
		unflow(c)
	}
}

// printable keeps a terminal from being steered by a name that came from afar.
func printable(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 {
		return '?'
	}
	return r
}

// Columns writes rows of cells in aligned columns without boxes, an empty cell
// as "-". Nothing is ever cut off.
func Columns(w io.Writer, header []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cells []string) {
		for i, c := range cells {
			if c == "" {
				c = "-"
			}
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, strings.Map(printable, c))
		}
		fmt.Fprintln(t)
	}
	if len(header) > 0 {
		line(header)
	}
	for _, r := range rows {
		line(r)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write columns: %w", err)
	}
	return nil
}
