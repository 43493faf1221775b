package bucket

import "github.com/quorate/quorate/coordinator/quota"

// A take can draw tokens ahead (Ask.Ahead): they leave the level, and whoever drew them
// admits requests by them on its own, for as long as their Grant says. A record has one
// slot of drawn tokens:
//
//	first draw                             all of them are gone
//	    |------------ open: DrawSpan, or less -----------|
//	    |   level <= burst - Drawn, more may be drawn    |   level <= burst
//
// Nothing is returned. What is not used in the slot is gone, and while the slot is open
// it keeps its room in the burst, used or not. So the level and what can still be used of
// the drawn tokens are never more than the burst together, and grow at the rate only:
// every bound of a bucket without draws is one of a bucket with them, where a request
// counts when its tokens are used. It takes that nobody uses a token later than its Span
// after the moment before it asked for it.

// DrawSpan is how long drawn tokens may be used at most, on the store's clock.
const DrawSpan = quota.Second / 10

// Grant is what a take has drawn ahead; the zero Grant is nothing.
type Grant struct {
	Tokens quota.Tokens
	// Span is how long they may be used, from the moment of the take.
	Span quota.Micros
}

// held is how much room the drawn tokens have in the burst at a time.
func (rec Record) held(at quota.Micros) quota.Tokens {
	if at < rec.DrawnUntil {
		return rec.Drawn
	}
	return 0
}

// refill is Capacity.Refill of a level from one time to another, beside what is drawn.
func (rec Record) refill(c quota.Capacity, level quota.Tokens, from, to quota.Micros) (filled quota.Tokens, unspent quota.Micros) {
	if from < rec.DrawnUntil {
		beside := quota.Capacity{Rate: c.Rate, Burst: room(c.Burst, rec.Drawn)}
		level, unspent = beside.Refill(level, min(to, rec.DrawnUntil)-from)
		if to <= rec.DrawnUntil {
			return level, unspent
		}
		from = rec.DrawnUntil
	}
	return c.Refill(level, to-from+unspent)
}

// room is what is left of a burst beside tokens that are drawn.
func room(burst, drawn quota.Tokens) quota.Tokens { return max(0, burst-drawn) }

// unsettled reports whether more is drawn than a record may have for itself from now
// on. A loan counts where it does not end before the slot.
func (rec Record) unsettled(high quota.Micros, burst quota.Tokens) bool {
	if rec.DrawnUntil <= rec.LoanUntil {
		burst += rec.Loan.Burst
	}
	return rec.held(high) > burst
}

// draw takes from b, after all else, what a asks for ahead, or nothing: near the edge,
// that is of the lower half of the burst and in the last tenth of a slot, every
// request has to ask. A slot has at most an eighth of the burst, so that the rest evens
// out how arrivals vary, and at most what the bucket gains in DrawSpan, so that those who
// do not draw find their part of it. Where that eighth is less than half of the gain, the
// bucket is too small for its rate to do without a part of it. high is the latest time
// that the region has seen, and at that of the balance.
func (r Region) draw(a *Ask, b *Balance, rec *Record, high, at quota.Micros) Grant {
	if a.Ahead == 0 || a.Standing.Window != NoWindow || b.Holding != OnLease && b.Holding != OnStanding {
		return Grant{}
	}
	t := max(high, at)
	ends := t + DrawSpan
	if b.Holding == OnLease {
		ends = min(ends, r.Deadline)
		if high < rec.LoanUntil {
			ends = min(ends, rec.LoanUntil)
		}
	}
	open := t < rec.DrawnUntil
	if open {
		ends = min(ends, rec.DrawnUntil)
	}
	if ends-t < DrawSpan/10 {
		return Grant{}
	}
	part := b.Capacity.Burst / 8
	gain, _ := b.Capacity.Refill(0, DrawSpan)
	if part < gain/2 {
		return Grant{}
	}
	g := min(a.Ahead, b.Level-b.Capacity.Burst/2, min(part, gain)-rec.held(t))
	if g <= 0 || g < a.Ahead/4 {
		return Grant{}
	}
	if !open {
		rec.Drawn, rec.DrawnUntil = 0, ends
	}
	rec.Drawn += g
	b.Level, b.changed = b.Level-g, true
	return Grant{Tokens: g, Span: ends - t}
}
