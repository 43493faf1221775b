package enforce

import (
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
)

// retryGuess is what a client is told to wait when what it waits for is a change
// of capacity: a lease, a larger lease, the coordinator.
const retryGuess = time.Second

// decision turns a finished plan into the answer, in the memory of statuses if there is
// enough.
func (p *plan) decision(req Request, statuses []Status, shadowMode bool) Decision {
	d := Decision{
		Over: p.over(), Degraded: p.degraded, Waited: p.waited, FromAllowance: p.drawn && !p.late,
		Statuses: slices.Grow(statuses[:0], len(req.Descriptors))[:len(req.Descriptors)],
	}
	for i := range d.Statuses {
		d.Statuses[i] = p.status(&p.descriptors[i])
	}
	if !d.Over {
		d.Delay = p.delays(d.Statuses)
	}
	if shadowMode {
		d.Delay = 0
	}
	if d.Over && shadowMode {
		d.Over, d.Shadowed = false, true
	}
	for i := range d.Statuses {
		if s := &d.Statuses[i]; d.Over && s.Over {
			d.Retry = max(d.Retry, s.Retry)
		}
	}
	return d
}

func (p *plan) status(d *planned) Status {
	switch {
	case d.rule == nil:
		return Status{Reason: NoRule}
	case d.replaced:
		return Status{Rule: d.rule, Reason: Replaced}
	case d.count < 0:
		return Status{Rule: d.rule, Remaining: math.MaxUint32, Reason: Unlimited}
	}
	c := &p.counts[d.count]
	s := p.binding(c)
	s.Rule, s.Uncharged = c.rule, p.uncharged(c)
	if c.rule.Shadow && s.Over {
		s.Over, s.Never, s.Shadowed = false, false, true
		s.Retry, s.Reason = 0, Shadow
	}
	return s
}

// binding returns the status of the limit that denies, the one to wait longest
// for, else of the one with the smallest part left.
func (p *plan) binding(c *count) Status {
	if c.early != "" {
		return early(c.early, p.items[c.first+c.earlyAt].limit)
	}
	var bind Status
	var least float64
	found := false
	for _, it := range p.items[c.first : c.first+c.n] {
		if !it.asked && !it.local {
			if c.over && !p.degraded {
				continue // another limit of it denies from memory
			}
			if c.rule.Shadow && (p.degraded || p.retained) {
				return Status{Reason: StoreDegraded}
			}
			return Status{Reason: NotAsked}
		}
		s, left := it.status(), it.rest()
		if !found || s.Over && (!bind.Over || s.Retry > bind.Retry) || !s.Over && !bind.Over && left < least {
			bind, least, found = s, left, true
		}
	}
	return bind
}

// early is the status of a limit that can never admit the cost.
func early(reason Reason, l *rules.Limit) Status {
	w := window(l)
	return Status{Over: true, Never: true, Limit: l, Reset: w, Retry: w, Reason: reason}
}

// rest is the part of the bucket in force that is left.
func (it *item) rest() float64 {
	if it.v.Capacity.Burst <= 0 {
		return 0
	}
	return float64(it.v.Level) / float64(it.v.Capacity.Burst)
}

func (it *item) status() Status {
	s := Status{Over: it.over, Limit: it.limit, Reason: it.reason(), Source: it.source()}
	w := it.longest()
	s.Reset = min(w, it.v.Full.Duration())
	if !it.window.IsZero() {
		s.Reset, s.WindowSeconds = w, uint32(it.window.Length()/quota.Second)
	}
	if it.over {
		s.Retry = it.retry(w)
	} else {
		s.Remaining = uint32(min(max(it.v.Level.Floor(), 0), math.MaxUint32))
	}
	return s
}

// retry is how long to wait for the cost to fit, at most the limit's window w
// and the time that a debt needs to be paid back before it.
func (it *item) retry(w time.Duration) time.Duration {
	if it.v.Level < 0 {
		if debt, ok := it.v.Capacity.TimeTo(it.v.Level, 0); ok {
			w += debt.Duration()
		}
	}
	switch {
	case it.late > 0:
		return min(w, it.late)
	case it.v.Retry == 0:
		// Denied although there is enough: a debt is being settled.
		return min(w, retryGuess)
	case it.v.Retry < bucket.Forever:
		return min(w, it.v.Retry.Duration())
	case it.limit.Rate.Tokens <= 0 && it.wholeBurst(1):
		return w // spent for good
	}
	return min(w, retryGuess)
}

// window is the longest time a limit can ask anyone to wait: its period, or the
// time it needs to fill from empty if that is longer; of a sliding counter two windows.
func window(l *rules.Limit) time.Duration {
	w := l.Rate.Per
	if full, ok := l.TimeTo(0, l.Burst); ok {
		w = max(w, full)
	}
	if l.Algorithm == rules.SlidingWindowCounter {
		w *= 2 // what was admitted counts until the next window ends
	}
	return max(0, w.Duration())
}

func (it *item) reason() Reason {
	switch {
	case it.late > 0:
		return DelayTooLong
	case it.local:
		return StoreDegraded
	case it.v.Holding == bucket.OnHold, it.v.Holding == bucket.Denied, it.v.Holding == bucket.Allowed:
		return CoordinatorUnreachable
	case it.v.Holding == bucket.OnLease && !it.over:
		return WithinLease
	case it.v.Holding == bucket.OnLease && it.wholeLimit():
		return GlobalExhausted
	case it.v.Holding == bucket.OnLease:
		return LeaseEmpty
	case it.v.Holding == bucket.OnStanding && !it.over:
		return StandingShare
	case it.connected:
		return LeaseEmpty
	}
	return CoordinatorUnreachable
}

func (it *item) source() Source {
	switch it.v.Holding {
	case bucket.Denied, bucket.Allowed:
		return FromPolicy
	case bucket.OnHold:
		return FromHeldLease
	case bucket.OnLease:
		return FromLease
	case bucket.OnStanding:
		if it.local {
			return FromFallback
		}
		return FromShare
	}
	return FromNobody
}

// wholeLimit reports whether the region holds nearly all that it can get of the
// limit: nine tenths of what the standing shares of the other regions leave.
func (it *item) wholeLimit() bool {
	l, mine, has := it.limit, it.ask.Standing.Capacity, it.v.Capacity
	return it.wholeBurst(nearly) &&
		(l.Rate.Tokens <= 0 || enough(nearly, has.Rate.In(l.Rate.Per).Tokens, l.Rate.Tokens, mine.Rate.In(l.Rate.Per).Tokens, l.Standing))
}

// wholeBurst reports whether the region holds that part of the burst that it can get.
func (it *item) wholeBurst(part float64) bool {
	return enough(part, it.v.Capacity.Burst, it.limit.Burst, it.ask.Standing.Burst, it.limit.Standing)
}

// nearly is how much of the whole is as good as all of it.
const nearly = 0.9

// enough compares in floats: it only words a reason, or a guess.
func enough(part float64, has, whole, mine quota.Tokens, standingPPM int64) bool {
	others := max(0, float64(whole)*float64(standingPPM)/quota.PPM-float64(mine))
	return float64(has) >= part*(float64(whole)-others)
}
