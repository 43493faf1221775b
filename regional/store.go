package regional

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket"
	"github.com/quorate/quorate/regional/uplink"
)

// Store is a region's store as an agent uses it, safe for concurrent use.
type Store interface {
	enforce.Store
	uplink.Store
	// Adopt stores a newer configuration and keeps the one before it.
	Adopt(ctx context.Context, incarnation string, version uint64, blob []byte) error
	// Config returns the adopted configuration and the one before it; Version is
	// 0 where there is none.
	Config(ctx context.Context) (current, prev bucket.Adopted, err error)
	// Lent returns until when which standing shares are on loan, on the store's clock.
	Lent(ctx context.Context) (map[quota.Key]quota.Micros, error)
	// Read returns the record of a key as it is stored.
	Read(ctx context.Context, key quota.Key) (bucket.Record, bool, error)
	// Close is called once, when the agent has stopped.
	Close() error
}

var _ Store = (*redisbucket.Store)(nil)

// toldStore is the store as decisions use it: it logs why the store fails, one
// line now and then however many requests fail.
type toldStore struct {
	Store
	log   *slog.Logger
	quiet quiet
}

func (s *toldStore) Take(ctx context.Context, t enforce.Take) (enforce.TakeResult, error) {
	res, err := s.Store.Take(ctx, t)
	if err != nil {
		s.tell("take", err)
	}
	return res, err
}

func (s *toldStore) Charge(ctx context.Context, incarnation string, charges []bucket.Charge) error {
	err := s.Store.Charge(ctx, incarnation, charges)
	if err != nil {
		s.tell("charge", err)
	}
	return err
}

func (s *toldStore) tell(op string, err error) {
	if errors.Is(err, enforce.ErrStale) || errors.Is(err, context.Canceled) {
		return
	}
	if more, ok := s.quiet.speak(time.Now()); ok {
		s.log.Warn("a call to the region's Redis failed; each rule's on_store_failure decides", "op", op, "err", err, "more_since_last_line", more)
	}
}

// heldStore is the store as the sync loop uses it: it counts the leases that
// this agent applied, and tells decisions which buckets may hold more now.
type heldStore struct {
	Store
	held   *held
	forget func(quota.Key)
}

func (s *heldStore) Apply(ctx context.Context, incarnation string, asks []bucket.ApplyAsk) ([]quota.Applied, error) {
	done, err := s.Store.Apply(ctx, incarnation, asks)
	s.held.applied(asks, done)
	for i := range asks {
		s.forget(asks[i].Assignment.Key) // after an error it may be applied all the same
	}
	return done, err
}

// quiet lets one of many lines through.
type quiet struct {
	every  time.Duration // how long nothing more is said; 0 means quietFor
	mu     sync.Mutex
	last   time.Time
	untold int
}

// quietFor is for how long a problem that goes on is not told again.
const quietFor = 10 * time.Second

// speak reports whether to say something now, and how much was not said before.
func (q *quiet) speak(now time.Time) (untold int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.last.IsZero() && now.Sub(q.last) < cmp.Or(q.every, quietFor) {
		q.untold++
		return 0, false
	}
	untold = q.untold
	q.last, q.untold = now, 0
	return untold, true
}
