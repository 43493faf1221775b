package regional

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/demand"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/envoyrls"
	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/httpapi"
	"github.com/quorate/quorate/regional/redisbucket"
	"github.com/quorate/quorate/regional/redisbucket/embedded"
	"github.com/quorate/quorate/regional/uplink"
)

// Agent is one agent of a region.
type Agent struct {
	cfg       Config
	log       *slog.Logger
	start     time.Time // decisions count time from here
	loud      quiet
	unmatched unmatched
	denials   *denials // nil when denials are not logged
	metrics   *metrics
	held      *held
	embedded  *embedded.Server // nil with a Redis outside
	store     Store
	region    *region
	demand    *demand.Tracker
	enforcer  *enforce.Enforcer
	uplink    *uplink.Uplink

	rls         *envoyrls.Server
	http, admin *http.Server
	listeners   []net.Listener
	ports       ports
	draining    chan struct{} // closed when the shutdown begins

	lines   lines         // of limiters that wait
	stopped chan struct{} // closed when Run has ended all but what New opened
	// What follows is only of an agent that Start runs.
	cancel context.CancelFunc
	ended  chan struct{} // closed when Run has returned
	result error         // of Run, once ended is closed
}

// ports are the listeners of the front ends, nil where one is off.
type ports struct{ grpc, http, admin net.Listener }

// New assembles an agent and opens its ports. It waits for nobody: an agent
// starts without its Redis and without a coordinator, and is ready once it has
// rules. Call Run or Close.
func New(cfg Config) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	a := &Agent{
		cfg: cfg, log: cfg.Logger, start: time.Now(), draining: make(chan struct{}), stopped: make(chan struct{}),
		unmatched: unmatched{log: cfg.Logger}, denials: newDenials(cfg.Logger, cfg.DenialLog),
	}
	if err := a.assemble(); err != nil {
		return nil, errors.Join(err, a.release())
	}
	return a, nil
}

func (a *Agent) assemble() error {
	cfg := a.cfg
	if err := a.listen(); err != nil {
		return err
	}
	if err := a.openStore(); err != nil {
		return err
	}
	a.demand = demand.New(demand.Config{})
	a.held = newHeld(func(k quota.Key) *rules.Rule {
		if ad := a.enforcer.Adoption(); ad != nil {
			r, _ := ad.Set.LimitOf(k)
			return r
		}
		return nil
	})
	a.enforcer = enforce.New(enforce.Config{
		Store:  &toldStore{Store: a.store, log: a.log},
		Demand: a.demand,
		// The loop is made below, and both need each other only when they run.
		Leases:     leases{a},
		Wake:       func() { a.uplink.Urgent() },
		Refresh:    func(ctx context.Context) error { return a.region.Refresh(ctx) },
		ShadowMode: cfg.ShadowMode, QuotaMode: cfg.QuotaMode, RememberDenials: true, Allowances: !cfg.Exact,
		Loan: cfg.Timing.Loan, Wall: wall,
	})
	a.metrics = newMetrics(cfg.Registerer, cfg.Version, func() float64 { return float64(a.enforcer.Owing()) })
	cfg.Registerer.MustRegister(a.held)
	a.region = &region{
		name: cfg.Region, store: a.store, enforcer: a.enforcer, metrics: a.metrics, held: a.held, log: a.log,
		turn: make(chan struct{}, 1), back: make(chan struct{}, 1), news: make(chan struct{}, 1), ready: make(chan struct{}),
		loan: quota.MicrosOf(cfg.Timing.Loan), start: a.start,
	}
	var creds credentials.TransportCredentials
	if cfg.CoordinatorTLS != nil {
		creds = credentials.NewTLS(cfg.CoordinatorTLS)
	}
	a.uplink = uplink.New(uplink.Config{
		Region: cfg.Region, Agent: cfg.Agent, Coordinators: cfg.Coordinators, Credentials: creds, Timing: cfg.Timing,
		Dial: cfg.DialCoordinator, Clocks: cfg.Clocks,
		Leave: cfg.Drain, Store: &heldStore{Store: a.store, held: a.held, forget: a.enforcer.Forget}, Local: a.region, Demand: a.demand,
		Logger: a.log, Registerer: cfg.Registerer,
	})
	a.frontEnds()
	return nil
}

// wall is the clock that chooses windows.
func wall() quota.Micros { return quota.Micros(time.Now().UnixMicro()) }

// leases is the loop's waiting room, which is made after the enforcer.
type leases struct{ a *Agent }

