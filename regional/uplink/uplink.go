package uplink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/lease"
)

// Store is what the loop needs of the region's store. Every call returns by the
// deadline of its context. The errors are those of package bucket, which say
// that nothing was changed; any other error leaves the outcome unknown.
type Store interface {
	State(ctx context.Context) (bucket.State, error)
	// Replaced returns the incarnation that this process itself saw die at its
	// configured address before the current one began, empty when it saw none.
	Replaced() string
	Renew(ctx context.Context, incarnation string, session quota.SessionID, deadline quota.Micros) error
	MarkFirst(ctx context.Context, incarnation string) error
	// Lend records what an earlier incarnation has on loan, for as long from now.
	Lend(ctx context.Context, incarnation string, lends []bucket.LendAsk, span quota.Micros) error
	Drop(ctx context.Context, session quota.SessionID) error
	// Apply applies assignments, each once, and returns the answers of those that
	// are applied; the error joins what kept the others from it.
	Apply(ctx context.Context, incarnation string, asks []bucket.ApplyAsk) ([]quota.Applied, error)
}

// Region is told what the coordinator says about the region as a whole.
type Region interface {
	// Adopt makes c the region's configuration, in the store and for decisions.
	// An error means that it was not adopted; it will be offered again.
	Adopt(ctx context.Context, incarnation string, c quota.Config) error
	// Config returns the version of the configuration that decisions are made by, 0
	// without one.
	Config() uint64
	// Standing returns the standing share of a key under the adopted
	// configuration, with what a missing record holds in that incarnation of the
	// store; a key that no rule counts has none. now is a time on the store's
	// clock that has passed in it.
	Standing(incarnation string, k quota.Key, now quota.Micros) bucket.Standing
	// Saw is told what the region's state is, as it was read or has been renewed
	// since, and how many of its agents are alive (0: not known).
	Saw(s bucket.State, agents int)
}

// Demand is what the region wants of the coordinator. It is safe for concurrent use.
type Demand interface {
	Changed() int
	Collect(now quota.Micros) []quota.Usage
	Return([]quota.Usage)
}

// Config is what the loop needs.
type Config struct {
	Region, Agent string
	Coordinators  []string
	// Credentials of the connection; nil means no TLS.
	Credentials credentials.TransportCredentials
	Timing      quota.Timing
	// Leave bounds the last report at shutdown. Default 2 s.
	Leave time.Duration
	// StoreTimeout bounds one call of the store. Default 1 s.
	StoreTimeout time.Duration

	// Dial opens the connection to a coordinator; default is TCP. Clocks reads the
	// machine's clocks; default is the kernel's. Tests with virtual time replace both.
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	Clocks func() (mono, boot, realtime quota.Micros)

	Store  Store
	Local  Region
	Demand Demand

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Uplink is the sync loop. Its methods other than Run are safe for concurrent use.
type Uplink struct {
	Waiters
	cfg     Config
	keeper  *lease.Keeper
	metrics *metrics
	urgent  chan struct{} // holds one token
	status  atomic.Pointer[Status]

	// What follows belongs to the goroutine of Run.
	link    *link
	next    int    // index of the endpoint to try
	hint    string // where a follower says the leader is
	applied map[quota.Key]quota.Applied
	confirm bool          // something was applied or adopted that the coordinator should hear of
	hurried bool          // some key needs the coordinator now
	fresh   bool          // something was applied since the last message
	settles quota.Micros  // when to say or ask again what it was too early for, on the monotonic clock; 0 for never
	beside  []quota.Usage // reported beside a sync; the next answer says that it was heard
	seen    bucket.State  // as read for the last sync
	config  uint64        // that decisions were last seen to be made by
	toldAt  time.Time     // when a problem was last logged
	untold  int           // how many were not, since then
	last    Status
}

// Status is what the loop knows, for people.
type Status struct {
	Phase       lease.Phase     `json:"phase"`
	Coordinator string          `json:"coordinator,omitempty"`
	Session     quota.SessionID `json:"session,omitempty"`
	Incarnation string          `json:"incarnation,omitempty"`
	Agents      int             `json:"agents,omitempty"`
	Problem     string          `json:"problem,omitempty"`
}

// New returns a loop that is not running.
func New(cfg Config) *Uplink {
	if cfg.Credentials == nil {
		cfg.Credentials = insecure.NewCredentials()
	}
	if cfg.Leave <= 0 {
		cfg.Leave = 2 * time.Second
	}
	if cfg.StoreTimeout <= 0 {
		cfg.StoreTimeout = time.Second
	}
	if cfg.Clocks == nil {
		cfg.Clocks = ReadClocks
	}
	u := &Uplink{
		cfg: cfg, metrics: newMetrics(cfg.Registerer),
		keeper: lease.New(lease.Config{Region: cfg.Region, Agent: cfg.Agent, Timing: cfg.Timing, Rand: rand.Float64}),
		urgent: make(chan struct{}, 1),
		// So that the agents of a region do not all begin with the same node.
		next:    rand.IntN(max(1, len(cfg.Coordinators))),
		applied: make(map[quota.Key]quota.Applied),
		last:    Status{Phase: lease.Connecting},
	}
	u.status.Store(&Status{Phase: lease.Connecting})
	return u
}

// Urgent makes the loop report at once. It never blocks.
func (u *Uplink) Urgent() {
	select {
	case u.urgent <- struct{}{}:
	default:
	}
}

// Status returns what the loop knows now.
func (u *Uplink) Status() Status { return *u.status.Load() }

// poll is how often the loop looks for changed usage; the keeper decides whether
// it is time to report it.
const poll = 50 * time.Millisecond

// Run syncs until ctx ends, then reports one last time that this agent leaves.
// It returns when all its goroutines have ended. Whoever feeds Demand should
// have stopped before ctx ends, so that the last report has everything.
func (u *Uplink) Run(ctx context.Context) error {
	defer u.disconnect()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := u.readNow()
		u.follow()
		if u.settles > 0 && now.clock.Mono >= u.settles {
			u.settles, u.confirm = 0, true // the answer repeats what was not confirmed
		}
		wait := u.keeper.NextSync(now.clock, lease.Pending{
			Usage: u.cfg.Demand.Changed() > 0, Urgent: u.hurried, Applied: u.confirm,
		}).Duration()
		if wait == 0 {
			_ = u.sync(ctx) // the schedule and the log have its error already
			u.observe()
			continue
		}
		timer.Reset(min(wait, poll))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-u.urgent:
			u.hurried = true
		case <-u.linkWake():
			u.pushed(ctx)
		}
		u.observe()
	}
	u.leave(context.WithoutCancel(ctx))
	return nil
}

