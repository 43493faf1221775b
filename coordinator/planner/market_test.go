package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// market is a desk whose regions renew, report what they ask for, and apply and
// confirm what they are told.
type market struct {
	*desk
	regions []string
	wants   map[string][]quota.Usage
	deaf    map[string]bool // regions that apply nothing
	// level is what a region has in its share of a key when it lends it.
	level map[string]quota.Tokens
	told  map[string][]quota.Assignment // in the order in which they were applied
	loans map[string]held               // by region and key
	away  map[string]quota.Micros       // until when a region does without its share of a key
	log   []logged
}

// held is what a region may use of other regions' shares, until a time.
type held struct {
	quota.Capacity
	until quota.Micros
}

// logged is an operation with its time.
type logged struct {
	at quota.Micros
	ledger.Op
}

// newMarket has three regions; ap and us have 100 tokens each in their shares.
func newMarket(t *testing.T, sources []quota.Source) *market {
	return &market{
		desk: newDesk(t, sources, "ap", "eu", "us"), regions: []string{"ap", "eu", "us"},
		wants: map[string][]quota.Usage{}, deaf: map[string]bool{},
		level: map[string]quota.Tokens{"ap": 100 * quota.Token, "us": 100 * quota.Token},
		told:  map[string][]quota.Assignment{}, loans: map[string]held{}, away: map[string]quota.Micros{},
	}
}

// play lets time pass in steps of a fifth of a second.
func (m *market) play(dur time.Duration) {
	m.t.Helper()
	for end := m.now + quota.MicrosOf(dur); m.now < end; {
		for _, r := range m.regions {
			m.turn(r)
		}
		m.wait(200 * time.Millisecond)
		for _, op := range m.ops {
			m.log = append(m.log, logged{m.now, op})
		}
		m.ops = nil
	}
}

// turn is one sync of a region, and what it confirms.
func (m *market) turn(region string) {
	m.t.Helper()
	for _, p := range m.term.Push(m.at(), m.l) {
		for _, a := range p.Assignments {
			if a.Loan != nil {
				m.t.Errorf("a push tells %s of a loan, which then counts from no sync", p.Region)
			}
		}
		m.hear(p.Region, p.Assignments)
	}
	usage := append([]quota.Usage(nil), m.wants[region]...)
	for i := range usage {
		if a := m.l.Account(usage[i].Key); a != nil {
			h, _ := a.Holding(region)
			usage[i].Epoch, usage[i].Burst = h.Epoch, a.Reserved(region).Burst
			if !h.Leased && m.now < m.away[region+string(a.Key)] {
				usage[i].Burst = 0
			}
			if n := m.loans[region+string(a.Key)]; m.now < n.until {
				usage[i].Burst += n.Burst
			}
		}
	}
	m.hear(region, m.sync(region, uses(usage...)).Assignments)
	m.round()
}

func (m *market) hear(region string, all []quota.Assignment) {
	if len(all) == 0 || m.deaf[region] {
		return
	}
	m.told[region] = append(m.told[region], all...)
	for _, a := range all {
		if a.Lend > 0 {
			m.away[region+string(a.Key)] = m.now + quota.MicrosOf(a.Lend)
		}
		if a.Home {
			delete(m.away, region+string(a.Key))
		}
		if a.Loan != nil {
			m.loans[region+string(a.Key)] = held{a.Loan.Capacity, m.now + quota.MicrosOf(a.Loan.Left)}
		}
	}
	m.sync(region, applies(all), func(r *quota.SyncRequest) {
		for i := range r.Applied {
			if all[i].Lend > 0 {
				r.Applied[i].Surrendered, m.level[region] = m.level[region], 0
			}
		}
	})
}

// offers returns when a region's share of shop was lent, or lent for longer.
func (m *market) offers(region string) (all []quota.Micros) {
	for _, op := range m.log {
		if o, ok := op.Op.(ledger.Lend); ok && o.Region == region && o.Key == shop {
			all = append(all, op.at)
		}
	}
	return all
}

func (m *market) ended() int { return count[ledger.EndLoan](m.since(0)) }

// since returns the operations after a time.
func (m *market) since(at quota.Micros) (all []ledger.Op) {
	for _, op := range m.log {
		if op.at > at {
			all = append(all, op.Op)
		}
	}
	return all
}

// borrowed returns the capacity of all loans of shop that a region has borrowed.
func (m *market) borrowed(region string) quota.Capacity { return m.l.Account(shop).Borrowed(region) }

// loan returns what a region was told last of what it may borrow of shop.
func (m *market) loan(region string) (last quota.Loan) {
	for _, a := range m.told[region] {
		if a.Loan != nil {
			last = *a.Loan
		}
	}
	return last
}

// asks is usage of a region of 5 reports a second, which are answered so far as
// they are not denied.
func asks(k quota.Key, perSecond, denied int64, level quota.Tokens) quota.Usage {
	each := quota.Tokens(perSecond) * quota.Token / 5
	return quota.Usage{Key: k, Window: 200 * time.Millisecond, Admitted: each - quota.Tokens(denied)*quota.Token/5, Denied: quota.Tokens(denied) * quota.Token / 5, Largest: quota.Token, Level: level}
}
