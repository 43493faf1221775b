package enforce

import (
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/demand"
)

// plan is one request on its way: what it asks for and what it was answered.
type plan struct {
	descriptors []planned // in the order of the request
	counts      []count
	items       []item
	asks        []bucket.Ask      // of the take under way
	index       []int             // the item of each ask
	byKey       map[quota.Key]int // count by key of its first item, nil while there are few

	// unlimitedQuota: an unlimited quota rule matched, so the quota rules are
	// never all over.
	unlimitedQuota bool
	settle         bool // the request's Settle
	refunds        bool // a count gives back
	unasked        bool // the store was not asked at all
	degraded       bool // the failure ladder answered
	waited         bool
	maxDelay       time.Duration // of the request
	retained       bool          // the store may still be reading the asks
	late           bool          // time has passed since the request came: nothing is paid from allowances
	drawn          bool          // something is paid from allowances
	now            time.Duration // when it came
	allowances     *allowances   // the enforcer's
	name           []byte        // the key at hand

	clock func() quota.Micros // Config.Wall, and what it said, 0 before it was read
	wall  quota.Micros
	came  quota.Micros // what it said when the request was planned first
}

// planned is one descriptor of the request.
type planned struct {
	rule     *rules.Rule
	count    int // index in counts, -1 when nothing is counted
	replaced bool
	// limit is the request's own in the place of the rule's, nil for none, and key its key.
	limit *rules.Limit
	key   quota.Key
}

// count is one identity that the request counts, with the costs of all its
// descriptors together. Its limits admit all or none.
type count struct {
	rule     *rules.Rule
	quota    bool // a quota rule
	cost     quota.Tokens
	first, n int // its items
	// early is the reason for which it is denied without asking the store:
	// ZeroLimit or BurstExceeded, by the item earlyAt.
	early   Reason
	earlyAt int
	over    bool
	charged bool
}

// item is one limit of a count.
type item struct {
	limit     *rules.Limit
	window    rules.Window // of a limit that counts in windows, and what is left of it
	left      quota.Micros
	ask       bucket.Ask
	allowance *allowance    // of the key, nil for none
	paid      time.Duration // until when the tokens that it paid with are good, 0 where it did not
	asked     bool
	over      bool
	connected bool          // the region had a session when it was asked
	known     bool          // a denial of its key is remembered
	local     bool          // answered by the failure ladder; v is then a local bucket's
	late      time.Duration // by how much its delay is too long; then it is over
	v         bucket.Verdict
}

func (p *plan) reset() {
	clear(p.descriptors)
	clear(p.counts)
	clear(p.items)
	*p = plan{
		descriptors: p.descriptors[:0], counts: p.counts[:0], items: p.items[:0],
		asks: p.asks[:0], index: p.index[:0], name: p.name[:0],
	}
}

// plan matches a request and lays out what is to be asked.
//
// came is the plan's that it was planned with before, 0 for the first time.
func (e *Enforcer) plan(s *snapshot, now time.Duration, req *Request, came quota.Micros) *plan {
	p := e.plans.Get().(*plan)
	p.reset()
	p.maxDelay, p.settle = req.MaxDelay, req.Settle
	p.clock, p.came = e.cfg.Wall, came
	p.now, p.allowances = now, e.allowances
	replaces := false
	for i := range req.Descriptors {
		d := planned{count: -1}
		if o := req.Descriptors[i].Override; !o.IsZero() {
			d.rule, d.limit, d.key = s.Set.Overridden(req.Domain, req.Descriptors[i].Entries, o)
		}
		if d.limit == nil {
			d.rule = s.Set.Match(req.Domain, req.Descriptors[i].Entries)
		}
		p.descriptors = append(p.descriptors, d)
		replaces = replaces || d.rule != nil && len(d.rule.Replaces) > 0
	}
	if replaces {
		p.replace()
	}
	for i := range p.descriptors {
		d := &p.descriptors[i]
		switch {
		case d.rule == nil || d.replaced:
		case d.limit != nil:
			d.count = p.addOverride(d, cost(req, i))
		case d.rule.Unlimited:
			p.unlimitedQuota = p.unlimitedQuota || (d.rule.QuotaMode || e.cfg.QuotaMode) && !d.rule.Shadow
		case len(d.rule.Limits) > 0:
			d.count = p.add(req.Domain, req.Descriptors[i], d.rule, cost(req, i))
		}
	}
	for i := range p.counts {
		p.counts[i].quota = p.counts[i].rule.QuotaMode || e.cfg.QuotaMode
		p.finish(&p.counts[i], s)
	}
	return p
}

