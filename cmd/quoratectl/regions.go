package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/output"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

func (t *tool) regionsCommand() *cobra.Command {
	return cli.Group("regions", "List, add, drain and remove regions",
		t.regionsLs(), t.regionsAdd(), t.regionsDrain(), t.regionsRm())
}

// region is one line of `regions ls`. The JSON names are an interface.
type region struct {
	Name        string `json:"name"`
	Weight      int64  `json:"weight"`
	State       string `json:"state"` // up, silent, down or draining
	Session     uint64 `json:"session"`
	Incarnation string `json:"incarnation"`
	// HeardMS is the time since the last sync, null when this leader heard none.
	HeardMS         *int64   `json:"heard_ms"`
	Agents          []string `json:"agents"`
	ConfigConfirmed uint64   `json:"config_confirmed"`
	ConfigOffered   uint64   `json:"config_offered"`
	Leases          int64    `json:"leases"`
	Draining        bool     `json:"draining"`
}

func toRegion(r *quoratev1.Region) region {
	state := "up"
	switch {
	case r.GetSession() == 0:
		state = "down"
	case r.GetSilent():
		state = "silent"
	}
	if r.GetDraining() {
		state += ", draining"
	}
	return region{
		Name: r.GetName(), Weight: r.GetWeight(), State: state, Session: r.GetSession(), Incarnation: r.GetIncarnation(),
		HeardMS: milliseconds(r.GetHeardUs()), Agents: append([]string{}, r.GetAgents()...),
		ConfigConfirmed: r.GetConfigConfirmed(), ConfigOffered: r.GetConfigOffered(), Leases: r.GetLeases(), Draining: r.GetDraining(),
	}
}

func (t *tool) regionsLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the registered regions", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := t.load(); err != nil {
				return err
			}
			a, err := ask(c.Context(), t, reads, quoratev1.AdminClient.ListRegions, &quoratev1.ListRegionsRequest{})
			if err != nil {
				return err
			}
			result := struct {
				ConfigVersion uint64   `json:"config_version"`
				Regions       []region `json:"regions"`
			}{a.GetConfigVersion(), []region{}}
			for _, r := range a.GetRegions() {
				result.Regions = append(result.Regions, toRegion(r))
			}
			return t.print(c, result, func(w io.Writer) error {
				var rows [][]string
				for _, r := range result.Regions {
					config := strconv.FormatUint(r.ConfigConfirmed, 10)
					if r.ConfigOffered > r.ConfigConfirmed {
						config += " (offered " + strconv.FormatUint(r.ConfigOffered, 10) + ")"
					}
					rows = append(rows, []string{
						r.Name, strconv.FormatInt(r.Weight, 10), r.State, number(r.Session), ago(r.HeardMS),
						strings.Join(r.Agents, ","), strconv.FormatInt(r.Leases, 10), config,
					})
				}
				return output.Columns(w, []string{"REGION", "WEIGHT", "STATE", "SESSION", "HEARD", "AGENTS", "LEASES", "CONFIG"}, rows)
			})
		},
	}
}

// number returns n, empty for 0, which means none.
func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func (t *tool) regionsAdd() *cobra.Command {
	var weight int64
	c := &cobra.Command{
		Use: "add NAME", Short: "Register a region, or change its weight", Args: oneRegion,
		RunE: func(c *cobra.Command, args []string) error {
			return changeRegion(t, c, args[0], "added", quoratev1.AdminClient.AddRegion,
				&quoratev1.AddRegionRequest{Name: args[0], Weight: weight})
		},
	}
	c.Flags().Int64Var(&weight, "weight", 1, "weight of the region in the standing shares")
	return c
}

func (t *tool) regionsDrain() *cobra.Command {
	return &cobra.Command{
		Use: "drain NAME", Short: "Take back the leases and the standing shares of a region", Args: oneRegion,
		ValidArgsFunction: t.completeRegions,
		RunE: func(c *cobra.Command, args []string) error {
			return changeRegion(t, c, args[0], "draining", quoratev1.AdminClient.DrainRegion, &quoratev1.DrainRegionRequest{Name: args[0]})
		},
	}
}

func (t *tool) regionsRm() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "rm NAME", Short: "Remove a drained region", Args: oneRegion,
		ValidArgsFunction: t.completeRegions,
		RunE: func(c *cobra.Command, args []string) error {
			return changeRegion(t, c, args[0], "removed", quoratev1.AdminClient.RemoveRegion,
				&quoratev1.RemoveRegionRequest{Name: args[0], Force: force})
		},
	}
	c.Flags().BoolVar(&force, "force", false,
		"assert that no agent of the region runs any more; if one does, it spends its standing shares once more")
	return c
}

// oneRegion requires the name of a region.
func oneRegion(c *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return cli.Fail(cli.Usage, fmt.Errorf("want the name of one region, have %s", plural(len(args), "argument")),
			"See "+c.CommandPath()+" --help.")
	}
	return nil
}

// changeRegion makes one change and says what came of it.
func changeRegion[Q any](t *tool, c *cobra.Command, name, done string, call adminCall[Q, *quoratev1.RegionChange], q Q) error {
	if err := t.load(); err != nil {
		return err
	}
	a, err := ask(c.Context(), t, changes, call, q)
	if err != nil {
		return err
	}
	result := struct {
		Region        string `json:"region"`
		ConfigVersion uint64 `json:"config_version"`
		Changed       bool   `json:"changed"`
	}{name, a.GetConfigVersion(), a.GetChanged()}
	return t.print(c, result, func(w io.Writer) error {
		if !result.Changed {
			done = "no change"
		}
		_, err := fmt.Fprintf(w, "region %s: %s, config version %d\n", name, done, result.ConfigVersion)
		return err
	})
}

// completeRegions offers the names that the cluster knows. A shell that waits
// for a completion cannot be told about errors, so there are none.
func (t *tool) completeRegions(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || t.load() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a, err := ask(c.Context(), t, reads, quoratev1.AdminClient.ListRegions, &quoratev1.ListRegionsRequest{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, r := range a.GetRegions() {
		names = append(names, r.GetName())
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
