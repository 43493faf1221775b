package enforce

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
)

// A shaped limit admits what a token bucket admits, and tells each admitted request to
// wait until what the bucket contained before it has leaked out, as nginx's limit_req
// does without nodelay. With the rate r and the burst b that the region has in force,
//
//	delay = (b - level before the charge) / r, at most B/R
//
// where R and B are the whole limit's. The verdict of the store has all of this, so
// shaping costs the store nothing.
//
// What leaves, when a request leaves its delay after it was admitted, by the store's
// clock, and no other shaped limit holds it longer:
//
//   - While r and b do not change, and b/r <= B/R as in every standing share, request i
//     of cost c leaves at F(i) = max(arrival(i), F(i-1) + c(i-1)/r), rounded up to a
//     microsecond: in the order of arrival, and one after the other. A window of length
//     W sees at most r*(W + 1 us) + c leave, c being the last one's cost.
//   - With a burst that is larger than that for its rate, the cap B/R lets the end of
//     a long queue leave together. The order stays, and a window sees at most b +
//     r*(W + 1 us): what waits when it begins is no more than b - level, and what is
//     admitted in it no more than level + r*W.
//   - Over all regions, whatever happens to leases, messages and regions, what leaves in
//     a window was admitted in it or at most B/R before it. So it is at most
//     B + R*(W + B/R) = 2*B + R*W. What is admitted stays within B + R*W.
//
// A request of several shaped limits is delayed by the longest of their delays, so it may
// leave the others later than these say, and in company. Then the last sentence holds with
// the largest burst/rate of its shaped limits in the place of that B/R.
//
// The cap is the longest delay that one central bucket would give. It makes the last
// sentence true, and it is the answer where the region holds tokens without a rate, or
// with next to none: no delay would let a burst through at once, no end would hold
// tokens for ever that are charged already.

// longestDelay is the cap on the delays of a limit.
func longestDelay(l *rules.Limit) quota.Micros {
	if full, ok := l.TimeTo(0, l.Burst); ok {
		return full
	}
	return bucket.Forever
}

// delay is that of a request that the item's bucket admits. charged says that the
// level is the one after the charge. What is admitted by policy is in nobody's bucket,
// and what is settled has left already.
func (it *item) delay(charged bool) time.Duration {
	if !it.limit.Shape || it.ask.Cost <= 0 || it.ask.Settle || it.v.Holding == bucket.Allowed {
		return 0
	}
	level := it.v.Level
	if charged {
		level += it.ask.Cost
	}
	longest := longestDelay(it.limit)
	leak, ok := it.v.Capacity.TimeTo(level, it.v.Capacity.Burst)
	if !ok {
		return longest.Duration()
	}
	return min(longest, max(0, leak-it.v.Unspent)).Duration()
}

// delays tells the statuses of an admitted request their delays, and returns the longest.
func (p *plan) delays(statuses []Status) (longest time.Duration) {
	for i := range statuses {
		d := &p.descriptors[i]
		if d.count < 0 {
			continue
		}
		c := &p.counts[d.count]
		if c.rule.Shadow || c.over {
			continue
		}
		for j := c.first; j < c.first+c.n; j++ {
			statuses[i].Delay = max(statuses[i].Delay, p.items[j].delay(c.charged))
		}
		longest = max(longest, statuses[i].Delay)
	}
	return longest
}

// tooLate denies what would be told a delay longer than most. That is so, too, of a
// cost for which the tokens are not there yet: it would leave when the bucket as it is
// now is full, however long it waits to be admitted.
func (it *item) tooLate(most time.Duration) bool {
	if most <= 0 || it.v.Retry == bucket.Forever {
		return false
	}
	d := it.delay(false)
	if d <= most {
		return false
	}
	it.late = max(d-most, it.v.Retry.Duration())
	it.v.Admitted, it.over = false, true
	return true
}

// denyLate looks at the shaped buckets whose delays can be longer than the request's
// MaxDelay, before anything is charged, and takes the counts that would wait too long
// out of what is still to be asked, as an answer of the store does.
func (e *Enforcer) denyLate(ctx context.Context, s *snapshot, p *plan) error {
	if p.maxDelay <= 0 {
		return nil
	}
	most := quota.MicrosOf(p.maxDelay)
	var asks []bucket.Ask
	var counts []*count // of each ask
	var items []*item
	for i := range p.counts {
		c := &p.counts[i]
		if c.rule.Shadow || c.over || c.charged || c.cost <= 0 {
			continue
		}
		for j := c.first; j < c.first+c.n; j++ {
			if it := &p.items[j]; it.limit.Shape && longestDelay(it.limit) > most {
				look := it.ask
				look.Cost = 0
				asks, counts, items = append(asks, look), append(counts, c), append(items, it)
			}
		}
	}
	if len(asks) == 0 {
		return nil
	}
	p.late = true
	res, err := e.cfg.Store.Take(ctx, Take{Incarnation: s.Incarnation, Config: s.Version, Asks: asks})
	if err == nil && len(res.Verdicts) != len(asks) {
		err = fmt.Errorf("%w: %d verdicts on %d asks", ErrStoreDown, len(res.Verdicts), len(asks))
	}
	if err != nil {
		return err
	}
	e.local.up()
	s.saw(res.Now)
	connected := e.connected(res.Now)
	for i, it := range items {
		it.looked(res.Verdicts[i], connected)
		if it.tooLate(p.maxDelay) {
			counts[i].over = true
		}
	}
	return nil
}
