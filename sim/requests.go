package sim

import (
	"math/rand/v2"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/workload"
)

// Requests draws the requests of a load, one after the other. They depend on the
// seed and on the number of the load only, so that other systems can be asked the
// same.
type Requests struct {
	load     Load
	arrivals *workload.Arrivals
	rand     *rand.Rand
	popular  *rand.Zipf
}

// NewRequests returns the requests of a load: the stream-th of the plan, from 1.
func NewRequests(l Load, seed, stream uint64) *Requests {
	r := &Requests{
		load: l, arrivals: workload.NewArrivals(l.Curve, seed, stream),
		rand: rand.New(rand.NewPCG(seed, ^stream)),
	}
	if l.Keys > 1 {
		// The generator wants an exponent above 1; this one is 1 for all that shows.
		r.popular = rand.NewZipf(r.rand, 1.0001, 1, uint64(l.Keys-1))
	}
	return r
}

// Next returns the time of the next request since the load began, its key's
// number in the plan and its cost in whole tokens; ok is false when there will be
// none.
func (r *Requests) Next() (at quota.Micros, key int, cost uint32, ok bool) {
	t, ok := r.arrivals.Next()
	key, cost = r.load.Key, max(r.load.Cost, 1)
	if r.popular != nil {
		key += int(r.popular.Uint64())
	}
	if most := r.load.MostCost; most > cost {
		cost += r.rand.Uint32N(most - cost + 1)
	}
	return quota.MicrosOf(t), key, cost, ok
}
