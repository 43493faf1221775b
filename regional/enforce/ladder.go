package enforce

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/demand"
)

// local is what this agent admits while the store is away: for each key one
// bucket of the region's standing share divided by its live agents, empty when
// the outage began.
//
//	store answers ──error──► away ──answer──► back, keys without debt
//	                           │                    as if nothing had been
//	                           └─ admits ─► debt ──Settle──► charged
//
// A key with a debt stays here until Settle has charged it: until then its
// record shows tokens that are spent. Only such keys are remembered, since a key
// that was never admitted has exactly what accrued since the outage began.
type local struct {
	mu    sync.Mutex
	max   int
	since time.Duration // when the outage began
	debts map[quota.Key]*debt
	away  away

	down  atomic.Bool // there is an outage
	owing atomic.Bool // there are debts
}

// debt is a key that was admitted while the store was away.
type debt struct {
	owed  quota.Tokens // all that was admitted
	level quota.Tokens // of the local bucket, at
	at    quota.Micros
	burst quota.Tokens // the largest burst the local bucket had
	own   bucket.Own   // of a sliding window, in the place of level and at
	slide bool
	// settling is the part of owed that is on its way to the store.
	settling quota.Tokens
}

func newLocal(limit int, loan time.Duration) *local {
	return &local{max: limit, debts: make(map[quota.Key]*debt), away: away{loan: loan}}
}

// fail says that the store did not answer at now.
func (l *local) fail(now time.Duration) {
	if l.down.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.down.Load() {
		l.since = now
		l.away.fail(now)
		l.down.Store(true)
	}
}

// up says that the store answered.
func (l *local) up() {
	if l.down.Load() {
		l.down.Store(false)
	}
}

// owesAny reports whether an enforced key of the plan has a debt.
func (l *local) owesAny(p *plan) bool {
	if !l.owing.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range p.counts {
		c := &p.counts[i]
		for j := c.first; !c.rule.Shadow && j < c.first+c.n; j++ {
			if l.debts[p.items[j].ask.Key] != nil {
				return true
			}
		}
	}
	return false
}

// degrade answers the plan without the store.
func (e *Enforcer) degrade(now time.Duration, p *plan) {
	p.degraded = true
	p.reopen()
	for i := range p.items {
		p.items[i].asked, p.items[i].v = false, bucket.Verdict{}
	}
	agents := int64(max(1, e.view.Load().Agents))
	e.local.take(now, p, agents)
	if e.cfg.Demand == nil {
		return
	}
	for i := range p.counts {
		c := &p.counts[i]
		if c.rule.Shadow || c.early != "" || c.cost < 0 {
			continue
		}
		for j := range p.items[c.first : c.first+c.n] {
			it := &p.items[c.first+j]
			if it.silent(c.charged) || !c.charged && !it.over {
				continue
			}
			o := demand.Observation{Key: it.ask.Key, Admitted: c.charged, Blind: true}
			o.Cost, o.Owed = it.arrival()
			e.cfg.Demand.Observe(o)
		}
	}
}

// take decides all counts by their rules' policies: all or none, as the store does.
func (l *local) take(now time.Duration, p *plan, agents int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := quota.MicrosOf(now)
	for i := range p.counts {
		c := &p.counts[i]
		if c.rule.Shadow || c.early != "" {
			continue
		}
		for j := c.first; j < c.first+c.n; j++ {
			it := &p.items[j]
			it.local = true
			it.v = l.verdict(t, it, agents)
			it.tooLate(p.maxDelay)
			it.over = !it.v.Admitted
			c.over = c.over || it.over
		}
	}
	if p.over() {
		return
	}
	for i := range p.counts {
		c := &p.counts[i]
		if c.rule.Shadow || c.over {
			continue
		}
		c.charged = true
		for j := c.first; j < c.first+c.n; j++ {
			switch it := &p.items[j]; {
			case it.limit.OnStoreFailure != rules.OnStoreFailureLocal:
				it.uncounted()
			case c.cost > 0:
				l.charge(t, it, agents)
			case c.cost < 0 && p.unasked:
				l.refund(t, it, agents)
			}
		}
	}
}

// verdict says what one limit's policy has for its key.
func (l *local) verdict(now quota.Micros, it *item, agents int64) bucket.Verdict {
	switch it.limit.OnStoreFailure {
	case rules.OnStoreFailureAllow:
		return bucket.Verdict{Admitted: true, Holding: bucket.Allowed}
	case rules.OnStoreFailureDeny:
		return bucket.Judge(&it.ask, bucket.Balance{Holding: bucket.Denied}, false)
	}
	v := bucket.Judge(part(it.ask, agents), l.balance(now, it, agents), false)
	if it.ask.Cost > 0 && !it.ask.Settle && l.closed(it.ask.Key) {
		v.Admitted = false
	}
	return v
}

// closed reports whether no debt of a key may be made now. While one is being settled
// no new one may be made, or a busy key would never be settled; nor one that could
// not be remembered.
func (l *local) closed(k quota.Key) bool {
	d := l.debts[k]
	return d != nil && d.settling > 0 || d == nil && len(l.debts) >= l.max
}

