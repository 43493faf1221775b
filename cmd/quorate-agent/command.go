package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/logging"
	"github.com/quorate/quorate/cmd/internal/settings"
	"github.com/quorate/quorate/cmd/internal/tlsfiles"
	"github.com/quorate/quorate/cmd/internal/version"
	"github.com/quorate/quorate/regional"
	"github.com/quorate/quorate/regional/headers"
)

// options are the settings of the agent; the values of defaults() are in force
// unless something else is said.
type options struct {
	Region       string   `key:"region" usage:"name of this region, as registered at the coordinator"`
	Agent        string   `key:"agent" usage:"name of this agent, unique among all agents (default: host name and a random part)"`
	Coordinators []string `key:"coordinators" usage:"gRPC addresses of all coordinator nodes"`

	Redis redisOptions

	GRPCAddr  string `key:"grpc_addr" usage:"address of Envoy's rate limit service, empty for none"`
	HTTPAddr  string `key:"http_addr" usage:"address of /json, /v1/check and /v1/settle, empty for none"`
	AdminAddr string `key:"admin_addr" usage:"address of metrics, health, explain and pprof, empty for none; it has no authentication"`

	Headers    []string `key:"headers" usage:"header fields to add to rate limit service replies: x-ratelimit, ietf, retry-after, reason, delay, or all of these; explain, why each descriptor was answered as it was; epoch, X-RateLimit-Reset as a Unix time (of /v1/check too)"`
	Metadata   bool     `key:"metadata" usage:"add the deciding rules to rate limit service replies as dynamic metadata"`
	Reflection bool     `key:"reflection" usage:"let gRPC tools list the services"`
	ShadowMode bool     `key:"shadow_mode" usage:"let every request pass and count what would have been denied"`
	Exact      bool     `key:"exact" usage:"ask Redis for every request, instead of drawing tokens of busy keys ahead for a tenth of a second"`
	QuotaMode  bool     `key:"quota_mode" usage:"treat every rule as a quota rule: deny only when all rules of a request deny"`
	DenialLog  int      `key:"denial_log" usage:"lines a second, at most 1000, that tell of denials and why they were made; values of descriptors only where the rule has denial_log_values (default: 0, none)"`

	CoordinatorCA   string `key:"coordinator_tls_ca" usage:"PEM file with the CA of the coordinators; switches TLS on"`
	CoordinatorCert string `key:"coordinator_tls_cert" usage:"PEM file with this agent's certificate for the coordinators"`
	CoordinatorKey  string `key:"coordinator_tls_key" usage:"PEM file with the key of that certificate"`
	ServerCA        string `key:"grpc_tls_ca" usage:"PEM file with the CA that clients of the rate limit service must be signed by"`
	ServerCert      string `key:"grpc_tls_cert" usage:"PEM file with the certificate of the rate limit service; switches TLS on"`
	ServerKey       string `key:"grpc_tls_key" usage:"PEM file with the key of that certificate"`

	DrainDelay time.Duration `key:"drain_delay" usage:"how long to go on serving with readiness off after SIGTERM or Ctrl-C, for load balancers that poll /readyz: two of their intervals, as 5s (default: 0s, close at once)"`
	Drain      time.Duration `key:"drain" usage:"how long a shutdown waits for requests in flight"`

	Log logging.Options
}

func defaults() options {
	return options{
		Redis:    redisOptions{Prefix: "quorate:"},
		GRPCAddr: ":8081", HTTPAddr: ":8080", AdminAddr: ":6070",
		Reflection: true, Drain: 5 * time.Second, Log: logging.Default(),
	}
}

