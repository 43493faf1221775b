package regional

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/redisbucket"
)

// Embedded is the value of Config.Redis for a store inside the process, for
// trying things out.
const Embedded = "embedded"

// MaxDenialLog is the largest Config.DenialLog.
const MaxDenialLog = 1000

// Config describes one agent. Region, Coordinators and Redis are required, or Alone
// and Store in place of the last two; the addresses may be empty to leave a port
// closed, all of them where only this process asks.
type Config struct {
	// Region is the name under which the coordinator knows the region.
	Region string
	// Agent is unique among all agents. Default: host name and a random part,
	// since a container that restarts keeps its host name and process id.
	Agent string
	// Coordinators are the gRPC addresses (host:port) of all coordinator nodes.
	Coordinators []string
	// Alone, in place of Coordinators, is an agent that asks nobody: it serves the
	// rules that the region's store has, each limit as far as its standing share.
	// It is for tests of applications, with a store of package memory.
	Alone bool
	// CoordinatorTLS, when set, is what the agent speaks to the coordinators.
	CoordinatorTLS *tls.Config
	// Redis is the URL of the region's Redis, one of redisbucket.Schemes, or Embedded.
	Redis string
	// RedisAccess is what that Redis wants to see: users, passwords, certificates.
	RedisAccess redisbucket.Access
	// RedisPoolSize is how many connections the agent opens. Default 10 per CPU.
	RedisPoolSize int
	// RedisTimeout is how long a request waits for Redis before the rules'
	// on_store_failure decides. Default 25 ms.
	RedisTimeout time.Duration
	// Store, when set, is the region's store in place of Redis.
	Store Store
	// RedisPrefix starts the names of all keys in Redis. Default "quorate:".
	RedisPrefix string

	// GRPCAddr, HTTPAddr and AdminAddr are where the agent listens.
	GRPCAddr, HTTPAddr, AdminAddr string
	// Listen opens the ports, DialCoordinator the connections to coordinators, and
	// Clocks reads the machine's clocks. Default are net.Listen, TCP and the
	// kernel's clocks; tests with virtual time replace all three.
	Listen          func(network, address string) (net.Listener, error)
	DialCoordinator func(ctx context.Context, address string) (net.Conn, error)
	Clocks          func() (mono, boot, realtime quota.Micros)
	// ServerTLS, when set, is what GRPCAddr speaks.
	ServerTLS *tls.Config
	// Headers are added to RLS replies. /v1/check always has the full set, and
	// takes only Epoch from here.
	Headers headers.Style
	// Metadata adds the deciding rules to RLS replies as dynamic metadata.
	Metadata bool
	// Reflection lets gRPC tools list the services.
	Reflection bool
	// ShadowMode lets every request pass and counts what would have been denied.
	ShadowMode bool
	// QuotaMode treats every rule as a quota rule: a request is denied only when
	// all its rules deny.
	QuotaMode bool

	// Exact makes every request ask the region's store, but for those that are surely
	// denied. Else the agent draws tokens of busy keys ahead, for a tenth of a second, and
	// admits most of their requests by them. The bound is the same; what agents hold ahead
	// is not in the remaining tokens that others of the region see.
	Exact bool

	// DenialLog is how many lines a second tell of denials and why they were made,
	// at most MaxDenialLog; 0 tells of none. Values of descriptors are in a line only
	// where the rule has denial_log_values.
	DenialLog int

	// DrainDelay is how long a shutdown goes on serving with readiness off, so
	// that load balancers notice before the ports close. Default 0.
	DrainDelay time.Duration
	// Drain is how long a shutdown waits for what is in flight, and then for the
	// last report to the coordinator. Default 5 s.
	Drain time.Duration
	// Timing is the lease protocol's; it must be the coordinator's. Zero means quota.DefaultTiming().
	Timing quota.Timing

	Logger *slog.Logger
	// Registerer takes the agent's metrics; /metrics serves it when it is also
	// a prometheus.Gatherer. One registry holds one agent. Nil means a registry
	// of its own.
	Registerer prometheus.Registerer
	// Version is reported in quorate_build_info.
	Version string
}