// balance refills the local bucket of an item.
func (l *local) balance(now quota.Micros, it *item, agents int64) bucket.Balance {
	share := it.ask.Standing.Capacity
	share.Rate.Tokens /= quota.Tokens(agents)
	share.Burst /= quota.Tokens(agents)
	back := quota.MicrosOf(l.away.until(it.ask.Key))
	if now < back {
		share.Rate.Tokens, share.Burst = 0, 0
	}
	if it.ask.Standing.Window != bucket.NoWindow {
		return l.places(now, it, share.Burst)
	}
	b := bucket.Balance{Holding: bucket.OnStanding, Capacity: share}
	if d := l.debts[it.ask.Key]; d != nil {
		level := min(d.level, share.Burst)
		if d.at < back {
			level = min(level, 0) // the share begins again, empty
		}
		b.Level, b.Unspent = share.Refill(level, now-max(d.at, back))
	} else if l.down.Load() {
		b.Level, b.Unspent = share.Refill(0, now-max(quota.MicrosOf(l.since), back))
	}
	if share.Burst == 0 {
		b.Holding = bucket.OnNothing
	}
	return b
}

func (l *local) charge(now quota.Micros, it *item, agents int64) {
	b := l.balance(now, it, agents)
	v := bucket.Judge(part(it.ask, agents), b, true)
	if it.ask.Settle && (l.closed(it.ask.Key) || v.Uncharged == it.ask.Cost) {
		it.v.Uncharged = it.ask.Cost
		return
	}
	it.v = v
	d := l.debts[it.ask.Key]
	if d == nil {
		// A request with several new keys may pass the bound by their number.
		d = &debt{}
		l.debts[it.ask.Key] = d
		l.owing.Store(true)
	}
	d.level, d.at = v.Level, now-v.Unspent
	if d.slide = it.ask.Standing.Window != bucket.NoWindow; d.slide {
		d.own.Admit(now, it.ask.Standing.Rate.Per, it.ask.Cost-v.Uncharged)
	}
	d.burst = max(d.burst, b.Capacity.Burst)
	d.owed = min(d.owed+it.ask.Cost-v.Uncharged, quota.MaxTokens)
}

// settleBatch is how many debts one call to the store charges.
const settleBatch = 100

// Settle charges the store with what was admitted while it was away. The sync
// loop calls it after it has read the region's state and told SetView: while the
// store is away a charge could be executed without an answer, again and again.
//
// After an error the charges of one batch may be in the store or not. They are
// charged again by the next call, the safe side of not knowing. After ErrStale
// the region's configuration must be read first.
func (e *Enforcer) Settle(ctx context.Context) error {
	e.local.up()
	s := e.snap.Load()
	if s == nil {
		return nil
	}
	for e.local.owing.Load() {
		charges := e.local.begin(s, settleBatch, !e.connected(s.now()))
		if len(charges) == 0 {
			return nil // another call is settling them
		}
		err := e.cfg.Store.Charge(ctx, s.Incarnation, charges)
		e.local.end(charges, err == nil)
		if err != nil {
			return fmt.Errorf("settle %d debts with the regional store: %w", len(charges), err)
		}
	}
	return nil
}

// Owing returns the number of keys that were admitted while the store was away
// and are not settled yet.
func (e *Enforcer) Owing() int {
	e.local.mu.Lock()
	defer e.local.mu.Unlock()
	return len(e.local.debts)
}

// due is what the store must be charged.
//
// A record that was on its standing share throughout refilled no higher than its
// burst, so of a long outage's admissions only what the local bucket still lacks
// is missing from it: had they been charged in time, the rest would have been
// refilled since. (The local buckets of all agents are parts of that share, and
// began empty.) A record on a lease may have had room for all of the refill, so
// there everything is due.
func (d *debt) due(standing bool) quota.Tokens {
	if d.slide {
		return d.occupied()
	}
	if standing {
		return min(d.owed, d.burst-d.level)
	}
	return d.owed
}

// begin takes up to n debts on their way to the store. standing says that the
// region has no session, so that every record is on its standing share.
func (l *local) begin(s *snapshot, n int, standing bool) []bucket.Charge {
	l.mu.Lock()
	defer l.mu.Unlock()
	var charges []bucket.Charge
	for k, d := range l.debts {
		if len(charges) == n {
			break
		}
		if d.settling == 0 {
			d.settling = d.due(standing)
			charges = append(charges, bucket.Charge{Key: k, Tokens: d.settling, Standing: s.StandingOf(k, s.now())})
		}
	}
	return charges
}

// end forgets the debts that were settled.
func (l *local) end(charges []bucket.Charge, settled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range charges {
		l.debts[c.Key].settling = 0
		if settled {
			// Nothing was added meanwhile: verdict refuses a key that is settling.
			delete(l.debts, c.Key)
		}
	}
	l.owing.Store(len(l.debts) > 0)
}
