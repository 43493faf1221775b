package redisbucket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/quorate/quorate/regional/enforce"
)

// Config is where the region's Redis is and how long to wait for it. Zero values
// stand for the defaults.
type Config struct {
	// URL is one of Schemes: a single server, a primary that sentinels watch, or a
	// cluster.
	URL string
	Access
	// Prefix begins every key. Default "quorate:".
	Prefix string
	// DialTimeout bounds a connection attempt. Default 500 ms.
	DialTimeout time.Duration
	// Timeout bounds each read and each write, and the wait for a pooled
	// connection. Default 100 ms. A shorter deadline of the context wins.
	Timeout time.Duration
	// Budget bounds a whole Take, which a request waits for, with everything that
	// may be in the way of it. Default 25 ms. A shorter deadline of the context wins.
	Budget time.Duration
	// PoolSize is the number of connections, in a cluster those to each node.
	// Default 10 per CPU.
	PoolSize int
	// CheckEvery is how often State asks the server who it is, beside every new
	// connection. Default 1 s.
	CheckEvery time.Duration
	// Probe is how long after the breaker opened the next call is let through.
	// Default 500 ms.
	Probe time.Duration
	// ServerID stands for the run_id and replication id of a server that has
	// none: the embedded one. Leave it empty for a real Redis.
	ServerID string

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Access is what a server wants to see, beside what the URL has of it.
type Access struct {
	// Username and Password win over those of the URL.
	Username, Password string
	// SentinelUsername and SentinelPassword are for the sentinels, who have users
	// of their own.
	SentinelUsername, SentinelPassword string
	// TLS is how to speak TLS; whether to is said by the URL. Default: what the
	// machine trusts.
	TLS *tls.Config
}

// Validate returns all problems of c.
func (c Config) Validate() error {
	var problems []error
	a, err := parseURL(c.URL)
	switch {
	case c.URL == "":
		problems = append(problems, errors.New("redis URL is empty: give "+Schemes))
	case err != nil:
		problems = append(problems, fmt.Errorf("redis URL %w", err))
	case c.TLS != nil && !a.tls:
		problems = append(problems, errors.New("redis URL has no TLS, but TLS is configured: begin it with rediss, or leave the TLS settings out"))
	case a.kind != sentinel && c.SentinelUsername+c.SentinelPassword != "":
		problems = append(problems, errors.New("redis URL has no sentinels, but a user or password for them is given: begin it with redis+sentinel, or leave those out"))
	}
	if c.Username != "" && c.Password == "" {
		problems = append(problems, errors.New("redis user name is given without a password"))
	}
	if c.SentinelUsername != "" && c.SentinelPassword == "" {
		problems = append(problems, errors.New("sentinel user name is given without a password"))
	}
	if strings.ContainsAny(c.Prefix, "{}") {
		problems = append(problems, fmt.Errorf("redis key prefix %q: braces would decide the cluster slot of every key", c.Prefix))
	}
	for name, d := range map[string]time.Duration{"dial timeout": c.DialTimeout, "timeout": c.Timeout, "budget of a decision": c.Budget, "check interval": c.CheckEvery, "probe interval": c.Probe} {
		if d < 0 {
			problems = append(problems, fmt.Errorf("redis %s %v is negative", name, d))
		}
	}
	if c.PoolSize < 0 {
		problems = append(problems, fmt.Errorf("redis pool size %d is negative", c.PoolSize))
	}
	return errors.Join(problems...)
}

func (c Config) withDefaults() Config {
	or := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	or(&c.DialTimeout, 500*time.Millisecond)
	or(&c.Timeout, 100*time.Millisecond)
	or(&c.Budget, 25*time.Millisecond)
	or(&c.CheckEvery, time.Second)
	or(&c.Probe, 500*time.Millisecond)
	if c.Prefix == "" {
		c.Prefix = "quorate:"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Store is a region's store on Redis. It is safe for concurrent use.
type Store struct {
	cfg     Config
	address address
	log     *slog.Logger
	client  atomic.Pointer[redis.Client] // another one after a fail-over; none in a cluster
	cluster *clustered                   // nil but in a cluster
	breaker *gobreaker.CircuitBreaker[struct{}]
	tripped atomic.Int64 // breakers that are not closed
	scripts scripts
	metrics metrics

	lanes   []lane
	flushes sync.WaitGroup // flushes under way
	waiters sync.Pool      // *waiter
	groups  sync.Pool      // *group
	seed    maphash.Seed

	late error // what a Take without an answer in its budget ends with

	stateKey, configKey, prevKey, lentKey, bucketHead string

	rights  atomic.Bool  // the user has shown all its rights
	checked atomic.Int64 // when State last checked the server's identity, in nanoseconds since start
	start   time.Time

	mu     sync.Mutex
	lineup lineup
	warned bool // about the eviction policy
	closed bool
}

var _ enforce.Store = (*Store)(nil)

// New returns a store. It does not wait for the server: a region's agent starts
// without its Redis and serves from it once it is there.
func New(cfg Config) (*Store, error) { return open(cfg, func(source string) string { return source }) }

// open is New with an edit of the scripts' sources.
func open(cfg Config, edit func(source string) string) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open regional store: %w", err)
	}
	cfg = cfg.withDefaults()
	if cfg.ServerID != "" {
		inner := edit
		// The embedded interpreter reads no shebang.
		edit = func(source string) string { return inner(stripShebang(source)) }
	}
	at, err := parseURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("open regional store: %w", err)
	}
	if cfg.Password != "" {
		at.username, at.password = cfg.Username, cfg.Password
	}
	s := &Store{
		cfg: cfg, address: at, log: cfg.Logger, scripts: build(at.kind == cluster, edit), metrics: newMetrics(cfg.Registerer), start: time.Now(),
		stateKey: cfg.Prefix + "state", configKey: cfg.Prefix + "config", prevKey: cfg.Prefix + "config:prev", lentKey: cfg.Prefix + "lent",
		bucketHead: cfg.Prefix + "b:{", seed: maphash.MakeSeed(),
	}
	s.waiters.New = newWaiter
	s.groups.New = func() any { return new(group) }
	s.late = fmt.Errorf("no answer within %s: %w", cfg.Budget, context.DeadlineExceeded)
	s.breaker = s.newBreaker()
	n := lanes
	if at.kind == cluster {
		s.cluster = s.newClustered()
		n = partitions
	} else {
		s.client.Store(s.dial())
	}
	s.lanes = make([]lane, n)
	for i := range s.lanes {
		s.lanes[i].partition = i
		s.lanes[i].open = make(map[uint64]*group)
	}
	return s, nil
}
