package quota

import "time"

// Key is one counted identity in its injective encoding (see package rules):
// domain, descriptor keys and values, and the limit name where a descriptor has
// several limits. It is opaque here.
type Key string

// Limit is what one central token bucket for a key would be: at most
// Capacity.Burst + rate*W in any interval of length W.
type Limit struct {
	Capacity
	// Standing is the fraction of the limit that belongs to the regions
	// permanently, in parts per million (0 … PPM).
	Standing int64
	// Weights overrides the weights of the share table for this limit, by region
	// (1 … MaxWeight, or 0 for no standing share); nil means no override.
	Weights map[string]int64
	// Window is the length of the sliding window of a limit that counts in one, 0
	// for a bucket. Such a limit has no rate: its burst is what is admitted in any
	// window, and a token is a place in it, which is free again a window later.
	Window Micros
}

// PPM is one whole, in parts per million.
const PPM = 1_000_000

// Share is the weight of one region in the share table.
type Share struct {
	Region string
	Weight int64 // 0 (drained) … MaxWeight
}

// MaxWeight bounds a region's weight so that share arithmetic fits 64 bits.
const MaxWeight = 1_000_000

// Shares is the share table: the weights of all registered regions, sorted by
// region name.
type Shares []Share

// WeightOf returns the weight of region for this limit and the sum of the
// weights of all registered regions. A region that is drained (weight 0 in the
// table) or unknown has weight 0 whatever the rule says.
func (l Limit) WeightOf(region string, table Shares) (weight, total int64) {
	for _, e := range table {
		w := e.Weight
		if o, ok := l.Weights[e.Region]; ok && w > 0 {
			w = o
		}
		total += w
		if e.Region == region {
			weight = w
		}
	}
	return weight, total
}

// StandingShare returns what region owns of the limit permanently under the
// share table: f = floor(standing * weight/total * burst) whole tokens of burst
// and the same fraction of the rate, rounded down. It is zero when f is zero.
// Source: DESIGN.md 3.2, floor_i = (R*f_i/B, f_i).
func (l Limit) StandingShare(region string, table Shares) Capacity {
	none := Capacity{Rate: Rate{Per: l.Rate.Per}}
	weight, total := l.WeightOf(region, table)
	if weight <= 0 || l.Standing <= 0 || l.Burst <= 0 {
		return none
	}
	part, _ := mulDiv(l.Burst, l.Standing, PPM)
	f, _ := mulDiv(part, weight, total)
	f -= f % Token
	if f <= 0 {
		return none
	}
	rate, _ := mulDiv(l.Rate.Tokens, int64(f), int64(l.Burst))
	return Capacity{Rate: Rate{Tokens: rate, Per: l.Rate.Per}, Burst: f}
}

// Steady returns the rate in the long run of what somebody holds of the limit: of a
// sliding window its places in each window.
func (l Limit) Steady(c Capacity) Rate {
	if l.Window > 0 {
		return Rate{Tokens: c.Burst, Per: l.Window}
	}
	return c.Rate
}

// Timing is the set of durations of the lease protocol. Source: DESIGN.md 3.4.
type Timing struct {
	// TTL is how long a renewal lets a region use its leases. Default 10 s.
	TTL time.Duration
	// Guard is what the leader waits beyond TTL before it ends a session. Default 1 s.
	Guard time.Duration
	// Delta is what the region subtracts from its deadline. Default 250 ms.
	Delta time.Duration
	// RhoPPM is the assumed bound on the difference of two clock rates, in
	// parts per million. Default 10,000 (1 %).
	RhoPPM int64
	// Answer is how old a sync may be when its answer is still believed. Default 2 s.
	Answer time.Duration
	// Tick is the period of the leader's clock entry. Default 1 s.
	Tick time.Duration
	// Loan is how long a standing share is lent at a time, 0 for never. A region
	// whose store has lost its data does without standing shares for as long, unless
	// the coordinator says which are lent: agents must not count with less than the
	// coordinator does. Default 60 s.
	Loan time.Duration
}

// DefaultTiming returns the timing of DESIGN.md 3.4.
func DefaultTiming() Timing {
	return Timing{
		TTL: 10 * time.Second, Guard: time.Second, Delta: 250 * time.Millisecond,
		RhoPPM: 10_000, Answer: 2 * time.Second, Tick: time.Second, Loan: time.Minute,
	}
}

// Usable returns how long after sending a sync its answer lets the region use
// its leases: TTL*(1-2*rho) - delta, never negative.
func (t Timing) Usable() time.Duration { return max(0, t.Sure(t.TTL)-t.Delta) }

// Sure returns how much of d has passed on every clock when d has on one:
// d*(1-2*rho).
func (t Timing) Sure(d time.Duration) time.Duration {
	return d - time.Duration(int64(d)/PPM*2*t.RhoPPM)
}
