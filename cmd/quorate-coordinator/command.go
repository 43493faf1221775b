package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/logging"
	"github.com/quorate/quorate/cmd/internal/settings"
	"github.com/quorate/quorate/cmd/internal/tlsfiles"
	"github.com/quorate/quorate/cmd/internal/version"
	"github.com/quorate/quorate/coordinator"
)

// options are the settings of a node; the values of defaults() are in force
// unless something else is said.
type options struct {
	Node           string           `key:"node" usage:"name of this node in initial_cluster; never changes"`
	DataDir        string           `key:"data_dir" usage:"directory for log and snapshots, of this node alone"`
	InitialCluster string           `key:"initial_cluster" usage:"all nodes as NODE=HOST:PORT,… with their raft addresses; the same on all nodes, and never changes"`
	Regions        map[string]int64 `key:"regions" usage:"regions of a new cluster with their weights, as us=1,eu=1; later: quoratectl regions"`
	Rules          string           `key:"rules" usage:"directory of rule documents (*.yaml) to keep in force; a mistake in it changes nothing; empty: quoratectl rules apply"`

	RaftAddr      string `key:"raft_addr" usage:"address to listen on for the other nodes"`
	RaftAdvertise string `key:"raft_advertise" usage:"address at which the other nodes reach this one (default: the one in initial_cluster)"`
	GRPCAddr      string `key:"grpc_addr" usage:"address to listen on for agents and quoratectl"`
	GRPCAdvertise string `key:"grpc_advertise" usage:"address at which agents reach this node (default: grpc_addr, with the host of raft_advertise if it has none)"`
	AdminAddr     string `key:"admin_addr" usage:"address of metrics, health and pprof, empty for none; it has no authentication"`
	Reflection    bool   `key:"reflection" usage:"let gRPC tools list the services"`

	RaftCert string `key:"raft_tls_cert" usage:"PEM file with this node's certificate for the other nodes; switches mutual TLS on"`
	RaftKey  string `key:"raft_tls_key" usage:"PEM file with the key of that certificate"`
	RaftCA   string `key:"raft_tls_ca" usage:"PEM file with the CA of all nodes' certificates"`
	GRPCCert string `key:"grpc_tls_cert" usage:"PEM file with the certificate for agents; switches TLS on"`
	GRPCKey  string `key:"grpc_tls_key" usage:"PEM file with the key of that certificate"`
	GRPCCA   string `key:"grpc_tls_ca" usage:"PEM file with the CA that agents must be signed by"`

	Heartbeat time.Duration `key:"raft_heartbeat" usage:"how long a follower waits for the leader before an election; 5s across regions"`
	Apply     time.Duration `key:"raft_apply" usage:"how long a proposal may take before its outcome counts as unknown"`
	Stall     time.Duration `key:"raft_stall" usage:"end the node when a disk write or a commit takes longer (default: 5 times raft_heartbeat, at least 10s)"`
	Drain     time.Duration `key:"drain" usage:"how long each step of a shutdown may take"`

	Log logging.Options
}

func defaults() options {
	return options{
		RaftAddr: ":7601", GRPCAddr: ":7600", AdminAddr: ":7680", Reflection: true,
		Heartbeat: 2 * time.Second, Apply: 5 * time.Second, Drain: 5 * time.Second, Log: logging.Default(),
	}
}

func command() *cobra.Command {
	o := defaults()
	root := cli.Root("quorate-coordinator", "Divide global rate limits among regions",
		"quorate-coordinator is one node of the coordinator. Start three of them with the\n"+
			"same --initial-cluster; they elect a leader, and agents and quoratectl may be given\n"+
			"the gRPC addresses of all of them. A node is ready (/readyz) once it knows a leader\n"+
			"and, with --rules, once the cluster has rules: after a first start with a mistake in\n"+
			"them /readyz, the log and quorate_rules_in_force say so.")
	root.Example = "  quorate-coordinator --node c1 --data-dir /var/lib/quorate --initial-cluster c1=c1:7601,c2=c2:7601,c3=c3:7601 --regions us=1,eu=1\n" +
		"  QUORATE_NODE=c1 quorate-coordinator --config coordinator.yaml"
	s := settings.New(&o)
	s.Attach(root)
	root.RunE = func(c *cobra.Command, _ []string) error {
		if err := s.Load(); err != nil {
			return cli.Fail(cli.Usage, err, "See quorate-coordinator --help.")
		}
		return serve(c.Context(), o, s.Warnings(), c.ErrOrStderr())
	}
	return root
}

func serve(ctx context.Context, o options, warnings []string, stderr io.Writer) error {
	log, err := logging.New(stderr, o.Log)
	if err != nil {
		return cli.Fail(cli.Usage, err, "")
	}
	for _, w := range warnings {
		log.Warn(w)
	}
	cfg, err := o.config()
	if err != nil {
		return cli.Fail(cli.Usage, err, "See quorate-coordinator --help.")
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg.Logger, cfg.Registerer, cfg.Version = log, registry, version.String()
	n, err := coordinator.New(cfg)
	if err != nil {
		return cli.Fail(cli.Usage, err, "See quorate-coordinator --help.")
	}
	if err := n.Run(ctx); err != nil {
		return cli.Fail(cli.Unavailable, fmt.Errorf("run coordinator node: %w", err), "")
	}
	return nil
}

// config turns the settings into the node's configuration and reads the files
// that they name. Its error has all problems.
func (o options) config() (coordinator.Config, error) {
	raftServer, raftClient, err1 := tlsfiles.Files{Cert: o.RaftCert, Key: o.RaftKey, CA: o.RaftCA}.Mutual()
	agents, err2 := tlsfiles.Files{Cert: o.GRPCCert, Key: o.GRPCKey, CA: o.GRPCCA}.Server()
	cfg := coordinator.Config{
		Node: o.Node, DataDir: o.DataDir, InitialCluster: o.InitialCluster, Regions: o.Regions, RulesDir: o.Rules,
		RaftAddr: o.RaftAddr, RaftAdvertise: o.RaftAdvertise, GRPCAddr: o.GRPCAddr, GRPCAdvertise: o.GRPCAdvertise,
		AdminAddr: o.AdminAddr, Reflection: o.Reflection,
		RaftServerTLS: raftServer, RaftClientTLS: raftClient, GRPCTLS: agents,
		RaftTimeouts: coordinator.RaftTimeouts{Heartbeat: o.Heartbeat, Apply: o.Apply, Stall: o.Stall, Transfer: o.Drain},
		Drain:        o.Drain,
	}
	return cfg, errors.Join(err1, err2, cfg.Validate())
}
