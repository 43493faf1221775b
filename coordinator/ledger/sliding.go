package ledger

import (
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
)

// Return is a part of a sliding window's limit that comes back to the pool at a
// ledger time: it may be in use until then.
//
// In a sliding window a token is a place for one admission, and the admission keeps it
// for a whole window W. Nothing refills. What a region gives up of its lease is free,
// because it gives up only what is not in use; it keeps the rest, and the ledger counts
// it. Whatever else the pool gains may have been used up to the moment in which the
// pool gains it: all that a region had beyond its standing share when its session
// ended, what a standing share or a rule that is gone leaves behind, an assignment that
// never arrived. It comes back a window later.
//
// So for a sliding window, in place of a level that grows (I3):
//
//	level + returns + what the regions have = limit
//
// as long as the limit is not overdrawn.
type Return struct {
	At     quota.Micros
	Tokens quota.Tokens
}

// sliding returns the length of the sliding window, 0 for what has none.
func (a *Account) sliding() quota.Micros { return a.terms.limit.Window }

// Returns are what comes back to the pool, by time. Read only.
func (a *Account) Returns() []Return { return a.returns }

// maxReturns bounds the memory of one account: what is more comes back together, at
// the later of two times.
const maxReturns = 8

// mature returns what has come back at a ledger time, and how many of the returns
// that are.
func (a *Account) mature(clock quota.Micros) (tokens quota.Tokens, n int) {
	for n < len(a.returns) && a.returns[n].At <= clock {
		tokens += a.returns[n].Tokens
		n++
	}
	return tokens, n
}

// matured is filled for a sliding window.
func (a *Account) matured(clock quota.Micros) quota.Tokens {
	tokens, _ := a.mature(clock)
	return min(a.level+tokens, max(a.Pool().Burst, 0))
}

// balance makes level and returns again what the pool has, after anything has
// happened to the account: where the pool has more it comes back a window later; where
// it has less the level gives it, and then what would have come back first.
func (a *Account) balance(clock quota.Micros) {
	burst := max(a.Pool().Burst, 0)
	coming := a.coming()
	a.level = min(a.level, max(burst-coming, 0))
	switch missing := burst - a.level - coming; {
	case missing > 0:
		a.owe(Return{clock + keeps(a.sliding()), missing})
	case missing < 0:
		for missing < 0 && a.returns[0].Tokens+missing <= 0 {
			missing += a.returns[0].Tokens
			a.returns = a.returns[1:]
		}
		if missing < 0 {
			a.returns = slices.Clone(a.returns)
			a.returns[0].Tokens += missing
		}
	}
	if len(a.returns) == 0 {
		a.returns = nil
	}
}

// owe adds a return, which comes no earlier than those before it.
func (a *Account) owe(r Return) {
	a.returns = append(slices.Clip(a.returns), r)
	if n := len(a.returns); n > 1 && a.returns[n-2].At == r.At || n > maxReturns {
		a.merge()
	}
}

// coming is the sum of the returns.
func (a *Account) coming() (sum quota.Tokens) {
	for _, r := range a.returns {
		sum += r.Tokens
	}
	return sum
}

// merge joins the two returns that are closest to each other in time.
func (a *Account) merge() {
	at := 1
	for i := 2; i < len(a.returns); i++ {
		if a.returns[i].At-a.returns[i-1].At < a.returns[at].At-a.returns[at-1].At {
			at = i
		}
	}
	sum := a.returns[at-1].Tokens
	a.returns = slices.Delete(slices.Clone(a.returns), at-1, at)
	a.returns[at-1].Tokens += sum
}

// keeps is how long the ledger counts what may be in use in a window of length w: the
// clocks of regions may be slower than the ledger's, W*(1+2*rho).
func keeps(w quota.Micros) quota.Micros { return w + w/50 }

// admits checks an assignment for a sliding window: a lease grows by its credit only,
// because here capacity is tokens. While the region may be adopting a configuration that
// changes its standing share, its lease stays: a part of a share that has grown may be in
// use elsewhere for a window, which only a region that has adopted it knows.
func (l *Ledger) admits(r *Region, op Assign, lease quota.Capacity, growth quota.Tokens) error {
	switch {
	case growth > 0 && op.Credit != growth:
		return ErrCredit
	case !op.Release && r.Offered != r.Confirmed:
		per := lease.Rate.Per
		if l.terms.share(r.Offered, r.Name, op.Key, per) != l.terms.share(r.Confirmed, r.Name, op.Key, per) {
			return ErrInFlight
		}
	}
	return nil
}

// confirm ends an assignment for a sliding window. What the region had before is its
// lease now, less what it gives up, or the new lease where that is more: what it does not
// give up is in use. What was on its way to it is in the new lease, and not in what it had.
func (a *Account) confirm(h *Holding, reserved quota.Capacity, surrendered quota.Tokens) {
	f, region := h.Flight, h.Region
	had := a.floor(region)
	if h.Leased {
		had = had.Max(h.Lease)
	}
	lease := f.Lease
	lease.Burst = max(lease.Burst, had.Burst-surrendered)
	if f.Release && lease == f.Lease {
		a.release(region)
	} else {
		h.Lease, h.Leased, h.Flight = lease, true, nil
	}
	// Where the share has shrunk meanwhile more comes free than the region gave up, which
	// it may have used.
	a.level += min(surrendered, reserved.Burst-a.Reserved(region).Burst)
}