func command() *cobra.Command {
	o := defaults()
	root := cli.Root("quorate-agent", "Enforce global rate limits in one region",
		"quorate-agent answers Envoy's rate limit service (gRPC) and HTTP clients from the\n"+
			"region's own Redis, and exchanges quota with the coordinator in the background.\n"+
			"Variables of envoyproxy/ratelimit about its Redis (REDIS_URL, REDIS_TYPE, REDIS_AUTH,\n"+
			"REDIS_TLS, ...) are understood where nothing else sets redis; those that cannot be\n"+
			"are warned about.\n\n"+
			"It starts without Redis and without a coordinator and is ready (/readyz) once it\n"+
			"has rules from either.\n\n"+
			"SIGTERM or Ctrl-C drains: readiness goes off, --drain-delay passes, requests in\n"+
			"flight are answered, and the last agent of a region gives its leases back. A second\n"+
			"signal ends the agent at once.")
	root.Example = "  quorate-agent --region eu --coordinators c1:7600,c2:7600,c3:7600 --redis redis://localhost:6379\n" +
		"  QUORATE_REGION=eu quorate-agent --config agent.yaml"
	s := settings.New(&o)
	s.Translate(envoyproxy)
	s.Attach(root)
	root.RunE = func(c *cobra.Command, _ []string) error {
		if err := s.Load(); err != nil {
			return cli.Fail(cli.Usage, err, "See quorate-agent --help.")
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
		return cli.Fail(cli.Usage, err, "See quorate-agent --help.")
	}
	if o.Redis.Anyone {
		log.Warn("redis_tls_insecure_skip_verify is set: the certificate of Redis is not checked, and whoever is in between can read and change all limits")
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg.Logger, cfg.Registerer, cfg.Version = log, registry, version.String()
	regional.TuneProcess()
	a, err := regional.New(cfg)
	if errors.Is(err, regional.ErrConfig) {
		return cli.Fail(cli.Usage, err, "See quorate-agent --help.")
	}
	if err != nil {
		return cli.Fail(cli.Unavailable, fmt.Errorf("start agent: %w", err), "")
	}
	if err := a.Run(ctx); err != nil {
		return cli.Fail(cli.Unavailable, fmt.Errorf("run agent: %w", err), "")
	}
	return nil
}

// config turns the settings into the agent's configuration and reads the files
// that they name. Its error has all problems.
func (o options) config() (regional.Config, error) {
	style, err1 := style(o.Headers)
	client, err2 := tlsfiles.Files{Cert: o.CoordinatorCert, Key: o.CoordinatorKey, CA: o.CoordinatorCA}.Client()
	server, err3 := tlsfiles.Files{Cert: o.ServerCert, Key: o.ServerKey, CA: o.ServerCA}.Server()
	redis, err4 := o.Redis.access()
	cfg := regional.Config{
		Region: o.Region, Agent: o.Agent, Coordinators: o.Coordinators, CoordinatorTLS: client,
		Redis: o.Redis.URL, RedisPrefix: o.Redis.Prefix, RedisAccess: redis, RedisPoolSize: o.Redis.PoolSize, RedisTimeout: o.Redis.Timeout,
		GRPCAddr: o.GRPCAddr, HTTPAddr: o.HTTPAddr, AdminAddr: o.AdminAddr, ServerTLS: server,
		Headers: style, Metadata: o.Metadata, Reflection: o.Reflection, ShadowMode: o.ShadowMode, QuotaMode: o.QuotaMode, Exact: o.Exact,
		DenialLog: o.DenialLog, DrainDelay: o.DrainDelay, Drain: o.Drain,
	}
	var nobody error
	if cfg.GRPCAddr == "" && cfg.HTTPAddr == "" {
		nobody = errors.New("grpc_addr, http_addr: both empty, so nobody could ask this agent")
	}
	return cfg, errors.Join(err1, err2, err3, err4, cfg.Validate(), nobody)
}

// style reads the list of header kinds.
func style(kinds []string) (s headers.Style, err error) {
	for _, k := range kinds {
		switch strings.ToLower(strings.TrimSpace(k)) {
		case "all":
			s.Legacy, s.IETF, s.RetryAfter, s.Reason, s.Delay = true, true, true, true, true
		case "x-ratelimit":
			s.Legacy = true
		case "ietf":
			s.IETF = true
		case "retry-after":
			s.RetryAfter = true
		case "reason":
			s.Reason = true
		case "delay":
			s.Delay = true
		case "explain":
			s.Explain = true
		case "epoch":
			s.Epoch = true
		case "", "none":
		default:
			return s, fmt.Errorf("headers: %q is none of x-ratelimit, ietf, retry-after, reason, delay, all, explain, epoch", k)
		}
	}
	return s, nil
}
