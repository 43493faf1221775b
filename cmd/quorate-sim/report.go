package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/output"
	"github.com/quorate/quorate/sim/report"
)

func reportCommand() *cobra.Command {
	var format output.Format
	c := &cobra.Command{
		Use:   "report FILE...",
		Short: "Summarize the JSON of a sweep, or of its parts",
		Long: `report prints the result of ` + "`quorate-sim sweep -o json`" + ` for people: what was tried,
whether every promise was kept, which faults fired, and which states were reached
and which never were. FILE is - for standard input. Several files are the parts of
one sweep, in any order: of one commit, their seeds without gap and overlap.

Exit code 1 says that a promise was broken.`,
		Example: `  quorate-sim sweep --for 10m -o json > sweep.json; quorate-sim report sweep.json
  quorate-sim report part-1.json part-2.json -o json > sweep.json`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Fail(cli.Usage, errors.New("name a file, the JSON of a sweep"), "See quorate-sim report --help.")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var parts []report.Sweep
			for _, file := range args {
				part, err := readSweep(file, c.InOrStdin())
				if err != nil {
					return cli.Fail(cli.Usage, err, "Make the file with quorate-sim sweep -o json.")
				}
				parts = append(parts, part)
			}
			s, err := report.Merge(parts)
			if err != nil {
				return cli.Fail(cli.Usage, err, "Each part names its first_seed and its number of seeds.")
			}
			if err := output.Write(c.OutOrStdout(), format, s, s.Write); err != nil {
				return err
			}
			if s.Broken() {
				return cli.Answer(cli.No)
			}
			return nil
		},
	}
	output.AddFlag(c, c.Flags(), &format)
	return c
}

func readSweep(file string, stdin io.Reader) (s report.Sweep, err error) {
	var data []byte
	if file == "-" {
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return s, fmt.Errorf("read sweep: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("read sweep %s: %w", file, err)
	}
	if s.Seeds == 0 {
		return s, fmt.Errorf("read sweep %s: %w", file, errors.New("it has no seeds"))
	}
	return s, nil
}