// leave sends the last report and gives the leases back if nobody else is there
// to use them. It tries again while there is time, since a
// redirect or a connection that died unnoticed costs one attempt.
func (u *Uplink) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, u.cfg.Leave)
	defer cancel()
	u.keeper.Leave(u.readNow().clock, u.last.Agents <= 1)
	var err error
	for range 3 {
		if err = u.sync(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	u.observe()
	if err != nil {
		u.cfg.Logger.Warn("left without telling the coordinator; it notices by itself within the session's TTL", "err", err)
	}
}

// linkWake is ready when the link has something; nil, so never, without a link.
func (u *Uplink) linkWake() <-chan struct{} {
	if u.link == nil {
		return nil
	}
	return u.link.wake
}

// pushed handles what arrives between two syncs: pushes, and the end of the stream.
func (u *Uplink) pushed(ctx context.Context) {
	for u.link != nil {
		m, lost, err := u.link.take()
		u.confirm = u.confirm || lost
		switch {
		case err != nil:
			u.broken(err)
			return
		case m == nil:
			return
		}
		if err := u.answer(ctx, *m); err != nil && !errors.Is(err, lease.ErrNotAsked) {
			u.problem(err)
		}
	}
}

// broken gives up the link because of err.
func (u *Uplink) broken(err error) {
	u.disconnect()
	if to := redirected(err); to != "" {
		u.hint = to
		u.keeper.Redirected(u.readNow().clock)
		return
	}
	u.next++
	u.keeper.Failed(u.readNow().clock)
	u.problem(err)
}

func (u *Uplink) disconnect() {
	if u.link != nil {
		u.link.close()
		u.link = nil
	}
}

// connected returns a link, a new one where there is none.
func (u *Uplink) connected(ctx context.Context) (*link, error) {
	if u.link != nil {
		return u.link, nil
	}
	endpoint := u.cfg.Coordinators[u.next%len(u.cfg.Coordinators)]
	if u.hint != "" {
		endpoint, u.hint = u.hint, ""
	}
	l, err := u.connect(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	u.link = l
	return l, nil
}

// quiet is how long the log stays silent after a problem: every attempt fails
// while the coordinator is away, on each of its nodes with another text.
const quiet = 10 * time.Second

func (u *Uplink) problem(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	u.last.Problem = err.Error()
	if time.Since(u.toldAt) < quiet {
		u.untold++
		return
	}
	u.cfg.Logger.Warn("sync with the coordinator failed", "err", err, "phase", string(u.last.Phase), "more_since_last_line", u.untold)
	u.toldAt, u.untold = time.Now(), 0
}

// observe publishes the phase and logs when it changes.
func (u *Uplink) observe() {
	now := u.last
	now.Phase = u.keeper.Phase(u.readNow().clock)
	now.Coordinator = ""
	if u.link != nil {
		now.Coordinator = u.link.endpoint
	}
	if now.Phase != u.last.Phase {
		u.cfg.Logger.Info("session "+string(now.Phase), "was", u.last.Phase, "session", uint64(now.Session),
			"coordinator", now.Coordinator, "agents", now.Agents)
		if now.Phase == lease.Connected {
			u.toldAt = time.Time{} // the next problem is news
		}
		u.metrics.phase(now.Phase)
	}
	u.last = now
	if now != *u.status.Load() {
		u.status.Store(&now)
	}
}

// clockReading is one look at the three clocks.
type clockReading struct{ clock lease.Clock }

func (u *Uplink) readNow() clockReading {
	mono, boot, realtime := u.cfg.Clocks()
	return clockReading{lease.Clock{Mono: mono, Boot: boot, Real: realtime}}
}

// timed runs f with the store's timeout.
func (u *Uplink) timed(ctx context.Context, verb string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, u.cfg.StoreTimeout)
	defer cancel()
	if err := f(ctx); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}