// ErrConfig means that a configuration cannot work; the text lists every problem.
var ErrConfig = errors.New("invalid agent configuration")

// Validate returns all problems of c, joined, each naming its field. What New
// fills in by itself may be missing.
func (c Config) Validate() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...))
	}
	for _, n := range []struct{ field, value string }{{"region", c.Region}, {"agent", c.Agent}} {
		switch {
		case n.value == "" && n.field == "region":
			bad("region: missing, give the region's name as the coordinator knows it")
		case len(n.value) > 128:
			bad("%s: %d bytes long, at most 128 are allowed", n.field, len(n.value))
		case !printable(n.value):
			bad("%s: %q has characters that cannot be printed", n.field, n.value)
		}
	}
	switch {
	case c.Alone && len(c.Coordinators) > 0:
		bad("coordinators: not used by an agent that is alone, leave one of them out")
	case !c.Alone && len(c.Coordinators) == 0:
		bad("coordinators: missing, give host:port of every coordinator node")
	}
	for _, a := range c.Coordinators {
		if host, _, err := net.SplitHostPort(a); err != nil || host == "" {
			bad("coordinators: %q is not host:port", a)
		}
	}
	switch {
	case c.Store != nil && c.Redis == "":
	case c.Store != nil:
		bad("redis: %q is not used when the store is given, leave one of them out", c.Redis)
	case c.Redis == "":
		bad("redis: missing, give %s, or %s", redisbucket.Schemes, Embedded)
	case c.Redis == Embedded && c.RedisAccess != (redisbucket.Access{}):
		bad("redis: %s needs no user, password or TLS, leave them out", Embedded)
	case c.Redis == Embedded:
	default:
		if err := c.redis().Validate(); err != nil {
			bad("%w", err)
		}
	}
	if strings.ContainsAny(c.RedisPrefix, "{}") {
		bad("redis-prefix: %q has braces, which would decide the cluster slot of every key", c.RedisPrefix)
	}
	for _, a := range []struct{ field, addr string }{
		{"grpc-addr", c.GRPCAddr}, {"http-addr", c.HTTPAddr}, {"admin-addr", c.AdminAddr},
	} {
		if a.addr == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(a.addr); err != nil {
			bad("%s: %q is not host:port or :port", a.field, a.addr)
		}
	}
	if c.DenialLog < 0 || c.DenialLog > MaxDenialLog {
		bad("denial-log: %d lines a second: must be 0 (none) to %d", c.DenialLog, MaxDenialLog)
	}
	if c.Drain < 0 || c.DrainDelay < 0 {
		bad("drain, drain-delay: %s, %s: must not be negative", c.Drain, c.DrainDelay)
	}
	if t := c.Timing; t != (quota.Timing{}) {
		if t.TTL <= 0 || t.Answer <= 0 || t.RhoPPM < 0 || t.Delta < 0 || t.Usable() <= 0 {
			bad("timing: ttl %s, answer %s, delta %s and rho %d ppm leave no usable lease time", t.TTL, t.Answer, t.Delta, t.RhoPPM)
		}
	}
	return errors.Join(problems...)
}

// redis is the configuration of the store without what only New knows. The prefix
// is checked here.
func (c Config) redis() redisbucket.Config {
	return redisbucket.Config{URL: c.Redis, Access: c.RedisAccess, PoolSize: c.RedisPoolSize, Budget: c.RedisTimeout}
}

// withDefaults fills in what may be missing.
func (c Config) withDefaults() Config {
	if c.Agent == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "agent"
		}
		c.Agent = host + "-" + strings.ToLower(rand.Text()[:6])
	}
	if c.RedisPrefix == "" {
		c.RedisPrefix = "quorate:"
	}
	if c.Drain == 0 {
		c.Drain = 5 * time.Second
	}
	if c.Timing == (quota.Timing{}) {
		c.Timing = quota.DefaultTiming()
	}
	if c.Listen == nil {
		c.Listen = net.Listen
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.Version == "" {
		c.Version = "unknown"
	}
	return c
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
}
