package bucket

import (
	"bytes"
	"fmt"

	"github.com/quorate/quorate/coordinator/quota"
)

// Incarnate begins a new incarnation: every lease and every record of the old
// one is void, its session is over for ever. The adopted configuration stays, so
// that a cut-off region still serves.
func (s *Store) Incarnate(now quota.Micros, id string) {
	r := &s.region
	if r.Session > 0 {
		r.MinSession = max(r.MinSession, r.Session+1)
	}
	r.Incarnation, r.Session, r.Deadline = id, 0, 0
	s.since, s.first, s.known, s.lents = now, false, false, 0
	// The new life starts on the clock it finds: a mark left by a clock that ran
	// ahead would keep its buckets empty until that time.
	s.high = now
	s.config.Since = min(s.config.Since, now)
	s.prev.Since = min(s.prev.Since, now)
}

// State returns the region's state and advances its high-water mark.
func (s *Store) State(now quota.Micros) State {
	s.high = max(s.high, now)
	return State{
		Now: s.high, Region: s.region, Since: s.since, First: s.first,
		ConfigSince: s.config.Since, Prev: s.prev.Version, PrevSince: s.prev.Since,
		LentKnown: s.known, Lent: s.lents,
	}
}

// Renew lets the leases of session be used until deadline. A newer session
// replaces the one the region has, with its own deadline; the same session only
// ever gains time.
func (s *Store) Renew(now quota.Micros, incarnation string, session quota.SessionID, deadline quota.Micros) error {
	r := &s.region
	if r.Incarnation != incarnation {
		return fmt.Errorf("renew session %d: %w", session, ErrIncarnation)
	}
	s.high = max(s.high, now)
	switch {
	case session == 0 || session < r.MinSession || session < r.Session:
		return fmt.Errorf("renew session %d: %w", session, ErrOldSession)
	case session == r.Session:
		r.Deadline = max(r.Deadline, deadline)
	default:
		r.Session, r.Deadline = session, deadline
	}
	return nil
}

// Drop ends session in this region for ever, whether or not it was ever renewed
// here: the agent that asks does not trust its deadline.
func (s *Store) Drop(session quota.SessionID) {
	r := &s.region
	if session == 0 || session < r.Session {
		return
	}
	r.Session, r.Deadline = 0, 0
	r.MinSession = max(r.MinSession, session+1)
}

// Adopt stores a newer configuration and keeps the one before it. Adopting the
// same version again changes nothing.
func (s *Store) Adopt(now quota.Micros, incarnation string, version uint64, blob []byte) error {
	if s.region.Incarnation != incarnation {
		return fmt.Errorf("adopt configuration %d: %w", version, ErrIncarnation)
	}
	s.high = max(s.high, now)
	switch {
	case version < s.config.Version:
		return fmt.Errorf("adopt configuration %d: %w", version, ErrOldConfig)
	case version == s.config.Version:
		return nil
	}
	s.prev = s.config
	s.config = Adopted{Version: version, Since: s.high, Blob: bytes.Clone(blob)}
	s.region.Config = version
	return nil
}

// Config returns the adopted configuration and the one before it.
func (s *Store) Config() (current, prev Adopted) { return s.config, s.prev }

// MarkFirst records that the coordinator called this incarnation the region's
// first, so that missing buckets start full.
func (s *Store) MarkFirst(incarnation string) error {
	if s.region.Incarnation != incarnation {
		return fmt.Errorf("mark first incarnation: %w", ErrIncarnation)
	}
	s.first = true
	return nil
}
