package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/output"
	"github.com/quorate/quorate/cmd/internal/settings"
)

// tool is what all commands share.
type tool struct {
	Endpoints []string      `key:"endpoints" usage:"gRPC addresses of the coordinators, any or all of them"`
	Timeout   time.Duration `key:"timeout" usage:"longest time to wait for an answer"`
	TLS       tlsFiles

	format   output.Format
	settings *settings.Settings
	creds    credentials.TransportCredentials
}

func newRoot() *cobra.Command {
	t := &tool{Endpoints: []string{"localhost:7600"}, Timeout: 5 * time.Second}
	root := cli.Root("quoratectl", "Look at a quorate cluster and change its rules and regions",
		"Looks at a quorate cluster and changes its rules and regions.\n\n"+
			"Exit codes: 0 done or no difference, 1 the answer is no, 2 bad usage or input, 3 unreachable or failed,\n"+
			"4 changed meanwhile, 5 not permitted.")
	t.settings = settings.New(t).WithoutFile()
	t.settings.Attach(root)
	output.AddFlag(root, root.PersistentFlags(), &t.format)
	root.AddCommand(t.rulesCommand(), t.clusterCommand(), t.regionsCommand(), t.leasesCommand(), t.explainCommand())
	return root
}

// load reads the settings; every command that asks the cluster calls it first.
func (t *tool) load() error {
	if err := t.settings.Load(); err != nil {
		return cli.Fail(cli.Usage, err, "")
	}
	if len(t.Endpoints) == 0 {
		return cli.Fail(cli.Usage, errNoEndpoints, "Give --endpoints HOST:PORT,… or set QUORATE_ENDPOINTS.")
	}
	if t.Timeout <= 0 {
		return cli.Usagef("--timeout: %s is no time to wait", t.Timeout)
	}
	var err error
	t.creds, err = t.TLS.credentials()
	return err
}

// print writes a result in the format that was asked for.
func (t *tool) print(c *cobra.Command, v any, table func(io.Writer) error) error {
	return output.Write(c.OutOrStdout(), t.format, v, table)
}
