package redisbucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// readings is how often the partitions are read until they agree: another agent
// may be at the same.
const readings = 5

// partState is one partition as it was read.
type partState struct {
	bucket.State
	sealed string // the region's incarnation that it belongs to
}

// state is Store.State for a cluster.
func (c *clustered) state(ctx context.Context) (bucket.State, error) {
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	case <-ctx.Done():
		return bucket.State{}, fmt.Errorf("read region state: %w: %w", enforce.ErrStoreDown, ctx.Err())
	}
	due := int64(time.Since(c.s.start) - c.s.cfg.CheckEvery)
	if last := c.s.checked.Load(); last == 0 || last < due {
		if err := c.check(ctx); err != nil {
			return bucket.State{}, err
		}
	}
	for range readings {
		v, parts, err := c.read(ctx)
		if errors.Is(err, errElsewhere) {
			// A partition is new on its node, and no connection broke to tell.
			err = c.check(ctx)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return bucket.State{}, err
		}
		done, err := c.settle(ctx, v, parts)
		if err != nil {
			return bucket.State{}, err
		}
		if !done {
			continue
		}
		st := c.sum(v, parts)
		if err := c.s.meet(st.Incarnation, st.Session != 0); err != nil {
			return bucket.State{}, fmt.Errorf("read region state: %w: %w", enforce.ErrStoreDown, err)
		}
		c.view.Store(v)
		return st, nil
	}
	return bucket.State{}, fmt.Errorf("read region state: partitions change faster than they can be read: %w", enforce.ErrStoreDown)
}

// read reads all partitions: the first one, whose clock is the region's, then the
// others, then the first one again. So the clock of a node is compared with the
// region's before and after it was read.
func (c *clustered) read(ctx context.Context) (*view, *[partitions]partState, error) {
	none := func(int) []any { return nil }
	var parts [partitions]partState
	home := func() error {
		return c.guard(ctx, "part", 0, func() error {
			reply, err := runValues(ctx, c.client, &c.s.scripts.part, evalsha(&c.s.scripts.part, []string{c.parts[0].stateKey}, nil))
			if err == nil && !parsePart(reply, &parts[0]) {
				err = errElsewhere
			}
			return err
		})
	}
	if err := home(); err != nil {
		return nil, nil, err
	}
	before := parts[0].Now
	cmds, err := c.each(ctx, &c.s.scripts.part, 1, none)
	if err != nil {
		return nil, nil, err
	}
	for p := 1; p < partitions; p++ {
		if !parsePart(cmds[p].Val(), &parts[p]) {
			return nil, nil, errElsewhere
		}
	}
	if err := home(); err != nil {
		return nil, nil, err
	}
	after := parts[0].Now
	// The region's deadline is counted from the earlier reading.
	parts[0].Now = before
	v := &view{}
	for p := range parts {
		v.parts[p].incarnation = parts[p].Incarnation
		if p > 0 {
			v.parts[p].low, v.parts[p].high = parts[p].Now-after, parts[p].Now-before
		}
	}
	v.incarnation = composite(&v.parts)
	return v, &parts, nil
}

// parsePart reads the reply of part.lua; ok is false when there is nothing to read.
func parsePart(reply []any, st *partState) (ok bool) {
	if len(reply) != 14 {
		return false
	}
	st.State = parseState(reply)
	st.sealed, _ = reply[13].(string)
	return true
}

// settle makes the partitions one region: all of them sealed into the incarnation
// that they make up, none behind the configuration of the first one, no clock
// that has jumped. done is false when something was changed, so that they must be
// read again.
func (c *clustered) settle(ctx context.Context, v *view, parts *[partitions]partState) (done bool, err error) {
	done = true
	for p := range parts {
		if parts[p].sealed == v.incarnation {
			continue
		}
		done = false
		if err := c.guard(ctx, "seal", p, func() error {
			sc := &c.s.scripts.seal
			_, err := runInts(ctx, c.client, sc, evalsha(sc, []string{c.parts[p].stateKey}, []any{parts[p].Incarnation, parts[p].sealed, v.incarnation}))
			return err
		}); err != nil {
			return false, err
		}
	}
	if !done {
		return false, nil
	}
	for p := 1; p < partitions; p++ {
		if parts[p].Config < parts[0].Config {
			done = false
			if _, err := c.run(ctx, &c.s.scripts.version, v, p, []string{c.parts[p].stateKey}, parts[p].Incarnation, parts[0].Config); err != nil && !errors.Is(err, enforce.ErrStale) {
				return false, err
			}
		}
	}
	if p, jumped := c.jumped(v); jumped && done {
		ended := c.sum(v, parts).MinSession
		for i := range parts {
			ended = max(ended, parts[i].Session)
		}
		c.s.log.Warn("the clock of a redis node jumped: the region's session is given up", "partition", p, "ahead_by", v.parts[p].low.Duration())
		c.view.Store(v) // the next reading is compared with this one
		return false, c.dropIn(ctx, v, ended)
	}
	return done, nil
}

// tolerance is how much two readings of a node's clock may differ.
const tolerance = 250 * quota.Micros(time.Millisecond/time.Microsecond)

