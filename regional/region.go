package regional

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/lease"
)

// region keeps this agent's view of its region up to date: the state and the
// adopted configuration that the store holds for all agents. It is what the sync
// loop tells of the coordinator's word (uplink.Region), and what decisions ask
// when the store calls their view stale.
type region struct {
	name     string
	store    Store
	enforcer *enforce.Enforcer
	metrics  *metrics
	held     *held
	log      *slog.Logger
	loan     quota.Micros // how long a standing share may be lent
	start    time.Time    // the zero of the time of decisions
	// turn holds a token while somebody reads or changes the configuration.
	turn chan struct{}
	// back holds a token when the store has answered and is owed something.
	back chan struct{}
	// news holds a token when the store has a newer configuration than decisions.
	news chan struct{}
	// ready is closed when there are rules for the first time.
	ready chan struct{}
	// known is the state that the adoption in force was read with; guarded by turn.
	known bucket.State
	// lent is what the store said of loans when it last changed, as of lentAt;
	// guarded by turn.
	lent   map[quota.Key]quota.Micros
	lentAt bucket.State
	// failure is the last problem with the adopted configuration, so that it is
	// logged once; guarded by turn.
	failure string

	answered atomic.Bool // the store has answered once
	agents   atomic.Int64
}

// Saw takes over what the sync loop read or renewed.
func (r *region) Saw(s bucket.State, agents int) {
	if agents > 0 {
		r.agents.Store(int64(agents))
	}
	r.see(s)
	if s.Config > r.Config() {
		select {
		case r.news <- struct{}{}:
		default:
		}
	}
}

// Config returns the version that decisions are made by, 0 without one.
func (r *region) Config() uint64 {
	if a := r.enforcer.Adoption(); a != nil {
		return a.Version
	}
	return 0
}

// see tells decisions what the store said. A store that has answered can take
// what is owed to it, so watch hears of it at once.
func (r *region) see(s bucket.State) {
	r.enforcer.SetView(enforce.View{Region: s.Region, Now: s.Now, Agents: max(1, int(r.agents.Load()))})
	if r.enforcer.Owing() == 0 {
		return
	}
	select {
	case r.back <- struct{}{}:
	default:
	}
}

// Standing returns the standing share of a key, none before there are rules.
func (r *region) Standing(incarnation string, k quota.Key, now quota.Micros) bucket.Standing {
	a := r.enforcer.Adoption()
	if a == nil {
		return lease.Uncounted(k, 0)
	}
	st := a.StandingAt(k, now, wall())
	if a.Incarnation != incarnation {
		// What the adoption knows of missing buckets is about a life of the store
		// that is over: here they are empty.
		st.Base, st.Since = 0, now
	}
	return st
}

// Adopt makes c the configuration of the region and of this agent.
func (r *region) Adopt(ctx context.Context, incarnation string, c quota.Config) error {
	if err := r.lock(ctx); err != nil {
		return err
	}
	defer r.unlock()
	// What the region has adopted before decides what its shares are worth.
	if err := r.read(ctx); err != nil && !errors.Is(err, lease.ErrNotAdopted) {
		return err
	}
	blob, err := lease.Encode(c, r.name, r.enforcer.Adoption())
	if err != nil {
		return err
	}
	// Another agent may have adopted a newer one meanwhile, which is as good.
	if err := r.store.Adopt(ctx, incarnation, c.Version, blob); err != nil && !errors.Is(err, bucket.ErrOldConfig) {
		return err
	}
	return r.read(ctx)
}

// Refresh reads the region's state again, and the configuration when it changed.
func (r *region) Refresh(ctx context.Context) error {
	if err := r.lock(ctx); err != nil {
		return err
	}
	defer r.unlock()
	return r.read(ctx)
}

func (r *region) lock(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the region's configuration: %w", ctx.Err())
	}
}

func (r *region) unlock() { <-r.turn }

// read is Refresh for whoever holds the turn. State and configuration are read
// in two steps, so they are read again until they fit.
func (r *region) read(ctx context.Context) error {
	for range 3 {
		asked := time.Since(r.start)
		s, err := r.store.State(ctx)
		if err != nil {
			return err
		}
		if err := r.readLent(ctx, asked, s); err != nil {
			return err
		}
		r.answered.Store(true)
		r.see(s)
		r.metrics.region(s)
		r.held.saw(s)
		if r.current(s) {
			return nil
		}
		current, prev, err := r.store.Config(ctx)
		if err != nil {
			return err
		}
		if current.Version != s.Config || prev.Version != s.Prev {
			continue
		}
		return r.adopt(s, current, prev)
	}
	return fmt.Errorf("read configuration: %w: it changes faster than it can be read", enforce.ErrStale)
}