// replace takes out the rules that another rule of the request replaces.
func (p *plan) replace() {
	names := make(map[string]bool)
	for _, d := range p.descriptors {
		if d.rule != nil {
			for _, name := range d.rule.Replaces {
				names[name] = true
			}
		}
	}
	for i := range p.descriptors {
		d := &p.descriptors[i]
		d.replaced = d.rule != nil && d.rule.Name != "" && names[d.rule.Name]
	}
}

// cost returns what descriptor i asks for, below zero where it gives back. Absurd
// hits saturate: they are more than any limit has.
func cost(req *Request, i int) quota.Tokens {
	d := &req.Descriptors[i]
	hits := uint64(max(1, req.Hits))
	if d.Hits != nil {
		hits = *d.Hits
	}
	if d.Refund {
		return -quota.Whole(hits)
	}
	return quota.Whole(hits)
}

// linear is up to how many counts are searched one by one for the same key; a
// hostile request may have thousands.
const linear = 16

// add adds the cost of a descriptor to the count of its identity.
func (p *plan) add(domain string, d Descriptor, rule *rules.Rule, cost quota.Tokens) int {
	key, window, own := p.key(domain, d.Entries, rule, 0)
	if i := p.find(rule, key); i >= 0 {
		p.counts[i].more(cost)
		return i
	}
	c := count{rule: rule, cost: cost, first: len(p.items), n: len(rule.Limits)}
	for i := range rule.Limits {
		if i > 0 {
			key, window, own = p.key(domain, d.Entries, rule, i)
		}
		p.items = append(p.items, item{
			limit: &rule.Limits[i], window: window, left: max(0, window.End-p.wall), ask: bucket.Ask{Key: key}, allowance: own,
		})
	}
	return p.append(c)
}

// addOverride adds the cost of a descriptor to the count of its own limit.
func (p *plan) addOverride(d *planned, cost quota.Tokens) int {
	if i := p.find(d.rule, d.key); i >= 0 {
		p.counts[i].more(cost)
		return i
	}
	c := count{rule: d.rule, cost: cost, first: len(p.items), n: 1}
	it := item{limit: d.limit, ask: bucket.Ask{Key: d.key}}
	if p.allowances != nil && !d.limit.Shape {
		p.name = append(p.name[:0], d.key...)
		it.allowance = p.allowances.find(p.now, p.name)
	}
	p.items = append(p.items, it)
	return p.append(c)
}

// more adds the cost of another descriptor of the same identity.
func (c *count) more(cost quota.Tokens) {
	c.cost = max(-quota.MaxTokens, min(c.cost+cost, quota.MaxTokens))
}

// append appends a count whose items are there, and returns its index.
func (p *plan) append(c count) int {
	p.counts = append(p.counts, c)
	if p.byKey != nil {
		p.byKey[p.items[c.first].ask.Key] = len(p.counts) - 1
	}
	return len(p.counts) - 1
}

// find returns the count that has the key, -1 for none.
func (p *plan) find(rule *rules.Rule, key quota.Key) int {
	if len(p.counts) > linear {
		if p.byKey == nil {
			p.byKey = make(map[quota.Key]int)
			for i := range p.counts {
				p.byKey[p.items[p.counts[i].first].ask.Key] = i
			}
		}
		if i, ok := p.byKey[key]; ok {
			return i
		}
		return -1
	}
	for i := range p.counts {
		if c := &p.counts[i]; c.rule == rule && p.items[c.first].ask.Key == key {
			return i
		}
	}
	return -1
}

