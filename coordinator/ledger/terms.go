package ledger

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// terms are what the configuration says of a key: its limit, and per region the
// largest standing share that the region may be using. Accounts of one rule
// share them, so an account costs no memory per region it does not use.
type terms struct {
	rule     string
	name     string // of the limit, where the rule has several
	limit    quota.Limit
	orphaned bool
	windowed bool    // the limit counts in fixed windows
	override bool    // the limit is a request's
	shares   []share // sorted by region, only those that are not zero
	sum      quota.Capacity
}

type share struct {
	region string
	quota.Capacity
}

func (t *terms) share(region string) growth {
	for _, s := range t.shares {
		if s.region == region {
			return growth(s.Capacity)
		}
	}
	return growth{Rate: quota.Rate{Per: t.limit.Rate.Per}}
}

// termer computes terms under the present configuration and shares equal ones.
// It is void once the configurations in use change.
type termer struct {
	l    *Ledger
	seen map[string]*terms
	// overrides are those of requests' limits. There may be any number of them, and
	// only the last maxOverrides are shared: what is forgotten costs memory, no more.
	overrides map[string]*terms
}

const maxOverrides = 1024

func newTermer(l *Ledger) *termer {
	return &termer{l: l, seen: map[string]*terms{}, overrides: map[string]*terms{}}
}

// of returns the terms of a key. They are orphaned, with a zero limit, when no
// rule in force counts it.
func (t *termer) of(k quota.Key) *terms {
	next := &terms{orphaned: true}
	if rule, limit := t.l.current().Rules().LimitOf(k); limit != nil {
		next = &terms{rule: rule.ID, name: limit.Name, limit: limit.Limit, windowed: limit.Windowed(), override: overrides(k)}
	}
	return t.finish(k, next)
}

// orphan returns the terms of an account that no rule counts any more: its last
// limit, so that the bucket goes on if the rule comes back.
func (t *termer) orphan(a *Account) *terms {
	return t.finish(a.Key, &terms{orphaned: true, limit: a.terms.limit, override: overrides(a.Key)})
}

// overrides reports whether a key is one of a request's limit.
func overrides(k quota.Key) bool { return !rules.OverrideOf(k).IsZero() }

// finish adds the shares: per region the larger of what it owns under the
// configuration it confirmed and under the one offered to it. A share that will
// start full counts from the moment its rule is in force, or others would have
// spent its tokens before the region hears of it.
func (t *termer) finish(k quota.Key, next *terms) *terms {
	next.sum.Rate.Per = next.limit.Rate.Per
	for _, r := range t.l.regions {
		c := t.share(r.Confirmed, r.Name, k, next.limit.Rate.Per)
		if r.Offered != r.Confirmed {
			c = c.Max(t.share(r.Offered, r.Name, k, next.limit.Rate.Per))
		}
		if t.startsFull(r, k) {
			c = c.Max(t.share(t.l.current().Version, r.Name, k, next.limit.Rate.Per))
		}
		if !c.IsZero() {
			next.shares = append(next.shares, share{r.Name, c})
			next.sum = next.sum.Add(c)
		}
	}
	seen := t.seen
	if next.override {
		if seen = t.overrides; len(seen) >= maxOverrides {
			clear(seen)
		}
	}
	id := next.id()
	if old := seen[id]; old != nil {
		return old
	}
	seen[id] = next
	return next
}

// startsFull reports whether the region will own a full share of k once it adopts
// the configuration in force: its first one, or the very next one where no rule
// has counted k before. A region that skips versions begins empty.
func (t *termer) startsFull(r *Region, k quota.Key) bool {
	if r.Offered == 0 {
		return !r.Late
	}
	if t.l.current().Version != r.Offered+1 {
		return false
	}
	_, limit := t.l.Config(r.Offered).Rules().LimitOf(k)
	return limit == nil
}

// share returns what region owns of k under one configuration, its rate counted
// in the period per where that is known.
func (t *termer) share(version uint64, region string, k quota.Key, per quota.Micros) quota.Capacity {
	none := quota.Capacity{Rate: quota.Rate{Per: per}}
	if version == 0 {
		return none
	}
	cfg := t.l.Config(version)
	_, limit := cfg.Rules().LimitOf(k)
	if limit == nil {
		return none
	}
	c := limit.StandingShare(region, cfg.Shares)
	if per > 0 {
		c = c.In(per)
	}
	return c
}

