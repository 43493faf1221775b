package lease

import (
	"fmt"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// Config sets up a Keeper.
type Config struct {
	Region string
	Agent  string // unique per process
	Timing quota.Timing
	// Rand returns a random number in [0, 1). It spreads the syncs of many agents.
	Rand func() float64
}

// maxSkew is how far two clocks may disagree between two readings, beyond the
// difference of rates that the deadline allows for. Source: DESIGN.md 3.4.
const maxSkew = quota.Second / 4

// Keeper decides what one agent says to the coordinator and when, and what the
// answers allow. There is at most one sync open at a time. It is not safe for
// concurrent use: the sync loop owns it.
type Keeper struct {
	cfg     Config
	cluster string
	seq     uint64
	open    *sync    // the sync that waits for its answer
	seen    *reading // the last reading of the clocks and the store
	leaving bool
	last    bool // leaving, and no other agent of the region is known

	// distrust is a session whose deadline in the store may be wrong. Until the
	// coordinator names a newer one every sync asks to drop it.
	distrust quota.SessionID

	renewed *sync        // the last sync whose answer renewed the session
	usable  quota.Micros // for how long after that

	schedule schedule
}

// sync is what the keeper must remember of a request to judge its answer.
type sync struct {
	reading
	seq        uint64
	minSession quota.SessionID
	// trusted says that the clocks agreed since the reading before.
	trusted bool
	leaving bool
}

// reading is one look at the clocks and at the store, at the same time.
type reading struct {
	clock       Clock
	store       quota.Micros
	incarnation string
	session     quota.SessionID
	config      uint64
	confirmed   uint64 // the configuration that the coordinator is told
}

// New returns a keeper that has never spoken to a coordinator.
func New(cfg Config) *Keeper {
	return &Keeper{cfg: cfg, schedule: schedule{patience: min(lastBackoff, quota.MicrosOf(cfg.Timing.TTL)/8)}}
}

// Report is what a sync tells beside the region's state.
type Report struct {
	// Replaces is the incarnation that this agent itself saw die, see quota.Incarnation.
	Replaces string
	// Config is the configuration that this agent decides by, 0 without one.
	Config  uint64
	Usage   []quota.Usage
	Applied []quota.Applied
}

// Request returns the next sync; the one before, if it is still open, is given
// up. now and s must be read right before, and the request sent right after.
//
// Before it the caller waits for Settles. If the request says Drop, the caller must
// first end its Session in the store (Store.Drop) and then wait for bucket.DrawSpan on
// the store's clock, for what was drawn ahead by its leases; if that fails it must not
// send the request but call Failed.
func (k *Keeper) Request(now Clock, s bucket.State, r Report) quota.SyncRequest {
	cur := reading{clock: now, store: s.Now, incarnation: s.Incarnation, session: s.Session, config: s.Config, confirmed: min(confirmed(s), r.Config)}
	trusted := k.seen == nil || k.agree(*k.seen, cur)
	k.seen = &cur
	if !trusted {
		k.distrust = max(k.distrust, s.Session)
		k.renewed = nil
	}
	if s.Session > k.distrust {
		k.distrust = 0
	}
	if k.last {
		k.distrust = max(k.distrust, s.Session)
	}
	k.seq++
	k.open = &sync{reading: cur, seq: k.seq, minSession: s.MinSession, trusted: trusted, leaving: k.leaving}
	k.schedule.sent(now)
	req := quota.SyncRequest{
		Seq: k.seq, Cluster: k.cluster, Region: k.cfg.Region, Agent: k.cfg.Agent,
		Incarnation: quota.Incarnation{ID: s.Incarnation, Replaces: r.Replaces},
		Session:     s.Session, Config: cur.confirmed, Leaving: k.leaving, Forgot: !s.LentKnown,
		Usage: r.Usage, Applied: r.Applied,
	}
	if k.distrust != 0 {
		req.Session, req.Drop = k.distrust, true
	}
	return req
}

// Beside returns a message that may be sent while a sync waits for its answer: what
// has changed since, and nothing that renews or wants an answer (Seq 0). ok is
// false when there is no open sync, or nothing may be said beside it: the region
// has no session yet, or none that is trusted.
func (k *Keeper) Beside(now Clock, r Report) (req quota.SyncRequest, ok bool) {
	if !k.besides() {
		return quota.SyncRequest{}, false
	}
	k.schedule.besideAt = now.Mono
	return quota.SyncRequest{
		Cluster: k.cluster, Region: k.cfg.Region, Agent: k.cfg.Agent,
		Incarnation: quota.Incarnation{ID: k.open.incarnation},
		Session:     k.open.session, Config: k.open.confirmed,
		Usage: r.Usage, Applied: r.Applied,
	}, true
}

func (k *Keeper) besides() bool {
	return k.open != nil && k.cluster != "" && k.open.session != 0 && k.distrust == 0 && !k.leaving
}

// agree reports whether all clocks advanced alike between two readings.
func (k *Keeper) agree(then, now reading) bool {
	elapsed, skew := now.clock.since(then.clock)
	allowed := k.allowed(elapsed)
	if skew > allowed {
		return false
	}
	if then.incarnation != now.incarnation {
		// Another store may be another machine; its session is void anyway.
		return true
	}
	store := now.store - then.store - elapsed
	return max(store, -store) <= allowed
}

func (k *Keeper) allowed(elapsed quota.Micros) quota.Micros {
	return maxSkew + elapsed/quota.PPM*quota.Micros(k.cfg.Timing.RhoPPM)
}

// Effects is what an answer allows, in the order in which to do it: lend, renew,
// adopt, apply.
type Effects struct {
	// Incarnation is the life of the store that the answer or push is about. When the
	// store has begun another since, it must refuse all of it: a configuration that the
	// region has long left is news to a store that has lost its own.
	Incarnation string
	// Lend is what the region has on loan though its store does not know it.
	Lend *Lend
	// Renew sets the session and its deadline in the store.
	Renew *Renew
	// Agents is the number of agents of the region, 0 when the answer does not say.
	Agents int
	// Adopt is the configuration to adopt, nil for none.
	Adopt *quota.Config
	// Apply are the assignments to apply and to report as applied.
	Apply []Apply
}

// Lend is what an earlier incarnation of the region's store has lent.
type Lend struct {
	Keys []quota.Key
	Span quota.Micros // how long from now, at most
}

// Apply is an assignment and the end of its loan, on the store's clock.
type Apply struct {
	quota.Assignment
	LoanUntil quota.Micros // 0 without a loan
}

// Renew is a renewal of the region's session.
type Renew struct {
	Session  quota.SessionID
	Deadline quota.Micros // on the store's clock
	// First says that the incarnation is the first that the region ever had.
	First bool
}

// Response judges an answer of the coordinator, or a push (Seq 0). An error
// means that nothing follows from the answer.
func (k *Keeper) Response(now Clock, r quota.SyncResponse) (Effects, error) {
	if r.Seq == 0 {
		return k.push(now, r)
	}
	if k.open == nil || r.Seq != k.open.seq {
		return Effects{}, fmt.Errorf("answer to sync %d: %w", r.Seq, ErrNotAsked)
	}
	s := k.open
	k.open = nil
	e, err := k.judge(now, s, r)
	if err != nil {
		k.schedule.failed(now, k.cfg.Rand)
		return Effects{}, fmt.Errorf("answer to sync %d: %w", r.Seq, err)
	}
	k.schedule.answered(now, r.TTL, k.cfg.Rand)
	if e.Renew == nil && !s.leaving {
		// Clocks had jumped: ask at once, from a reading after the jump.
		k.schedule.again(now)
	}
	return e, nil
}

func (k *Keeper) judge(now Clock, s *sync, r quota.SyncResponse) (Effects, error) {
	elapsed, skew := now.since(s.clock)
	switch {
	case skew > k.allowed(elapsed):
		k.distrust = max(k.distrust, s.session)
		k.renewed = nil
		return Effects{}, ErrClock
	case elapsed > quota.MicrosOf(k.cfg.Timing.Answer):
		return Effects{}, fmt.Errorf("%w, after %v", ErrTooLate, elapsed.Duration())
	case r.Refusal != nil:
		return Effects{}, refused(k.cfg.Region, s.incarnation, *r.Refusal)
	case k.cluster != "" && r.Cluster != k.cluster:
		return Effects{}, fmt.Errorf("%w: have %q, want %q", ErrWrongCluster, r.Cluster, k.cluster)
	}
	k.cluster = r.Cluster
	if s.leaving {
		return Effects{Agents: r.Agents}, nil
	}
	if r.Session == 0 || r.TTL <= 0 {
		return Effects{}, fmt.Errorf("%w: session %d, ttl %v", ErrMalformed, r.Session, r.TTL)
	}
	if r.Session < s.minSession || r.Session <= k.distrust {
		// The region has dropped that session, this agent or another; the
		// coordinator has yet to hear of it.
		k.distrust = max(k.distrust, r.Session)
		return Effects{}, fmt.Errorf("%w: session %d", ErrEnded, r.Session)
	}
	k.distrust = 0
	if !s.trusted {
		return Effects{}, nil
	}
	timing := k.cfg.Timing
	timing.TTL = r.TTL
	k.renewed, k.usable = s, quota.MicrosOf(timing.Usable())
	e := Effects{
		Incarnation: s.incarnation,
		Renew: &Renew{
			Session: r.Session, Deadline: s.store + k.usable, First: r.First,
		},
		Agents: r.Agents,
	}
	if r.Lent != nil {
		e.Lend = &Lend{Keys: r.Lent.Keys, Span: quota.MicrosOf(r.Lent.For)}
	}
	for _, a := range r.Assignments {
		apply := Apply{Assignment: a}
		if a.Loan != nil {
			apply.LoanUntil = s.store + quota.MicrosOf(timing.Sure(a.Loan.Left))
		}
		e.Apply = append(e.Apply, apply)
	}
	if r.Config != nil && r.Config.Version > 0 {
		e.Adopt = r.Config
	}
	return e, nil
}

// push accepts assignments and a configuration between answers. It renews
// nothing; the store applies an assignment only to the session it belongs to, and
// adopts only newer configurations. The first configuration is not taken from a
// push but asked for at once: only an answer says whether the incarnation is the
// region's first, and that must be known before.
func (k *Keeper) push(now Clock, r quota.SyncResponse) (Effects, error) {
	if k.cluster == "" || r.Cluster != k.cluster {
		return Effects{}, fmt.Errorf("push: %w: have %q, want %q", ErrWrongCluster, r.Cluster, k.cluster)
	}
	e := Effects{Adopt: r.Config}
	if k.seen != nil {
		e.Incarnation = k.seen.incarnation
	}
	for _, a := range r.Assignments {
		// A loan counts from the sync that its answer belongs to: there is none.
		if a.Loan == nil {
			e.Apply = append(e.Apply, Apply{Assignment: a})
		}
	}
	if e.Adopt != nil && (k.seen == nil || k.seen.config == 0) {
		e.Adopt = nil
		k.schedule.again(now)
	}
	return e, nil
}

// Failed says that the open sync got no answer: the stream broke, it took
// longer than Timing.Answer, or it could not be sent.
func (k *Keeper) Failed(now Clock) {
	k.open = nil
	k.schedule.failed(now, k.cfg.Rand)
}

// Redirected says that the coordinator named another leader instead of
// answering: the next sync may follow at once.
func (k *Keeper) Redirected(now Clock) {
	k.open = nil
	k.schedule.redirected(now, k.cfg.Rand)
}

// Waiting returns the number of the sync that waits for its answer, 0 for none.
func (k *Keeper) Waiting() uint64 {
	if k.open == nil {
		return 0
	}
	return k.open.seq
}

// Leave makes the following requests say that the agent is shutting down. With
// last it is the region's only agent as far as it knows: the session is dropped,
// so that other regions have its leases at once. A sibling that was overlooked
// falls back to the standing share and opens another session.
func (k *Keeper) Leave(now Clock, last bool) {
	k.leaving, k.last = true, last
	k.schedule.again(now)
}

// Phase is what the agent knows of its connection, for logs, metrics and readiness.
type Phase string

// The phases.
const (
	Connecting   Phase = "connecting"   // never had a session
	Connected    Phase = "connected"    // the leases are usable as far as this agent knows
	Disconnected Phase = "disconnected" // the deadline has passed
	Dropping     Phase = "dropping"     // the session is not trusted
	Leaving      Phase = "leaving"
)

// Phase returns the phase now. Another agent of the region may still keep the
// region's session alive when this one is disconnected.
func (k *Keeper) Phase(now Clock) Phase {
	switch {
	case k.leaving:
		return Leaving
	case k.distrust != 0:
		return Dropping
	case k.usable == 0:
		return Connecting
	case k.renewed == nil:
		return Disconnected
	}
	if elapsed, skew := now.since(k.renewed.clock); elapsed >= k.usable || skew > k.allowed(elapsed) {
		return Disconnected
	}
	return Connected
}
