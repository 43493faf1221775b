package planner

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// Push is what to say to one connected agent between answers: assignments, or
// the configuration that the region may adopt. It renews nothing.
type Push struct {
	Region, Agent string
	quota.SyncResponse
}

// Push returns the assignments in flight and the configurations offered that
// have not been sent to anybody, by agent. Each is pushed once; answers repeat it.
func (t *Term) Push(now quota.Micros, l *ledger.Ledger) []Push {
	var all []Push
	for _, lr := range l.Regions() {
		r := t.regions[lr.Name]
		if r == nil || len(r.agents) == 0 {
			continue
		}
		all = t.pushConfig(all, l, lr, r)
		if len(r.unsent) == 0 {
			continue
		}
		slices.Sort(r.unsent)
		first := len(all)
		for _, k := range slices.Compact(r.unsent) {
			f := r.flights[k]
			if f == nil || f.agent != "" {
				continue
			}
			a, ok := t.assignment(now, l, r, k, f)
			if !ok || a.Loan != nil {
				continue // a loan is told in an answer only: it counts from a sync
			}
			f.send(now, r.route(now, t.reporter(k, r.name)))
			i := slices.IndexFunc(all[first:], func(p Push) bool { return p.Agent == f.agent })
			if i < 0 {
				i = len(all) - first
				all = append(all, Push{r.name, f.agent, quota.SyncResponse{Cluster: l.Cluster()}})
			}
			all[first+i].Assignments = append(all[first+i].Assignments, a)
			// What is lent is not confirmed at once.
			if !r.waiting && a.Lend == 0 {
				r.waiting, r.asked = true, now
			}
		}
		r.unsent = nil
	}
	return all
}

// pushConfig appends the configuration that a region may adopt since the last
// offer, for all of its agents: an idle one would hear of it only with its next renewal,
// and the region has adopted it when the last of them has.
func (t *Term) pushConfig(all []Push, l *ledger.Ledger, lr *ledger.Region, r *region) []Push {
	if lr.Offered == lr.Confirmed || r.pushed >= lr.Offered {
		return all
	}
	r.pushed = lr.Offered
	for _, a := range r.agents {
		all = append(all, Push{r.name, a.name, quota.SyncResponse{Cluster: l.Cluster(), Config: offered(l, lr)}})
	}
	return all
}

// offered returns the configuration that a region may adopt.
func offered(l *ledger.Ledger, lr *ledger.Region) *quota.Config {
	c := l.Config(lr.Offered)
	if c == nil {
		return nil
	}
	return &quota.Config{Version: c.Version, Sources: c.Sources, Shares: c.Shares}
}

// Gone says that an agent's stream is closed. What was sent to it goes to
// another agent of the region.
func (t *Term) Gone(_ quota.Micros, region, agent string) {
	if r := t.regions[region]; r != nil {
		r.lose(agent)
	}
}

// answerable returns the assignments in flight that are routed to an agent, in
// the order in which they were made. Loans count from checked, which is after the
// sync was sent.
func (t *Term) answerable(now, checked quota.Micros, l *ledger.Ledger, r *region, agent string) []quota.Assignment {
	var all []quota.Assignment
	for k, f := range r.flights {
		if f.agent == agent && now-f.sent < resendAge || r.route(now, t.reporter(k, r.name)) != agent {
			continue
		}
		if a, ok := t.assignment(checked, l, r, k, f); ok {
			f.send(now, agent)
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b quota.Assignment) int { return cmp.Compare(a.Epoch, b.Epoch) })
	return all
}

// assignment returns what the ledger has in flight, ok false when it is that no
// longer. A loan counts from now.
func (t *Term) assignment(now quota.Micros, l *ledger.Ledger, r *region, k quota.Key, f *flight) (a quota.Assignment, ok bool) {
	acct := l.Account(k)
	if acct == nil {
		return a, false
	}
	h, held := acct.Holding(r.name)
	if !held || h.Flight == nil || h.Epoch != f.epoch {
		return a, false
	}
	a = quota.Assignment{
		Key: k, Session: r.session, Epoch: h.Epoch,
		Lease: h.Flight.Lease, Credit: h.Flight.Credit, Release: h.Flight.Release, Lend: h.Flight.Lends.Duration(),
		Home: h.Flight.Lends == 0 && !acct.Lent(r.name),
	}
	if h.Flight.Borrows {
		a.Loan = t.loanOf(now, acct, r.name, h.Flight)
	}
	return a, true
}

// reporter returns the agent of a region that last reported a key.
func (t *Term) reporter(k quota.Key, region string) string {
	if e := t.book.entries[k]; e != nil {
		if d := e.demand(region); d != nil {
			return d.agent
		}
	}
	return ""
}
