package lease

import (
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
)

// Windows (rules.Window) are told by the clocks of the agents, which the rest of the
// protocol does not trust. Of a window's bucket nothing is ever refilled, so all that
// clocks decide is whether a bucket without a record is one that nobody has used.
const (
	// Skew is by how much two agents' clocks may differ at most. Where they differ by
	// more, a bucket may be forgotten while an agent that is behind still uses it, or
	// taken for unused though one that was ahead has used it.
	Skew = 60 * quota.Second
	// lastsStep is in what steps the rest of a window is told: stores make one call
	// for all buckets of which they are told the same.
	lastsStep = 10 * quota.Second
)

// StandingIn returns the standing share of key in its window, counted by l, a limit
// of this adoption's Set. wall is the agent's clock, in Unix time, and now a time on
// the store's clock that is not later than the same moment.
//
// No share of a window is ever filled up, so what is known of a bucket without a
// record is one of three things:
//
//   - Nobody in this region has used it, and the share was as large when the window
//     began. Then it is full: those tokens are nobody else's, because the coordinator
//     has counted the share all the time, and so opened every account of the window
//     without them.
//   - Nobody has used it, but the share was smaller then, or there was none: it is as
//     full as that was. What it has grown by is capacity without tokens; others may
//     have spent them.
//   - It may have been used and lost: it is empty.
//
// A bucket that was used has a record until its window is over, unless the store has
// lost its data. So the first is known where the window began after the present
// incarnation, and after the share's last growth, by more than clocks differ: whoever
// was in the window before it began here has left a record in this incarnation, or
// had the same share. That is what makes a loss cost the shares of the windows that
// run, and no later ones.
//
// A window that is over here has been forgotten, or is going to be: it is empty.
func (a *Adoption) StandingIn(w rules.Window, key quota.Key, l *rules.Limit, now, wall quota.Micros) bucket.Standing {
	known, ok := a.limits[l]
	if !ok {
		known.share = l.StandingShare(a.Region, a.Shares)
	}
	st := bucket.Standing{Capacity: known.share, Since: a.since, Lasts: lasts(w, wall)}
	lost := a.lost()
	var before quota.Capacity
	counted := false
	if a.prev != nil {
		before, counted = a.prev.share(key, a.Region)
	}
	// What is later than since and than start, the window began later than.
	since, start := max(a.since, lost), max(a.grown, lost)
	if counted && covers(before, st.Capacity) {
		since, st.Since = start, start // the share is as old as the one before
	}
	began := now - (wall - w.Start)
	later := func(than quota.Micros) bool { return than == 0 || began >= than+Skew }
	switch {
	case wall >= w.End:
	case later(since):
		st.Base = known.share.Burst
	case a.prev == nil:
		if lost == 0 {
			st.Base = known.share.Burst // the region's first rules
		}
	case !counted:
		if a.next && lost == 0 {
			st.Base = known.share.Burst // nobody has counted it before
		}
	case later(start):
		st.Base = min(known.share.Burst, before.Burst)
	}
	return st
}

// lost is when the region's buckets were lost, 0 when they never were. Shares of
// windows of any kind are not lent, so it does not matter what is on loan.
func (a *Adoption) lost() quota.Micros {
	if a.first {
		return 0
	}
	return a.lostAt
}

// lasts is how long a record is needed: until nobody can be in the window.
func lasts(w rules.Window, wall quota.Micros) quota.Micros {
	left := max(0, w.End-wall) + Skew
	return (left + lastsStep - 1) / lastsStep * lastsStep
}

// StandingAt is StandingOf for any key, also one of a window, at a time of the store's
// clock and of the agent's, see StandingIn.
func (a *Adoption) StandingAt(key quota.Key, now, wall quota.Micros) bucket.Standing {
	if w := rules.WindowOf(key); !w.IsZero() {
		if _, l := a.Set.LimitOf(key); l != nil {
			return a.StandingIn(w, key, l, now, wall)
		}
		return bucket.Standing{Since: a.since, Lasts: lasts(w, wall)}
	}
	return a.StandingOf(key, now)
}
