package enforce

import (
	"errors"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
)

// ErrSettlement: the request to settle has costs of its own, beside the estimate.
var ErrSettlement = errors.New("what is settled has an estimate, and no hits or refunds of its own")

// Settlement returns the request that settles another one: req was admitted at
// estimate hits for each of its descriptors, and has cost actual. What is missing is
// charged, also where it leaves a debt; what was too much is given back. The error is
// ErrSettlement when req has costs of its own.
func Settlement(req Request, estimate, actual uint64) (Request, error) {
	out := Request{Domain: req.Domain, Settle: true, Descriptors: make([]Descriptor, len(req.Descriptors))}
	if req.Hits != 0 || req.Settle {
		return Request{}, ErrSettlement
	}
	// Costs saturate, so a difference is that of saturated costs.
	const most = uint64(quota.MaxTokens / quota.Token)
	estimate, actual = min(estimate, most), min(actual, most)
	difference := max(actual, estimate) - min(actual, estimate)
	for i, d := range req.Descriptors {
		if d.Hits != nil || d.Refund {
			return Request{}, ErrSettlement
		}
		out.Descriptors[i] = Descriptor{Entries: d.Entries, Hits: &difference, Refund: actual < estimate, Override: d.Override}
	}
	return out, nil
}

// uncharged is what a count could not be charged of a cost to settle.
func (p *plan) uncharged(c *count) (most quota.Tokens) {
	for i := c.first; i < c.first+c.n; i++ {
		most = max(most, p.items[i].v.Uncharged)
	}
	return most
}

// arrival is what a request means for the demand: tokens that are wanted, and the part
// of them that need not be there. Tokens that are given back are none; a cost that is
// settled had no need of a bucket. Who is not even let look wants something, nobody
// knows how much: one token.
func (it *item) arrival() (cost, owed quota.Tokens) {
	switch a := &it.ask; {
	case a.Cost < 0:
		return 0, 0
	case a.Settle:
		return a.Cost, a.Cost
	case a.Cost == 0:
		return quota.Token, quota.Token
	default:
		return a.Cost, min(a.Debt, a.Cost)
	}
}

// silent reports whether a request is no news for the demand: it has only looked.
func (it *item) silent(charged bool) bool {
	return it.ask.Cost == 0 && (charged || it.ask.Debt == 0)
}

// forgetRefunds drops what is remembered of the buckets that were given tokens back.
func (e *Enforcer) forgetRefunds(p *plan) {
	for _, a := range p.asks {
		if a.Cost < 0 {
			e.Forget(a.Key)
		}
	}
}

// part is an ask for one agent's part of the standing share: its debt is a part, too.
func part(a bucket.Ask, agents int64) *bucket.Ask {
	a.Debt /= quota.Tokens(agents)
	return &a
}

// refund gives back what this agent has admitted of a key while the store was away,
// and no more: of what was charged in the store nothing is known here. A debt that is
// on its way to the store stays as it is.
func (l *local) refund(now quota.Micros, it *item, agents int64) {
	d := l.debts[it.ask.Key]
	if d == nil || d.settling > 0 {
		return
	}
	a := it.ask
	a.Cost = max(a.Cost, -d.owed)
	it.v = bucket.Judge(&a, l.balance(now, it, agents), true)
	d.level, d.at = it.v.Level, now-it.v.Unspent
	if d.slide {
		d.own.Refund(now, it.ask.Standing.Rate.Per, -a.Cost)
	}
	if d.owed += a.Cost; d.owed == 0 {
		delete(l.debts, it.ask.Key)
		l.owing.Store(len(l.debts) > 0)
	}
}

// uncounted says of a cost to settle that nobody counts it: a policy that denies all
// while the store is away has nowhere to.
func (it *item) uncounted() {
	if it.ask.Settle && it.limit.OnStoreFailure == rules.OnStoreFailureDeny {
		it.v.Uncharged = max(it.ask.Cost, 0)
	}
}