// finish settles what can be said of a count without the store, and what to ask.
func (p *plan) finish(c *count, s *snapshot) {
	now := s.now()
	p.refunds = p.refunds || c.cost < 0
	for i := range c.n {
		it := &p.items[c.first+i]
		it.ask.Cost, it.ask.Debt = c.cost, it.limit.MaxDebt
		it.ask.Settle = p.settle || it.limit.Settle && c.cost > 0
		switch {
		case it.ask.Settle || c.cost < 0: // denied by nothing
		case it.limit.Burst <= 0:
			c.early, c.earlyAt, c.over = ZeroLimit, i, true
		case c.cost > it.limit.Burst+it.limit.MaxDebt && c.early == "":
			c.early, c.earlyAt, c.over = BurstExceeded, i, true
		}
		if c.cost <= 0 || it.ask.Settle {
			it.allowance = nil
		}
		it.ask.Mode = ModeOf(it.limit.OnDisconnect)
		if it.window.IsZero() {
			it.ask.Standing = s.Standing(it.ask.Key, it.limit, now)
		} else {
			it.ask.Standing = s.StandingIn(it.window, it.ask.Key, it.limit, now, p.wall)
		}
	}
}

// ModeOf returns what the store is asked to do while the region is disconnected,
// for a limit's on_disconnect.
func ModeOf(o rules.OnDisconnect) bucket.Mode {
	switch o {
	case rules.OnDisconnectHold:
		return bucket.ModeHold
	case rules.OnDisconnectDeny:
		return bucket.ModeDeny
	case rules.OnDisconnectAllow:
		return bucket.ModeAllow
	}
	return bucket.ModeStanding
}

// over reports whether the request is denied by what is known so far: a rule
// that is no quota rule is over, or there are quota rules and all are over.
// Source: envoyproxy/ratelimit, quota_mode.
func (p *plan) over() bool {
	quotas, quotasOver := 0, 0
	for i := range p.counts {
		c := &p.counts[i]
		switch {
		case c.rule.Shadow:
		case c.quota:
			quotas++
			if c.over {
				quotasOver++
			}
		case c.over:
			return true
		}
	}
	return quotas > 0 && quotas == quotasOver && !p.unlimitedQuota
}

// gather makes the asks of the counts of one class that are still to be
// answered. It reports whether there are any.
func (p *plan) gather(shadow bool) bool {
	p.asks, p.index = p.asks[:0], p.index[:0]
	for i := range p.counts {
		c := &p.counts[i]
		if c.rule.Shadow != shadow || c.over || c.charged {
			continue
		}
		for j := c.first; j < c.first+c.n; j++ {
			p.asks = append(p.asks, p.items[j].ask)
			p.index = append(p.index, j)
		}
	}
	return len(p.asks) > 0
}

// record stores the answer to the asks.
func (p *plan) record(res TakeResult, connected bool) {
	for a, j := range p.index {
		it := &p.items[j]
		it.asked, it.v, it.connected = true, res.Verdicts[a], connected
		it.over = !it.v.Admitted
	}
	denied := p.judge(p.index, res.Admitted)
	if !res.Admitted && !denied {
		// A store that denies must say which bucket did. It did not: deny all.
		for _, j := range p.index {
			p.items[j].over = true
		}
		p.judge(p.index, false)
	}
}

// judge marks the counts of the items in index as charged or over, and reports
// whether any is over.
func (p *plan) judge(index []int, charged bool) (denied bool) {
	for i := range p.counts {
		c := &p.counts[i]
		if len(index) == 0 || c.first != index[0] {
			continue
		}
		for _, it := range p.items[c.first : c.first+c.n] {
			c.over = c.over || it.over
		}
		c.charged = charged
		denied = denied || c.over
		index = index[c.n:]
	}
	return denied
}

// reopen makes the plan ask again for what was denied by the store.
func (p *plan) reopen() {
	p.late = true
	for i := range p.counts {
		c := &p.counts[i]
		if c.early != "" || c.rule.Shadow {
			continue
		}
		c.over = false
		for j := c.first; j < c.first+c.n; j++ {
			p.items[j].over, p.items[j].late = false, 0
		}
	}
}

// observation is what the store said to an item.
func (it *item) observation(charged bool) demand.Observation {
	o := demand.Observation{
		Key: it.ask.Key, Admitted: charged,
		Level: it.v.Level, Burst: it.v.Capacity.Burst, Epoch: it.v.Epoch,
	}
	o.Cost, o.Owed = it.arrival()
	return o
}
