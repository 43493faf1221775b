package regional

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/regional/enforce"
)

// Reservation is what ReserveN got: its tokens, or nothing.
//
// It differs from that of golang.org/x/time/rate, which takes tokens of the future
// and can give them back as if nothing had been. Here nobody has tokens of the future
// to give: a lease may shrink or end before they exist, and another region may be
// counting on them. And tokens that were taken come back only as a refund, by Settle:
// since they left, the bucket has refilled the room they made, so with them more may
// be admitted soon than without them, and the bound holds for what is admitted less
// what is given back. Code that acts only on a reservation that is OK, after its
// Delay, is right with both.
type Reservation struct {
	decision Decision
	cost     int
	settling *settling
}

// settling settles a reservation once. Its copies share it.
type settling struct {
	done   atomic.Bool
	settle func(ctx context.Context, estimate, actual int) (Decision, error)
}

// InfDuration is the Delay of a reservation that no wait helps.
const InfDuration = time.Duration(math.MaxInt64)

// OK reports whether the tokens were taken. The reserver may act after Delay.
func (r Reservation) OK() bool { return !r.decision.Over }

// Delay returns how long to hold the work back when the tokens were taken: 0 unless the
// limit is shaped. Else it returns how long to wait before it is worth while to reserve
// again, as far as this region can tell: InfDuration when the cost can never fit.
func (r Reservation) Delay() time.Duration {
	switch {
	case r.OK():
		return r.decision.Delay
	case never(r.decision):
		return InfDuration
	}
	return max(r.decision.Retry, shortestPause)
}

// Decision returns the decision behind the reservation, which says why.
func (r Reservation) Decision() Decision { return r.decision }

// Settle says what the reserver's act has cost, once that is known: what is missing is
// charged, down to the limit's max_debt below zero, and what was too much is given
// back, up to a full bucket. Settle(ctx, 0) gives all back. Nothing is denied; the
// statuses of the decision say in Uncharged what was too much to charge.
//
// It can be done once, whatever comes of it: after an error of Agent.Decide nobody
// knows whether it was. The error is also ErrArgument: the reservation is not OK, it
// was settled before, or actual is negative.
func (r Reservation) Settle(ctx context.Context, actual int) (Decision, error) {
	switch {
	case actual < 0:
		return Decision{}, negative(actual)
	case r.settling == nil:
		return Decision{}, fmt.Errorf("%w: nothing was reserved", ErrArgument)
	case !r.settling.done.CompareAndSwap(false, true):
		return Decision{}, fmt.Errorf("%w: the reservation was settled before", ErrArgument)
	}
	return r.settling.settle(ctx, r.cost, actual)
}

// settlement asks to settle what one descriptor was asked for.
func (a *asker) settlement(ctx context.Context, domain string, descriptors []Descriptor, estimate, actual int) (Decision, error) {
	if estimate < 0 || actual < 0 {
		return Decision{}, negative(min(estimate, actual))
	}
	req, err := enforce.Settlement(Request{Domain: domain, Descriptors: descriptors}, uint64(estimate), uint64(actual))
	if err != nil {
		return Decision{}, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	var d Decision
	err = a.ask(ctx, req, &d)
	return d, err
}

// Cancel says that the reserver will not act, and returns how many requests stay
// charged all the same: all of them when the reservation is OK, else none. It changes
// nothing at the limit; Settle(ctx, 0) gives the tokens back.
func (r Reservation) Cancel() (charged int) {
	if r.OK() {
		return r.cost
	}
	return 0
}
