package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// What is done about requests after they were admitted: a part of them is given back, or
// an estimate is settled. The promise for these, and how it is checked:
//
//	Bound, Tokens  are for what is admitted less what is given back, each when it happens.
//	               What is given back counts as far as a bucket has taken it: what is lost
//	               for being above a burst is nobody's to admit again. Of a settlement
//	               counts what it says that it has charged.
//	               A debt is a level below zero, in the sums of Tokens as well. So it is
//	               gone when it is paid, and a store that is reset has given it back. What
//	               all regions owe is beyond the Bound, max_debt in each of them.
//	Debt           no take leaves a bucket below -max_debt, only a settlement takes of one
//	               that is not above zero, and it leaves nothing uncharged above -max_debt.

// amended gives back a part of what is admitted, or settles it, in every seventh of the
// worlds: for the first key, and for the other one perhaps the other way. Half of their
// buckets may be in debt. Which worlds these are is drawn apart, so that the others stay
// what they are. Without the store nothing is admitted in them: there, debts would have no
// end that is known.
func amended(p Plan, seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0x5e7f))
	if r.IntN(7) != 0 {
		return p
	}
	first := []Afterwards{Refund, Settle}[r.IntN(2)]
	kinds := []Afterwards{first, []Afterwards{"", Refund, Settle}[r.IntN(3)]}
	most := []uint32{1, 10, 40}[r.IntN(3)]
	for i := range p.Load {
		l := &p.Load[i]
		l.Afterwards, l.MostCost = kinds[l.Key], max(l.MostCost, most)
	}
	for i := range p.Final {
		p.Final[i].Afterwards = kinds[p.Final[i].Key]
	}
	if debt := []int{5, 20, 60}[r.IntN(3)]; r.IntN(2) == 0 {
		p.Rules = indebted(p.Rules, debt)
		for i := range p.Edited {
			p.Edited[i] = indebted(p.Edited[i], debt)
		}
	}
	return p
}

// indebted puts a max_debt into the documents of a random world that have buckets.
func indebted(documents []quota.Source, debt int) (edited []quota.Source) {
	for _, d := range documents {
		if strings.Contains(d.Text, "burst: ") {
			d.Text = strings.Replace(d.Text, "burst: ", fmt.Sprintf("max_debt: %d, burst: ", debt), 1)
			d.Text = strings.Replace(d.Text, "on_store_failure: local", "on_store_failure: deny", 1)
		}
		edited = append(edited, d)
	}
	return edited
}

// newAfters draws apart, so that worlds without are what they are.
func newAfters(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0xaf7e2)) }

// afterMean is the mean time between a request and what is done about it.
const afterMean = quota.Second

// after does what is to be done about a request of that many hits that a region has
// admitted.
func (w *World) after(r *region, k int, hits uint32, then Afterwards) {
	if then == "" {
		return
	}
	in := quota.Micros(w.afters.ExpFloat64() * float64(afterMean))
	id := &w.keys[k].Key
	d := enforce.Descriptor{Entries: id.Entries, Override: id.Override}
	req := enforce.Request{Domain: id.Domain, Descriptors: []enforce.Descriptor{d}}
	if then == Settle {
		// It has no costs of its own, so it can be settled.
		req, _ = enforce.Settlement(req, uint64(hits), w.afters.Uint64N(2*uint64(hits)+1))
	} else {
		part := w.afters.Uint64N(uint64(hits) + 1)
		req.Descriptors[0].Hits, req.Descriptors[0].Refund = &part, true
	}
	if *req.Descriptors[0].Hits > 0 {
		w.loop.After(in, func() { w.amend(r, k, req) })
	}
}

// amend asks one agent of a region for a refund or a settlement and tells the auditor.
func (w *World) amend(r *region, k int, req enforce.Request) {
	a := r.some(w.afters)
	a.given = 0
	win := w.keys[k].window(a.wall())
	cost := quota.Whole(*req.Descriptors[0].Hits)
	a.decide(req, func(d enforce.Decision, ok bool) {
		switch {
		case req.Descriptors[0].Refund:
			w.audit.givenBack(a, k, win, cost, d)
		case ok:
			w.audit.settled(a, k, win, cost, d)
		}
	})
}

// some returns one agent of the region.
func (r *region) some(by *rand.Rand) *agent {
	if len(r.agents) == 1 {
		return r.agents[0]
	}
	return r.agents[by.IntN(len(r.agents))]
}

// take is what the store does, and notes what the first bucket has after a refund that it
// did not have before.
func (a *agent) take(now quota.Micros, asks []bucket.Ask) (admitted bool, verdicts []bucket.Verdict) {
	store := a.region.store
	if asks[0].Cost >= 0 {
		return store.Take(now, asks)
	}
	look := asks[0]
	look.Cost = 0
	level := func() quota.Tokens {
		_, v := store.Take(now, []bucket.Ask{look})
		return v[0].Level
	}
	was := level()
	admitted, verdicts = store.Take(now, asks)
	a.given += level() - was
	return admitted, verdicts
}

