package ledger

import (
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// A limit that counts in windows has a key, and so an account, for each of them
// (rules.Window). Its tokens are never refilled: they are there when the window
// begins, in the pool and in the standing shares, and whatever becomes of them there
// are never more.
//
// That leaves one thing to be decided here: when an account may be forgotten though
// its pool is not full. The agents' clocks say which window it is, and the ledger
// clock has nothing to do with them. But an account is opened when some agent is in
// its window, so once the window's length has passed on the ledger clock since then,
// that agent's clock has left it; and after a margin so have those of all others, as
// long as they differ by less. An agent that is further behind would find a window
// that begins anew.

const (
	// The margin is as long as the window, within these bounds.
	leastMargin = 600 * quota.Second
	mostMargin  = 3600 * quota.Second
)

// windowSpan returns how long after somebody was in a window of that length nobody is.
func windowSpan(length quota.Micros) quota.Micros {
	// Two clocks differ by 1 % at most; twice that is for certain.
	return length + length/50 + min(max(length, leastMargin), mostMargin)
}

// beginsAfter returns how long after a moment every window of a limit that somebody is
// in began after it, on all agents' clocks. per is the nominal period of the limit.
func beginsAfter(per quota.Micros) quota.Micros {
	const skew, day = 60 * quota.Second, 86400 * quota.Second
	if per >= day {
		per += per/24 + 26*3600*quota.Second // a month of 31 days, in which clocks are put back
	}
	return per + per/50 + 2*skew
}

// windowOf returns the length of the window that a key names, 0 for none.
func windowOf(k quota.Key) quota.Micros { return rules.WindowOf(k).Length() }

// Windowed reports whether the account is one of a window, whose tokens are never
// refilled.
func (a *Account) Windowed() bool { return a.window > 0 }

// Left returns how long the account of a window has to be kept at least from a time
// of the ledger clock on, if nothing is done with it; 0 when it may be dropped.
func (a *Account) Left(clock quota.Micros) quota.Micros {
	return max(0, a.at+windowSpan(a.window)-clock)
}

// over reports whether nobody can be in the account's window any more.
func (a *Account) over(clock quota.Micros) bool { return a.window > 0 && a.Left(clock) == 0 }