func (l leases) Await(ctx context.Context, k quota.Key, limit time.Duration) error {
	return l.a.uplink.Await(ctx, k, limit)
}

func (a *Agent) openStore() (err error) {
	if a.cfg.Store != nil {
		a.store = a.cfg.Store
		return nil
	}
	cfg := a.cfg.redis()
	cfg.Prefix, cfg.Logger, cfg.Registerer = a.cfg.RedisPrefix, a.log, a.cfg.Registerer
	if a.cfg.Redis == Embedded {
		a.log.Warn("the region's store is embedded: its buckets end with this process and no other agent can share them; give --redis a Redis for real use")
		if a.embedded, err = embedded.Start(); err != nil {
			return err
		}
		cfg = a.embedded.Config(cfg)
	}
	s, err := redisbucket.New(cfg)
	if err != nil {
		return err
	}
	a.store = s
	return nil
}

func (a *Agent) listen() error {
	for _, p := range []struct {
		addr string
		to   *net.Listener
	}{{a.cfg.GRPCAddr, &a.ports.grpc}, {a.cfg.HTTPAddr, &a.ports.http}, {a.cfg.AdminAddr, &a.ports.admin}} {
		if p.addr == "" {
			continue
		}
		l, err := a.cfg.Listen("tcp", p.addr)
		if err != nil {
			return fmt.Errorf("open port: %w", err)
		}
		*p.to = l
		a.listeners = append(a.listeners, l)
	}
	return nil
}

func (a *Agent) frontEnds() {
	a.rls = envoyrls.New(envoyrls.Config{
		Decide: a.decideInto, Headers: a.cfg.Headers, Metadata: a.cfg.Metadata, Reflection: a.cfg.Reflection, TLS: a.cfg.ServerTLS,
	})
	check := headers.Full()
	check.Epoch = a.cfg.Headers.Epoch
	a.http = httpapi.NewServer(httpapi.Handler(httpapi.Config{
		Decide: a.decide, JSON: a.json, NotReady: a.NotReady, Headers: check,
	}), a.log)
	a.admin = httpapi.NewServer(httpapi.Admin(httpapi.AdminConfig{
		Metrics: a.metricsHandler(), NotReady: a.NotReady, Rules: a.rulesText, Explain: a.explain,
	}), a.log)
}

// json lets the HTTP front end speak the RLS messages; only here both are known.
func (a *Agent) json(ctx context.Context, body []byte) ([]byte, bool, error) {
	reply, over, err := a.rls.JSON(ctx, body)
	if errors.Is(err, envoyrls.ErrBadMessage) {
		err = fmt.Errorf("%w: %w", httpapi.ErrBadRequest, err)
	}
	return reply, over, err
}

func (a *Agent) metricsHandler() http.Handler {
	g, ok := a.cfg.Registerer.(prometheus.Gatherer)
	if !ok {
		g = prometheus.DefaultGatherer
	}
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{})
}

// NotReady returns what is missing before the agent can decide, empty when
// nothing is. It never depends on the coordinator: a cut-off region serves.
func (a *Agent) NotReady() []string {
	select {
	case <-a.draining:
		return []string{"shutting down"}
	default:
		return a.region.missing()
	}
}

// Addrs returns where the agent listens, empty where a port is off.
func (a *Agent) Addrs() (grpc, http, admin string) {
	addr := func(l net.Listener) string {
		if l == nil {
			return ""
		}
		return l.Addr().String()
	}
	return addr(a.ports.grpc), addr(a.ports.http), addr(a.ports.admin)
}

// Status returns what the sync loop knows.
func (a *Agent) Status() uplink.Status { return a.uplink.Status() }

// Close ends an agent of Open or Start: it drains, reports to the coordinator one
// last time, and returns when all has ended; closing it again is the same. The
// application should have stopped asking, as what it asks later is ErrStopped. Of an
// agent of New that was never run, Close releases what New opened; Run does that by
// itself.
func (a *Agent) Close() error {
	if a.cancel == nil {
		return a.release()
	}
	a.cancel()
	<-a.ended
	return a.result
}

// release closes what New opened.
func (a *Agent) release() error {
	var errs []error
	if a.rls != nil {
		a.rls.Stop(context.Background()) // nothing is in flight
	}
	for _, l := range a.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if a.store != nil {
		errs = append(errs, a.store.Close())
	}
	if a.embedded != nil {
		a.embedded.Close()
	}
	return errors.Join(errs...)
}