// id identifies terms by content.
func (t *terms) id() string {
	var e encoder
	e.text(t.rule)
	e.text(t.name)
	e.bool(t.orphaned)
	e.bool(t.windowed)
	e.capacity(t.limit.Capacity)
	e.int(t.limit.Standing)
	e.int(int64(t.limit.Window))
	for _, r := range slices.Sorted(maps.Keys(t.limit.Weights)) {
		e.text(r)
		e.int(t.limit.Weights[r])
	}
	for _, s := range t.shares {
		e.text(s.region)
		e.capacity(s.Capacity)
	}
	return string(e.buf)
}

// mark remembers that the standing shares of a rule's limit have shrunk: tokens
// that a share has spent must not come back as a full pool (I7).
type mark struct {
	limit string       // terms.limitID
	base  quota.Tokens // what the pool of an unseen key had before for certain
	at    quota.Micros // ledger time of the change
	until quota.Micros // ledger time when such a pool is full again
}

// limitID names what a mark is of: a limit as it counts. Where an edit makes it count
// in another way its keys are other ones, and a mark of one says nothing of the other.
func (t *terms) limitID() string {
	id, seconds := t.rule+"#"+t.name, strconv.FormatInt(int64(t.limit.Rate.Per/quota.Second), 10)
	switch {
	case t.limit.Window > 0:
		return id + "#sliding+" + seconds
	case t.windowed:
		return id + "#fixed+" + seconds
	case t.override:
		return id + "#override" // has no share that could shrink, so no mark
	}
	return id
}

// pool is the capacity that an account without holdings leaves to the pool.
func (t *terms) pool() quota.Capacity {
	p := t.limit.Capacity.Sub(t.sum)
	p.Burst, p.Rate.Tokens = max(p.Burst, 0), max(p.Rate.Tokens, 0)
	return p
}

// shrink runs f, which lets regions use less, and marks every limit whose
// standing shares became smaller by it.
func (l *Ledger) shrink(f func()) {
	was := l.samples()
	f()
	l.marks = slices.DeleteFunc(l.marks, func(m mark) bool { return m.until <= l.clock })
	for k, now := range l.samples() {
		if before := was[k]; now.sum.Burst < before.sum.Burst {
			l.setMark(now, before.pool().Burst)
		}
	}
	l.reterm()
}

// samples returns the terms of every limit in force.
func (l *Ledger) samples() map[quota.Key]*terms {
	t, of := newTermer(l), map[quota.Key]*terms{}
	for _, rule := range l.current().Rules().Rules() {
		for i := range rule.Limits {
			k := rule.Sample(i)
			of[k] = t.of(k)
		}
	}
	return of
}

// setMark records a shrink. A mark that has not filled up yet is not improved by it.
func (l *Ledger) setMark(t *terms, base quota.Tokens) {
	pool := t.pool()
	i, ok := l.findMark(t.limitID())
	if ok {
		base = min(base, l.marks[i].level(pool, l.clock))
	} else {
		l.marks = slices.Insert(l.marks, i, mark{limit: t.limitID()})
	}
	m := &l.marks[i]
	m.base, m.at, m.until = base, l.clock, quota.Micros(quota.MaxTokens)
	switch wait, ok := pool.TimeTo(base, pool.Burst); {
	case t.limit.Window > 0:
		m.until = l.clock + keeps(t.limit.Window)
	case t.windowed:
		m.until = l.clock + beginsAfter(t.limit.Rate.Per)
	case ok:
		m.until = l.clock + wait
	}
}

func (l *Ledger) findMark(limit string) (int, bool) {
	return slices.BinarySearchFunc(l.marks, limit, func(m mark, id string) int { return strings.Compare(m.limit, id) })
}

// level is the least that the pool of an unseen key of the marked limit holds before
// until: windows refill nothing, and have all of it again at once then.
func (m mark) level(pool quota.Capacity, clock quota.Micros) quota.Tokens {
	level, _ := pool.Refill(m.base, clock-m.at)
	return level
}

// Opening returns the account that a key without one would get now, nil when no
// rule counts it. Read only, and the ledger does not know it.
func (l *Ledger) Opening(k quota.Key) *Account { return l.open(k, newTermer(l)) }

// open returns a new account for a key, nil when no rule counts it. Its pool is
// full, unless shares of its rule have shrunk lately (I7).
func (l *Ledger) open(k quota.Key, terms *termer) *Account {
	t := terms.of(k)
	if t.orphaned {
		return nil
	}
	pool := t.pool()
	a := &Account{Key: k, terms: t, at: l.clock, level: pool.Burst, window: windowOf(k)}
	if i, ok := l.findMark(t.limitID()); ok && l.clock < l.marks[i].until {
		a.level = min(a.level, l.marks[i].level(pool, l.clock))
		if missing := pool.Burst - a.level; missing > 0 && t.limit.Window > 0 {
			a.returns = []Return{{l.marks[i].until, missing}}
		}
	}
	return a
}