// givenBack counts a refund: what the store has put into the bucket, whether or not it
// said so, or of what this agent owes to it, which it forgets.
func (a *audit) givenBack(by *agent, k int, win rules.Window, cost quota.Tokens, d enforce.Decision) {
	t, now, name := a.keys[k], a.w.loop.Now(), a.w.keys[k].in(win)
	given := min(cost, by.given)
	if owed := min(cost, by.owed[name]); d.Degraded && owed > 0 {
		by.owed[name] -= owed
		given += owed
	}
	if given < cost {
		a.w.count("refunds that were lost, or a part of them")
	}
	if given == 0 {
		return
	}
	a.w.count("refunds")
	m := t.in(win)
	m.meter.GiveBack(now, given)
	m.ideal.GiveBack(now, given)
	m.spare.GiveBack(now, given)
	t.givenBack += given
}

// settled counts a settlement that charges.
func (a *audit) settled(by *agent, k int, win rules.Window, cost quota.Tokens, d enforce.Decision) {
	a.w.count("settlements that charged")
	uncharged := d.Statuses[0].Uncharged
	if uncharged > 0 {
		a.w.count("settlements that left something uncharged")
	}
	t := a.keys[k]
	t.offered += cost
	t.uncharged += uncharged
	a.cell(by.region).Offered += cost
	t.in(win).ideal.Admit(a.w.loop.Now(), cost-uncharged)
	if uncharged < cost {
		a.admitted(by, k, win, cost-uncharged, d)
	}
}

// findDebts finds the keys that may be in debt.
func (w *World) findDebts() {
	w.debts = map[quota.Key]*key{}
	for _, k := range w.keys {
		if k.first.MaxDebt > 0 {
			w.debts[k.key] = k
		}
	}
}

// owing checks what a take that was admitted leaves of a bucket.
func (a *audit) owing(r *region, ask bucket.Ask, v bucket.Verdict) {
	k := a.w.debts[ask.Key]
	if k == nil || ask.Cost <= 0 || v.Holding == bucket.Allowed {
		return
	}
	if v.Level < 0 {
		a.w.count("debts made")
	}
	floor, charged := -k.first.MaxDebt, ask.Cost-v.Uncharged
	if v.Level < floor && charged > 0 || !ask.Settle && v.Level+charged <= 0 {
		a.w.violate("Debt", "%s takes %v of %s and leaves %v", r.name, charged, ask.Key, v.Level)
	}
	if v.Uncharged > 0 && v.Level > floor {
		a.w.violate("Debt", "%s leaves %v of a settlement of %s uncharged, and %v in the bucket", r.name, v.Uncharged, ask.Key, v.Level)
	}
}

// level is what the bucket of a key without windows holds, below zero what it owes. Where
// nobody knows what the region's share is, it is what it was when it was last written.
func (r *region) level(of *key) quota.Tokens {
	now := r.time()
	ask := bucket.Ask{Key: of.key}
	if adoption, _ := r.adoption(); adoption != nil {
		ask.Standing = adoption.StandingAt(of.key, now, 0)
	}
	_, v := r.store.Take(now, []bucket.Ask{ask})
	return v[0].Level
}

// owed is what all regions owe of a key together.
func (w *World) owed(of *key) (sum quota.Tokens) {
	if of.first.MaxDebt == 0 {
		return 0
	}
	for _, r := range w.regions {
		sum += max(0, -r.level(of))
	}
	return sum
}

// owe notes what each region owes when its fair share begins to be measured.
func (w *World) owe() {
	for i, k := range w.keys {
		for _, r := range w.regions {
			if k.first.MaxDebt > 0 {
				w.audit.keys[i].paid[r.name] = max(0, -r.level(k))
			}
		}
	}
}

// forgive gives back what a region owes: its store is about to forget it.
func (w *World) forgive(r *region) {
	for i, k := range w.keys {
		if k.first.MaxDebt == 0 {
			continue
		}
		if owed := -r.level(k); owed > 0 {
			w.count("debts lost with their store")
			w.audit.keys[i].meter.GiveBack(w.loop.Now(), owed)
		}
	}
}

// indebtedness is how much the regions may owe of a key together: max_debt each, and what
// agents have admitted without the store, of which they may owe all.
func (w *World) indebtedness(k int) quota.Tokens {
	most := w.keys[k].first.MaxDebt
	if most == 0 {
		return 0
	}
	return most*quota.Tokens(len(w.regions)) + w.audit.keys[k].blind
}
