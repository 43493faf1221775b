package ledger

import "github.com/quorate/quorate/coordinator/quota"

// Region is a registered region.
type Region struct {
	Name string
	// Session is the live session, nil when there is none.
	Session *Session
	// First is the first incarnation that the region ever had: the only one
	// whose buckets start full. Empty before it, and for a region that joined
	// when rules were in force already: its shares come without tokens.
	First string
	// Late is set for a region that joined when rules were in force already, or
	// had adopted none when they changed.
	Late bool
	// Confirmed is the version of the configuration the region has adopted;
	// Offered, when larger, the one it may have adopted.
	Confirmed, Offered uint64
}

// Session is a region's liveness. All leases of the region live and die with it.
type Session struct {
	ID          quota.SessionID
	Incarnation string
	// Silent marks a session that has not been heard of; no renewal of it is
	// answered before a log entry clears the mark. SilentSince is on the ledger
	// clock, so silence counts across terms.
	Silent      bool
	SilentSince quota.Micros
	// Epochs is the last epoch given to an assignment of this session.
	Epochs quota.Epoch
}

// live returns the region and checks that session is its live one.
func (l *Ledger) live(region string, session quota.SessionID) (*Region, error) {
	r := l.Region(region)
	if r == nil {
		return nil, ErrUnknownRegion
	}
	if r.Session == nil || r.Session.ID != session {
		return nil, ErrSession
	}
	return r, nil
}

func (l *Ledger) openSession(op OpenSession) error {
	r := l.Region(op.Region)
	if r == nil {
		return ErrUnknownRegion
	}
	if op.Incarnation == "" {
		return ErrInvalid
	}
	if s := r.Session; s != nil {
		if s.Incarnation == op.Incarnation || op.Replaces == "" || op.Replaces != s.Incarnation {
			return ErrSessionLive
		}
		l.end(r)
	}
	l.sessions++
	r.Session = &Session{ID: l.sessions, Incarnation: op.Incarnation}
	if r.First == "" && !r.Late {
		r.First = op.Incarnation
	}
	return nil
}

func (l *Ledger) endSession(op EndSession) error {
	r, err := l.live(op.Region, op.Session)
	if err != nil {
		return err
	}
	l.end(r)
	return nil
}

// end returns the capacity of all leases of the region to their pools, and no
// tokens: they count as spent (I5).
func (l *Ledger) end(r *Region) {
	r.Session = nil
	for _, a := range l.accounts {
		if a.holding(r.Name) != nil {
			l.change(a, func() {
				a.giveBack(r.Name, nil)
				a.release(r.Name)
			})
		}
	}
}

func (l *Ledger) markSilent(op MarkSilent) error {
	r, err := l.live(op.Region, op.Session)
	if err != nil {
		return err
	}
	if r.Session.Silent == op.Silent {
		return nil
	}
	r.Session.Silent, r.Session.SilentSince = op.Silent, 0
	if op.Silent {
		r.Session.SilentSince = l.clock
	}
	return nil
}
