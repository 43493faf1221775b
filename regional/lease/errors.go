package lease

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/coordinator/quota"
)

var (
	// ErrNotAsked: the answer is not for the sync that is waiting for one. It
	// came twice, or after the agent gave up on it. Nothing follows from it.
	ErrNotAsked = errors.New("answer to no open sync")
	// ErrTooLate: the answer came later than Timing.Answer after sending.
	ErrTooLate = errors.New("answer came too late")
	// ErrClock: the agent's clocks disagreed about how long the answer took.
	ErrClock = errors.New("clocks disagree")
	// ErrEnded: the answer names a session that this region has given up.
	ErrEnded = errors.New("answer names a session that the region has dropped")
	// ErrMalformed: the answer lacks what it must have.
	ErrMalformed = errors.New("malformed answer")
	// ErrConfig: a configuration or a stored configuration record cannot be used.
	ErrConfig = errors.New("unusable configuration")

	// ErrUnknownRegion: register the region at the coordinator first.
	ErrUnknownRegion = errors.New("unknown region")
	// ErrSecondStore: two stores are behind one region name.
	ErrSecondStore = errors.New("another store holds the region's session")
	// ErrWrongCluster: the coordinator is of another cluster than before.
	ErrWrongCluster = errors.New("wrong cluster")
	// ErrBusy: the coordinator could not answer in time.
	ErrBusy = errors.New("coordinator is busy")
	// ErrRefused: refused for a reason that this version does not know.
	ErrRefused = errors.New("refused")
)

// refused turns a refusal into an error that says what, where and what to do.
func refused(region, incarnation string, r quota.Refusal) error {
	switch r.Code {
	case quota.RefusedUnknownRegion:
		return fmt.Errorf("open session: %w %q: %s; register it with `quoratectl regions add %s`", ErrUnknownRegion, region, r.Message, region)
	case quota.RefusedSecondStore:
		return fmt.Errorf("open session: %w: %s; this agent's store of region %q is incarnation %q; check that all agents of the region use the same store", ErrSecondStore, r.Message, region, incarnation)
	case quota.RefusedWrongCluster:
		return fmt.Errorf("open session: %w: %s; check the agent's list of coordinators", ErrWrongCluster, r.Message)
	case quota.RefusedBusy:
		return fmt.Errorf("open session: %w: %s", ErrBusy, r.Message)
	}
	return fmt.Errorf("open session: %w (code %d): %s", ErrRefused, r.Code, r.Message)
}
