package enforce

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/demand"
)

// repeats remember the requests that were paid from an allowance, so that who asks the
// same again need not find its rule, its key and its allowance again. They only save
// time: the answer to a request is the same whether it is remembered or not, so that the
// hash may have a seed of its own, and a simulation can be replayed all the same.
//
// Only the plainest requests are remembered, of one descriptor and one limit: they are
// nearly all that is asked in an application's own process, where the time counts. Each
// has the one place that its hash gives it, so there are never more than maxRepeats, of
// maxAllowanceKey bytes: at most 4 MB with their names, usually a hundredth of it. Of the
// requests for one key one is remembered at a time, as any number of values may share a
// key (share_threshold). Nil remembers nothing.
type repeats struct {
	seed  maphash.Seed
	slots [maxRepeats]atomic.Pointer[repeat]
}

const (
	maxRepeats = 4096
	// repeatLife is how long one is used. It is well below allowanceLife, as an allowance
	// that is used without being found would be dropped after that.
	repeatLife = time.Second
)

// repeat is what was found for a request. All of it but the place stays as it is.
type repeat struct {
	snapshot *snapshot
	until    time.Duration
	domain   string
	entries  []rules.Entry
	rule     *rules.Rule
	item     item // as it is planned
	place    demand.Place
}

func newRepeats() *repeats { return &repeats{seed: maphash.MakeSeed()} }

// slot returns the place of a request for one descriptor.
func (rs *repeats) slot(domain string, entries []rules.Entry) *atomic.Pointer[repeat] {
	h := maphash.String(rs.seed, domain)
	for i := range entries {
		h = h*31 + maphash.String(rs.seed, entries[i].Key)
		h = h*31 + maphash.String(rs.seed, entries[i].Value)
	}
	return &rs.slots[h%maxRepeats]
}

// clear forgets all, and with them the rules that they point to.
func (rs *repeats) clear() {
	if rs == nil {
		return
	}
	for i := range rs.slots {
		rs.slots[i].Store(nil)
	}
}

// plain reports whether a request may be remembered, as far as it can tell itself.
func plain(req *Request) bool {
	return len(req.Descriptors) == 1 && !req.Settle && req.Descriptors[0].Override.IsZero()
}

// keep remembers a request that was paid from allowances.
func (rs *repeats) keep(t *turn) {
	p := t.p
	if rs == nil || !plain(&t.req) || len(p.items) != 1 {
		return
	}
	d := &t.req.Descriptors[0]
	size := len(t.req.Domain) // not that of the key, which may have a digest for a value
	for i := range d.Entries {
		size += len(d.Entries[i].Key) + len(d.Entries[i].Value)
	}
	it := &p.items[0]
	if size > maxAllowanceKey || !it.allowance.remember(t.now) {
		return
	}
	r := &repeat{
		snapshot: t.s, until: t.now + repeatLife,
		rule: p.counts[0].rule, item: item{limit: it.limit, ask: it.ask, allowance: it.allowance},
		domain: strings.Clone(t.req.Domain), entries: slices.Clone(d.Entries),
	}
	for i := range r.entries {
		e := &r.entries[i]
		e.Key, e.Value = strings.Clone(e.Key), strings.Clone(e.Value)
	}
	rs.slot(r.domain, r.entries).Store(r)
}

// find returns what is remembered of a request, nil for nothing.
func (rs *repeats) find(s *snapshot, now time.Duration, req *Request) *repeat {
	if rs == nil || !plain(req) {
		return nil
	}
	entries := req.Descriptors[0].Entries
	r := rs.slot(req.Domain, entries).Load()
	if r == nil || r.snapshot != s || now >= r.until || r.domain != req.Domain || !slices.Equal(r.entries, entries) {
		return nil
	}
	return r
}

// again decides a request that is remembered and can be paid. Otherwise nothing has
// happened, and it is to be planned.
func (e *Enforcer) again(now time.Duration, s *snapshot, req *Request, into *Decision) bool {
	r := e.repeats.find(s, now, req)
	if r == nil {
		return false
	}
	it := r.item
	it.ask.Cost = cost(req, 0)
	if it.ask.Cost <= 0 || e.local.owing.Load() {
		return false
	}
	if e.denials != nil && !e.denials.quiet(now) {
		if _, _, _, denied := e.denials.deny(now, it.ask); denied {
			return false
		}
	}
	if !it.allowance.spare(now, &it) {
		return false
	}
	if e.cfg.Demand != nil {
		o := it.observation(true)
		o.Place = &r.place
		if e.cfg.Demand.Observe(o) && e.cfg.Wake != nil {
			e.cfg.Wake()
		}
	}
	*into = Decision{Statuses: append(into.Statuses[:0], it.status()), FromAllowance: true}
	into.Statuses[0].Rule = r.rule
	return true
}