// jumped returns a partition whose clock does not show what it must after the
// last reading. A deadline on it could lie later than it should.
func (c *clustered) jumped(v *view) (p int, yes bool) {
	last := c.view.Load()
	if last == nil || last.incarnation != v.incarnation {
		return 0, false
	}
	for p := range v.parts {
		was, is := last.parts[p], v.parts[p]
		if is.low > was.high+tolerance || is.high < was.low-tolerance {
			return p, true
		}
	}
	return 0, false
}

// sum is the state of the region: that of the first partition, and as little as
// all of them allow.
func (c *clustered) sum(v *view, parts *[partitions]partState) bucket.State {
	st := parts[0].State
	st.Incarnation = v.incarnation
	for p := 1; p < partitions; p++ {
		o := v.parts[p]
		st.MinSession = max(st.MinSession, parts[p].MinSession)
		st.LentKnown, st.Lent = st.LentKnown && parts[p].LentKnown, st.Lent+parts[p].Lent
		st.Since = max(st.Since, parts[p].Since-o.low)
		st.Deadline = min(st.Deadline, parts[p].Deadline-o.high)
		if parts[p].Session != st.Session {
			st.Session = 0 // a renewal that did not reach all of them
		}
	}
	if st.Session == 0 {
		st.Deadline = 0
	}
	// Readings of the clocks differ by a little, but an incarnation has one beginning.
	v.since = st.Since
	if last := c.view.Load(); last != nil && last.incarnation == v.incarnation && last.since != 0 {
		v.since = last.since
	}
	st.Since = v.since
	return st
}

// renew is Store.Renew for a cluster. Each partition gets the deadline on its own
// clock, as early as it may be.
func (c *clustered) renew(ctx context.Context, incarnation string, session quota.SessionID, deadline quota.Micros) error {
	v, err := c.current(incarnation)
	if err != nil {
		return fmt.Errorf("renew session %d: %w", session, err)
	}
	cmds, err := c.each(ctx, &c.s.scripts.renew, 0, func(p int) []any {
		return []any{v.parts[p].incarnation, uint64(session), int64(deadline + v.parts[p].low), v.incarnation}
	})
	if err != nil {
		return fmt.Errorf("renew session %d: %w", session, err)
	}
	for _, cmd := range cmds {
		switch cmd.code() {
		case 0:
			return fmt.Errorf("renew session %d: %w: %w", session, enforce.ErrStale, bucket.ErrIncarnation)
		case -1:
			return fmt.Errorf("renew session %d: %w", session, bucket.ErrOldSession)
		}
	}
	return nil
}

// drop is Store.Drop for a cluster.
func (c *clustered) drop(ctx context.Context, session quota.SessionID) error {
	for range readings {
		if v := c.view.Load(); v != nil {
			if err := c.dropIn(ctx, v, session); !errors.Is(err, enforce.ErrStale) {
				return err
			}
		}
		// Another incarnation has ended the sessions that it found, maybe not this one.
		if _, err := c.state(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("drop session %d: partitions change faster than they can be read: %w", session, enforce.ErrStoreDown)
}

func (c *clustered) dropIn(ctx context.Context, v *view, session quota.SessionID) error {
	_, err := c.each(ctx, &c.s.scripts.drop, 0, func(int) []any { return []any{uint64(session), v.incarnation} })
	return err
}

// adopt is Store.Adopt for a cluster. The configuration is in the first partition,
// its version in all of them: when it returns, none decides by an older one.
func (c *clustered) adopt(ctx context.Context, incarnation string, version uint64, blob []byte) error {
	v, err := c.current(incarnation)
	if err != nil {
		return fmt.Errorf("adopt configuration %d: %w", version, err)
	}
	reply, err := c.run(ctx, &c.s.scripts.adopt, v, 0, c.configKeys(), v.parts[0].incarnation, version, blob)
	if err != nil {
		return err
	}
	if err := adoption(reply[0], version); err != nil {
		return err
	}
	cmds, err := c.each(ctx, &c.s.scripts.version, 1, func(p int) []any { return []any{v.parts[p].incarnation, version, v.incarnation} })
	if err != nil {
		return err
	}
	for _, cmd := range cmds[1:] {
		if err := adoption(cmd.code(), version); err != nil {
			return err
		}
	}
	return nil
}

func (c *clustered) configKeys() []string {
	head := c.s.cfg.Prefix + "{" + tags[0] + "}"
	return []string{c.parts[0].stateKey, head + "config", head + "config:prev"}
}

// config is Store.Config for a cluster.
func (c *clustered) config(ctx context.Context) (current, prev bucket.Adopted, err error) {
	v := c.view.Load()
	if v == nil {
		return current, prev, fmt.Errorf("read configuration: %w", enforce.ErrStale)
	}
	var reply []any
	err = c.guard(ctx, "config", 0, func() error {
		sc := &c.s.scripts.config
		reply, err = runValues(ctx, c.client, sc, evalsha(sc, c.configKeys(), []any{v.incarnation}))
		return err
	})
	if err != nil {
		return current, prev, err
	}
	return configs(reply)
}

// markFirst is Store.MarkFirst for a cluster.
func (c *clustered) markFirst(ctx context.Context, incarnation string) error {
	v, err := c.current(incarnation)
	if err != nil {
		return fmt.Errorf("mark first incarnation: %w", err)
	}
	reply, err := c.run(ctx, &c.s.scripts.first, v, 0, []string{c.parts[0].stateKey}, v.parts[0].incarnation)
	if err != nil {
		return err
	}
	return marked(reply[0])
}
