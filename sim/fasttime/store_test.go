package fasttime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// redis is a region's store: the reference that the scripts of package
// redisbucket must match, behind a mutex, on the bubble's clock.
type redis struct {
	name string

	mu    sync.Mutex
	store *bucket.Store
	lives int
	down  bool
}

func newRedis(name string) *redis {
	r := &redis{name: name}
	r.restart()
	return r
}

// epoch is some moment of the real clock.
var epoch = time.Now()

// now is the time of all clocks: a bubble's, or the real one, without its steps.
func now() quota.Micros {
	return quota.Micros(epoch.UnixMicro()) + quota.MicrosOf(time.Since(epoch))
}

// restart loses everything: what follows is another incarnation.
func (r *redis) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lives++
	r.down, r.store = false, bucket.NewStore()
	r.store.Incarnate(now(), fmt.Sprintf("%s-life-%d", r.name, r.lives))
}

// stop makes it answer nobody until restart or restore, which loses nothing.
func (r *redis) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
}

func (r *redis) restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = false
}

// lease returns what the region holds of a key, by its own record.
func (r *redis) lease(k quota.Key) quota.Capacity {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, _ := r.store.Read(k)
	return rec.Lease
}

// left returns for how long the region's leases may be used by what it knows now.
func (r *redis) left() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return (r.store.State(now()).Deadline - now()).Duration()
}

// client is one agent's connection to its region's store.
type client struct {
	redis *redis

	// Guarded by redis.mu.
	dead     bool // its agent was killed
	seen     string
	held     bool // seen had a session
	replaced string
}

var _ regional.Store = (*client)(nil)

// do runs one step of the store, as Redis runs one script.
func (c *client) do(ctx context.Context, f func(s *bucket.Store) error) error {
	c.redis.mu.Lock()
	defer c.redis.mu.Unlock()
	if c.redis.down || c.dead {
		return fmt.Errorf("%s: %w", c.redis.name, enforce.ErrStoreDown)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", c.redis.name, enforce.ErrStoreDown, err)
	}
	err := f(c.redis.store)
	if errors.Is(err, bucket.ErrIncarnation) {
		err = fmt.Errorf("%w: %w", enforce.ErrStale, err)
	}
	return err
}

// kill makes the store refuse an agent that does not exist any more.
func (c *client) kill() {
	c.redis.mu.Lock()
	defer c.redis.mu.Unlock()
	c.dead = true
}

func (c *client) State(ctx context.Context) (st bucket.State, err error) {
	err = c.do(ctx, func(s *bucket.Store) error {
		st = s.State(now())
		if st.Incarnation != c.seen {
			if c.seen != "" && (c.held || c.replaced == "") {
				c.replaced = c.seen
			}
			c.seen, c.held = st.Incarnation, false
		}
		c.held = c.held || st.Session != 0
		return nil
	})
	return st, err
}

func (c *client) Replaced() string {
	c.redis.mu.Lock()
	defer c.redis.mu.Unlock()
	return c.replaced
}

func (c *client) Take(ctx context.Context, t enforce.Take) (res enforce.TakeResult, err error) {
	err = c.do(ctx, func(s *bucket.Store) error {
		if !s.Current(t.Incarnation, t.Config) {
			return enforce.ErrStale
		}
		admitted, verdicts := s.Take(now(), t.Asks)
		res = enforce.TakeResult{Now: now(), Admitted: admitted, Verdicts: verdicts}
		return nil
	})
	return res, err
}

func (c *client) Charge(ctx context.Context, incarnation string, charges []bucket.Charge) error {
	return c.do(ctx, func(s *bucket.Store) error { return s.Charge(now(), incarnation, charges) })
}

func (c *client) Apply(ctx context.Context, incarnation string, asks []bucket.ApplyAsk) (done []quota.Applied, err error) {
	err = c.do(ctx, func(s *bucket.Store) error {
		var refused error
		for _, a := range asks {
			applied, err := s.Apply(now(), incarnation, a)
			if err != nil {
				refused = errors.Join(refused, err)
				continue
			}
			done = append(done, applied)
		}
		return refused
	})
	return done, err
}

func (c *client) Renew(ctx context.Context, incarnation string, session quota.SessionID, deadline quota.Micros) error {
	return c.do(ctx, func(s *bucket.Store) error { return s.Renew(now(), incarnation, session, deadline) })
}

func (c *client) MarkFirst(ctx context.Context, incarnation string) error {
	return c.do(ctx, func(s *bucket.Store) error { return s.MarkFirst(incarnation) })
}

func (c *client) Lend(ctx context.Context, incarnation string, lends []bucket.LendAsk, span quota.Micros) error {
	return c.do(ctx, func(s *bucket.Store) error { return s.Lend(now(), incarnation, lends, span) })
}

func (c *client) Lent(ctx context.Context) (lent map[quota.Key]quota.Micros, err error) {
	err = c.do(ctx, func(s *bucket.Store) error { lent = s.Lent(now()); return nil })
	return lent, err
}

func (c *client) Drop(ctx context.Context, session quota.SessionID) error {
	return c.do(ctx, func(s *bucket.Store) error { s.Drop(session); return nil })
}

func (c *client) Adopt(ctx context.Context, incarnation string, version uint64, blob []byte) error {
	return c.do(ctx, func(s *bucket.Store) error { return s.Adopt(now(), incarnation, version, blob) })
}

func (c *client) Config(ctx context.Context) (current, prev bucket.Adopted, err error) {
	err = c.do(ctx, func(s *bucket.Store) error { current, prev = s.Config(); return nil })
	return current, prev, err
}

func (c *client) Read(ctx context.Context, k quota.Key) (rec bucket.Record, ok bool, err error) {
	err = c.do(ctx, func(s *bucket.Store) error { rec, ok = s.Read(k); return nil })
	return rec, ok, err
}

func (c *client) Close() error { return nil }