// readLent tells decisions what is on loan. What the store says after it has told
// its state is at least as new.
func (r *region) readLent(ctx context.Context, asked time.Duration, s bucket.State) error {
	if s.Incarnation != r.lentAt.Incarnation || s.Lent != r.lentAt.Lent {
		r.lent = nil
		if s.Lent > 0 {
			lent, err := r.store.Lent(ctx)
			if err != nil {
				return err
			}
			r.lent = lent
		}
		r.lentAt = s
	}
	known := enforce.Lent{At: asked, Now: s.Now, Until: r.lent}
	if !s.LentKnown && !s.First {
		known.All = s.Since + r.loan
	}
	r.enforcer.SetLent(known)
	return nil
}

// current reports whether the adoption in force is what s describes.
func (r *region) current(s bucket.State) bool {
	k := r.known
	return r.enforcer.Adoption() != nil && k.Incarnation == s.Incarnation && k.Config == s.Config && k.Prev == s.Prev &&
		k.First == s.First && k.LentKnown == s.LentKnown && k.Since == s.Since && k.ConfigSince == s.ConfigSince && k.PrevSince == s.PrevSince
}

func (r *region) adopt(s bucket.State, current, prev bucket.Adopted) error {
	a, err := lease.Adopt(r.name, r.loan, s, current, prev)
	if err != nil {
		if !errors.Is(err, lease.ErrNotAdopted) && err.Error() != r.failure {
			r.failure = err.Error()
			r.log.Error("the region's configuration cannot be used; the rules before it stay in force", "version", current.Version, "err", err)
		}
		return err
	}
	r.failure = ""
	old := r.enforcer.Adoption()
	r.known = s
	r.enforcer.Adopt(a)
	r.see(s) // a new adoption does not know the store's clock yet
	r.metrics.adopted(a)
	if old == nil {
		close(r.ready)
	}
	if old == nil || old.Version != a.Version {
		r.log.Info("rules adopted", "version", a.Version, "domains", len(a.Set.Domains()), "rules", len(a.Set.Rules()))
	}
	return nil
}

const (
	// watchEvery is how often the state is read without a reason: how long this
	// agent may not know that the store is back or that another agent adopted a
	// configuration, when no request tells it.
	watchEvery = time.Second
	// watchSoon is the same before there are rules, and while the store is away
	// or owed something.
	watchSoon = 200 * time.Millisecond
	// watchTimeout bounds one reading.
	watchTimeout = time.Second
)

// watch refreshes until ctx ends, and settles what was admitted while the store
// was away.
func (r *region) watch(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			if r.enforcer.Owing() > 0 {
				r.look(context.WithoutCancel(ctx)) // or the debt would be forgotten
			}
			return
		case <-r.back:
			r.settle(ctx)
		case <-r.news:
			timer.Reset(0)
		case <-timer.C:
			wait := watchEvery
			asked := time.Since(r.start)
			answered := r.look(ctx)
			if !answered {
				r.enforcer.Lost(asked)
			}
			if !answered || r.enforcer.Adoption() == nil || r.enforcer.Owing() > 0 {
				wait = watchSoon
			}
			timer.Reset(wait)
		}
	}
}

// look refreshes and settles. It reports whether the store answered.
func (r *region) look(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	err := r.Refresh(ctx)
	if errors.Is(err, enforce.ErrStoreDown) || ctx.Err() != nil {
		return false
	}
	r.settle(ctx)
	return true
}

// settle charges the store, which has answered, with what it is owed.
func (r *region) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	// In a new incarnation the debts wait until its configuration is adopted.
	if err := r.enforcer.Settle(ctx); err != nil && !errors.Is(err, enforce.ErrStale) {
		r.log.Warn("what was admitted while the store was away is not charged yet; it is tried again", "err", err)
	}
}

// missing says what this agent still needs before it can decide.
func (r *region) missing() (out []string) {
	if !r.answered.Load() {
		out = append(out, "the region's Redis has not answered yet")
	}
	if r.enforcer.Adoption() == nil {
		out = append(out, "no rules adopted yet, neither from the coordinator nor from the region's Redis")
	}
	return out
}
