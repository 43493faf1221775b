package regional

import (
	"math"
	"time"
)

// Reservation is what ReserveN got: its tokens, or nothing.
//
// It differs from that of golang.org/x/time/rate, which takes tokens of the future
// and can give them back. Here nobody has tokens of the future to give: a lease may
// shrink or end before they exist, and another region may be counting on them. And
// tokens that were taken cannot be given back: since they left, the bucket has refilled
// the room they made, so with them it would hold more than one central bucket would.
// Code that acts only on a reservation that is OK, after its Delay, is right with both.
type Reservation struct {
	decision Decision
	cost     int
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

// Cancel says that the reserver will not act, and returns how many requests stay
// charged all the same: all of them when the reservation is OK, else none. It changes
// nothing at the limit (see Reservation).
func (r Reservation) Cancel() (charged int) {
	if r.OK() {
		return r.cost
	}
	return 0
}
