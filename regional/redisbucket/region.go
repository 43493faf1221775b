package redisbucket

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// State returns the region's state, after a check of the server's identity when
// the last one is older than CheckEvery.
func (s *Store) State(ctx context.Context) (bucket.State, error) {
	if s.cluster != nil {
		return s.cluster.state(ctx)
	}
	due := int64(time.Since(s.start) - s.cfg.CheckEvery)
	if last := s.checked.Load(); last == 0 || last < due {
		if err := s.check(ctx); err != nil {
			return bucket.State{}, err
		}
	}
	st, ok, err := s.readState(ctx)
	if err == nil && !ok {
		// The data is gone, and no connection broke to tell: someone emptied it.
		if err = s.check(ctx); err == nil {
			st, ok, err = s.readState(ctx)
		}
	}
	if err != nil {
		return bucket.State{}, err
	}
	if !ok {
		return bucket.State{}, fmt.Errorf("read region state: it vanishes as it is written: %w", enforce.ErrStoreDown)
	}
	return st, nil
}

// check identifies the server behind one of the pool's connections.
func (s *Store) check(ctx context.Context) error {
	err := s.guard(ctx, "identify", func(c *redis.Client) error {
		cn := c.Conn()
		defer cn.Close() //nolint:errcheck // it only goes back to the pool
		return s.identify(ctx, cn, false)
	})
	if err == nil {
		s.checked.Store(int64(time.Since(s.start)))
	}
	return err
}

// readState runs the state script; ok is false when there is no state.
func (s *Store) readState(ctx context.Context) (st bucket.State, ok bool, err error) {
	reply, err := s.runValues(ctx, &s.scripts.state, []string{s.stateKey})
	if err != nil || len(reply) == 0 {
		return st, false, err
	}
	if len(reply) != 13 {
		return st, false, fmt.Errorf("read region state: reply of %d values instead of 13: %w", len(reply), enforce.ErrStoreDown)
	}
	st = parseState(reply)
	if err := s.meet(st.Incarnation, st.Session != 0); err != nil {
		return st, false, fmt.Errorf("read region state: %w: %w", enforce.ErrStoreDown, err)
	}
	return st, true, nil
}

// parseState reads the first 13 values of a reply.
func parseState(reply []any) (st bucket.State) {
	n := func(i int) int64 { v, _ := reply[i].(int64); return v }
	st.Now = quota.Micros(n(0))
	st.Incarnation, _ = reply[1].(string)
	st.Session, st.MinSession = quota.SessionID(n(2)), quota.SessionID(n(3))
	st.Deadline, st.Config = quota.Micros(n(4)), uint64(n(5))
	st.Since, st.First = quota.Micros(n(6)), n(7) == 1
	st.ConfigSince = quota.Micros(n(8))
	st.Prev, st.PrevSince = uint64(n(9)), quota.Micros(n(10))
	st.LentKnown, st.Lent = n(11) == 1, uint64(n(12))
	return st
}

// Renew lets the leases of session be used until deadline on the server's clock.
// The same session only ever gains time; a newer one replaces it.
func (s *Store) Renew(ctx context.Context, incarnation string, session quota.SessionID, deadline quota.Micros) error {
	if s.cluster != nil {
		return s.cluster.renew(ctx, incarnation, session, deadline)
	}
	reply, err := s.run(ctx, &s.scripts.renew, []string{s.stateKey}, incarnation, uint64(session), int64(deadline))
	if err != nil {
		return err
	}
	switch reply[0] {
	case 0:
		return fmt.Errorf("renew session %d: %w: %w", session, enforce.ErrStale, bucket.ErrIncarnation)
	case -1:
		return fmt.Errorf("renew session %d: %w", session, bucket.ErrOldSession)
	}
	return nil
}

// Drop ends session in this region for ever.
func (s *Store) Drop(ctx context.Context, session quota.SessionID) error {
	if s.cluster != nil {
		return s.cluster.drop(ctx, session)
	}
	_, err := s.run(ctx, &s.scripts.drop, []string{s.stateKey}, uint64(session))
	return err
}

// Adopt stores a newer configuration, in the caller's own encoding, and keeps
// the one before it. The same version again changes nothing.
func (s *Store) Adopt(ctx context.Context, incarnation string, version uint64, blob []byte) error {
	if s.cluster != nil {
		return s.cluster.adopt(ctx, incarnation, version, blob)
	}
	reply, err := s.run(ctx, &s.scripts.adopt, []string{s.stateKey, s.configKey, s.prevKey}, incarnation, version, blob)
	if err != nil {
		return err
	}
	return adoption(reply[0], version)
}

// adoption says what an answer to an adoption means.
func adoption(code int64, version uint64) error {
	switch code {
	case 0:
		return fmt.Errorf("adopt configuration %d: %w: %w", version, enforce.ErrStale, bucket.ErrIncarnation)
	case -1:
		return fmt.Errorf("adopt configuration %d: %w", version, bucket.ErrOldConfig)
	}
	return nil
}

// Config returns the adopted configuration and the one before it; Version is 0
// where there is none.
func (s *Store) Config(ctx context.Context) (current, prev bucket.Adopted, err error) {
	if s.cluster != nil {
		return s.cluster.config(ctx)
	}
	reply, err := s.runValues(ctx, &s.scripts.config, []string{s.stateKey, s.configKey, s.prevKey})
	if err != nil {
		return current, prev, err
	}
	return configs(reply)
}

// configs reads the reply of config.lua.
func configs(reply []any) (current, prev bucket.Adopted, err error) {
	if len(reply) != 6 {
		return current, prev, fmt.Errorf("read configuration: reply of %d values instead of 6: %w", len(reply), enforce.ErrStoreDown)
	}
	return adopted(reply[:3]), adopted(reply[3:]), nil
}

func adopted(reply []any) bucket.Adopted {
	version, _ := reply[0].(int64)
	since, _ := reply[1].(int64)
	blob, _ := reply[2].(string)
	a := bucket.Adopted{Version: uint64(version), Since: quota.Micros(since)}
	if a.Version != 0 {
		a.Blob = []byte(blob)
	}
	return a
}

// MarkFirst records that the coordinator called this incarnation the region's
// first, so that its missing buckets start full.
func (s *Store) MarkFirst(ctx context.Context, incarnation string) error {
	if s.cluster != nil {
		return s.cluster.markFirst(ctx, incarnation)
	}
	reply, err := s.run(ctx, &s.scripts.first, []string{s.stateKey}, incarnation)
	if err != nil {
		return err
	}
	return marked(reply[0])
}

// marked says what an answer to a mark means.
func marked(code int64) error {
	if code == 0 {
		return fmt.Errorf("mark first incarnation: %w: %w", enforce.ErrStale, bucket.ErrIncarnation)
	}
	return nil
}
