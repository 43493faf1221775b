package bucket

import "github.com/quorate/quorate/coordinator/quota"

// What a request asks of a bucket, by its cost:
//
//	cost > 0  takes it. Admitted when the bucket holds it; with a Debt also when its
//	          level is above zero and does not fall below -Debt.
//	cost = 0  looks. With a Debt admitted while the level is above zero.
//	cost < 0  gives it back, up to the burst in force less what is drawn ahead.
//	          Admitted always.
//	Settle    takes what is there, down to -Debt. Admitted always.
//
// A sliding window is given back the places of its youngest admissions: of a log up to
// all that it has, of a counter what the present window has. What it settles takes places
// as if it were admitted now, as many as are free. So what it admits less what it is given
// back, each when it happens, is what Window and Count say of what is admitted: wherever a
// place is given back its admission was before. It never has a Debt.
//
// A missing record takes nothing back: what is given back to it was taken from a
// bucket that is full again since, or whose store was lost with all its tokens. Nor
// does a bucket that denies everything or counts nothing (Denied, Allowed).

// least returns the lowest level at which a request of cost is admitted, 0 when it
// is at every level, also below zero.
func (a *Ask) least(cost quota.Tokens) quota.Tokens {
	switch {
	case cost < 0 || a.Settle:
		return 0
	case a.Debt > 0:
		return max(cost-a.Debt, 1)
	}
	return cost
}

// charge takes a cost from b, or gives it back, n times over. It leaves b.Level what
// n takes one after the other would.
func (a *Ask) charge(b *Balance, cost quota.Tokens, n int) {
	was := b.Level
	switch {
	case n <= 0 || cost == 0 || b.Holding == Allowed || cost < 0 && (b.Missing || b.Holding == Denied):
		return
	case cost < 0 && b.Fresh > 0:
		b.Level += giveBack(-cost, int64(n), b.Back)
	case cost < 0:
		full := room(b.Capacity.Burst, b.Held)
		b.Level = give(b.Level, -cost, int64(n), full)
		if b.Level >= full {
			b.Unspent = 0 // as a full bucket has none
		}
	case a.Settle:
		b.Level = settle(b.Level, cost, int64(n), min(b.Level, -a.Debt))
	default:
		b.Level -= cost * quota.Tokens(n)
	}
	if b.Level == was {
		return
	}
	b.Missing, b.changed = false, true
	if b.Fresh > 0 {
		b.occupied(was - b.Level)
	}
}

// give returns the level after x was given back n times. No sum of it is beyond
// MaxTokens: first it goes up to zero, then to the burst.
func give(level, x quota.Tokens, n int64, burst quota.Tokens) quota.Tokens {
	if level < 0 {
		m := min(n, int64(-level/x))
		level, n = level+quota.Tokens(m)*x, n-m
		if n > 0 && level < 0 {
			level, n = level+x, n-1
		}
	}
	if level >= burst || n > int64((burst-level)/x) {
		return burst
	}
	return level + quota.Tokens(n)*x
}

// giveBack returns n times x, or as much as there is.
func giveBack(x quota.Tokens, n int64, there quota.Tokens) quota.Tokens {
	if n > int64(there/x) {
		return there
	}
	return quota.Tokens(n) * x
}

// settle returns the level after x was taken n times as far as floor, which is not
// above level. No sum of it is beyond MaxTokens: first it goes down to zero.
func settle(level, x quota.Tokens, n int64, floor quota.Tokens) quota.Tokens {
	if level > 0 {
		m := min(n, int64(level/x))
		level, n = level-quota.Tokens(m)*x, n-m
		if n > 0 && level > 0 {
			level, n = max(level-x, floor), n-1
		}
	}
	if n > int64((level-floor)/x) {
		return floor
	}
	return level - quota.Tokens(n)*x
}
