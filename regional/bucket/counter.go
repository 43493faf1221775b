package bucket

import "github.com/quorate/quorate/coordinator/quota"

// Count is a sliding counter: what was admitted in the present window and in the one
// before it, which counts less as the present one passes:
//
//	prev * (1 - elapsed/W) + cur, rounded up
//
// as if the window before had been asked for evenly. Windows begin at multiples of W on
// the store's clock.
//
// # What it admits at most
//
// An admission weighs 1 until its window ends, and then less and less until the next one
// ends. So u after it, u <= W, it weighs 1 - u/W at least. All weights together are never
// more than N, so with A(u) for what is admitted in the first u of any interval
//
//	A(u) - 1/W * integral of A from 0 to u  <=  N,  and so  A(u) <= N * e^(u/W).
//
// That is at most e*N, 2.72 times the limit, in any W; the regions' windows begin at
// different times, and places travel between them. In one region an interval of W touches
// two windows with N at most in each, so there it is 2*N. Both need somebody who asks for
// everything at the end of one window and again at the end of the next; who asks evenly
// is limited to N.
type Count struct {
	Start     quota.Micros // of the present window
	Prev, Cur quota.Tokens
}

// at moves the count to the window of now.
func (c Count) at(now, length quota.Micros) Count {
	start := now - now%length
	switch {
	case start <= c.Start:
		return c
	case start-length == c.Start:
		return Count{Start: start, Prev: c.Cur}
	}
	return Count{Start: start}
}

// occupied is what counts at now, which is of the present window.
func (c Count) occupied(now, length quota.Micros) quota.Tokens {
	return c.Prev - gone(c.Prev, now-c.Start, length) + c.Cur
}

// gone is what elapsed takes away from a window's count, rounded down.
func gone(count quota.Tokens, elapsed, length quota.Micros) quota.Tokens {
	if count == 0 {
		return 0
	}
	gone, _ := quota.Capacity{Rate: quota.Rate{Tokens: count, Per: length}, Burst: quota.MaxTokens}.Refill(0, elapsed)
	return gone
}

// goes is how long a window's count takes until need of it is gone.
func goes(count quota.Tokens, length quota.Micros, need quota.Tokens) quota.Micros {
	wait, _ := quota.Capacity{Rate: quota.Rate{Tokens: count, Per: length}, Burst: quota.MaxTokens}.TimeTo(0, need)
	return wait
}

// wait returns how long from now until need places are free that are not, of those
// that are occupied.
func (c Count) wait(now, length quota.Micros, need quota.Tokens) quota.Micros {
	elapsed := now - c.Start
	keep := c.occupied(now, length) - need
	if keep >= c.Cur {
		return goes(c.Prev, length, c.Prev-(keep-c.Cur)) - elapsed
	}
	return length - elapsed + goes(c.Cur, length, c.Cur-keep)
}

// over returns how long from now until all places are free.
func (c Count) over(now, length quota.Micros) quota.Micros {
	switch elapsed := now - c.Start; {
	case c.Cur > 0:
		return 2*length - elapsed
	case c.Prev > 0:
		return length - elapsed
	}
	return 0
}
