package lease

import (
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// What the coordinator hears of a region gives tokens away that the region had: a lost
// store its leases and shares, another configuration what a share shrinks by. Agents may
// still use what they drew ahead of that for bucket.DrawSpan, so it is said no earlier.
// (Assignments see to it in the store: bucket.ErrSettling.)

// Settles returns how long it takes, on the store's clock, until nothing is in use that
// was drawn from the incarnation before this one, whose end a sync would tell: 0 for at
// once. replaced is that incarnation, empty when no end was seen.
func Settles(s bucket.State, replaced string) quota.Micros {
	if replaced == "" || s.First {
		return 0
	}
	return left(s.Now, s.Since)
}

// confirmed is the configuration that the coordinator may take as the store's: the
// adopted one, or that before it while something drawn by that may be in use.
func confirmed(s bucket.State) uint64 {
	if s.Prev != 0 && left(s.Now, s.ConfigSince) > 0 {
		return s.Prev
	}
	return s.Config
}

// left is what is left at now of a DrawSpan that began at since. A clock that went back
// makes it no longer than that.
func left(now, since quota.Micros) quota.Micros {
	return min(max(0, since+bucket.DrawSpan-now), bucket.DrawSpan)
}
