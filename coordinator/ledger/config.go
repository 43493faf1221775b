package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// Config is one version of what regions adopt: rules and share table together.
type Config struct {
	Version      uint64
	RulesVersion uint64
	Sources      []quota.Source
	Shares       quota.Shares // sorted by region
	rules        *rules.Set
}

// Rules returns the parsed rule documents; it is never nil.
func (c *Config) Rules() *rules.Set {
	if c.rules == nil {
		return &rules.Set{}
	}
	return c.rules
}

// Current returns the configuration in force.
func (l *Ledger) Current() *Config { return l.current() }

// Config returns a configuration that some region may still be using, nil when
// it is neither in force nor in use.
func (l *Ledger) Config(version uint64) *Config {
	for _, c := range l.configs {
		if c.Version == version {
			return c
		}
	}
	return nil
}

func (l *Ledger) current() *Config { return l.configs[len(l.configs)-1] }

// reconfigure puts a new version in force. Nobody uses it yet: what regions may
// be using changes with Offer and Adopted only.
func (l *Ledger) reconfigure(set *rules.Set, sources []quota.Source, shares quota.Shares) {
	prev := l.current()
	next := &Config{
		Version: prev.Version + 1, RulesVersion: prev.RulesVersion,
		Sources: sources, Shares: shares, rules: set,
	}
	if set != prev.rules {
		next.RulesVersion++
	}
	if prev.RulesVersion > 0 {
		// Under the rules until now tokens may have been spent that a region which
		// adopts nothing but the new ones would start with.
		for _, r := range l.regions {
			if r.Offered == 0 {
				r.Late, r.First = true, ""
			}
		}
	}
	l.configs = append(l.configs, next)
	l.collect()
	l.reterm()
}

// collect forgets configurations that nobody can be using.
func (l *Ledger) collect() {
	last := l.current().Version
	l.configs = slices.DeleteFunc(l.configs, func(c *Config) bool {
		return c.Version != last && !slices.ContainsFunc(l.regions, func(r *Region) bool {
			return r.Confirmed == c.Version || r.Offered == c.Version
		})
	})
}

func (l *Ledger) setRules(op SetRules) error {
	cur := l.current()
	if op.IfVersion != nil && *op.IfVersion != cur.RulesVersion {
		return fmt.Errorf("%w: rules are at version %d, the edit was made from %d", ErrVersion, cur.RulesVersion, *op.IfVersion)
	}
	if slices.Equal(op.Sources, cur.Sources) {
		return nil
	}
	set, err := rules.Accepted(op.Sources)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRules, err)
	}
	l.reconfigure(set, slices.Clone(op.Sources), cur.Shares)
	return nil
}

func (l *Ledger) addRegion(op AddRegion) error {
	if op.Region == "" || op.Weight < 0 || op.Weight > quota.MaxWeight {
		return ErrInvalid
	}
	cur := l.current()
	if i := slices.IndexFunc(cur.Shares, func(s quota.Share) bool { return s.Region == op.Region }); i >= 0 && cur.Shares[i].Weight == op.Weight {
		return nil
	}
	l.register(op.Region, cur.RulesVersion > 0)
	l.reweigh(op.Region, op.Weight)
	return nil
}

// register adds a region that has adopted nothing.
func (l *Ledger) register(name string, late bool) {
	if i, ok := l.findRegion(name); !ok {
		l.regions = slices.Insert(l.regions, i, &Region{Name: name, Late: late})
	}
}

// reweigh changes one weight in the share table; a negative weight takes the
// region out.
func (l *Ledger) reweigh(region string, weight int64) {
	cur := l.current()
	shares := slices.DeleteFunc(slices.Clone(cur.Shares), func(s quota.Share) bool { return s.Region == region })
	if weight >= 0 {
		shares = append(shares, quota.Share{Region: region, Weight: weight})
	}
	l.reconfigure(cur.rules, cur.Sources, sortedShares(shares))
}

func (l *Ledger) drainRegion(op DrainRegion) error {
	if l.Region(op.Region) == nil {
		return ErrUnknownRegion
	}
	if w := weightOf(l.current().Shares, op.Region); w == 0 {
		return nil
	}
	l.reweigh(op.Region, 0)
	return nil
}

func (l *Ledger) removeRegion(op RemoveRegion) error {
	i, ok := l.findRegion(op.Region)
	if !ok {
		return nil
	}
	r := l.regions[i]
	if !op.Force {
		if r.Session != nil || weightOf(l.current().Shares, r.Name) > 0 {
			return ErrNotDrained
		}
		for _, v := range []uint64{r.Confirmed, r.Offered} {
			if c := l.Config(v); c != nil && weightOf(c.Shares, r.Name) > 0 {
				return ErrNotDrained
			}
		}
	}
	if r.Session != nil {
		l.end(r)
	}
	l.shrink(func() { r.Confirmed, r.Offered, r.Late = 0, 0, true })
	l.regions = slices.Delete(l.regions, i, i+1)
	l.reweigh(r.Name, -1)
	return nil
}

// offer lets a region adopt the newest configuration, if what it may then use
// fits beside what all others may be using (I1, I4).
func (l *Ledger) offer(op Offer) error {
	r := l.Region(op.Region)
	switch {
	case r == nil:
		return ErrUnknownRegion
	case r.Session == nil:
		return ErrSession
	case op.Version != l.current().Version:
		return ErrVersion
	case r.Offered == op.Version:
		return nil
	case r.Offered != r.Confirmed:
		return ErrInFlight
	}
	if err := l.fits(r, op.Version); err != nil {
		return err
	}
	r.Offered = op.Version
	l.reterm()
	return nil
}

// fits checks that a region may start to use a configuration: every standing
// share that grows has room, in the pools of the accounts and in the limits of
// keys nobody has seen yet.
func (l *Ledger) fits(r *Region, version uint64) error {
	before := l.samples()
	was := r.Offered
	defer func() { r.Offered = was }()
	r.Offered = version
	offered := newTermer(l)
	for _, rule := range l.current().Rules().Rules() {
		for i := range rule.Limits {
			key := rule.Sample(i)
			next := offered.of(key)
			if !next.share(r.Name).fitsIn(before[key].share(r.Name), next.limit.Capacity.Sub(next.sum)) {
				return fmt.Errorf("%w: standing share of rule %s", ErrNoRoom, rule.ID)
			}
		}
	}
	for _, a := range l.accounts {
		probe := *a
		probe.terms = offered.of(a.Key)
		if probe.terms.orphaned {
			continue
		}
		if !growth(probe.Reserved(r.Name)).fitsIn(growth(a.Reserved(r.Name)), probe.Pool()) {
			return ErrNoRoom
		}
	}
	return nil
}

// growth is what a region would be counted with.
type growth quota.Capacity

// fitsIn reports whether growing from was leaves pool not negative in each
// dimension that grows.
func (g growth) fitsIn(was growth, pool quota.Capacity) bool {
	return (g.Burst <= was.Burst || pool.Burst >= 0) &&
		(g.Rate.Tokens <= was.Rate.In(g.Rate.Per).Tokens || pool.Rate.Tokens >= 0)
}

func (l *Ledger) adopted(op Adopted) error {
	r := l.Region(op.Region)
	switch {
	case r == nil:
		return ErrUnknownRegion
	case r.Confirmed == op.Version:
		return nil
	case r.Offered != op.Version:
		return ErrNotInFlight
	}
	l.shrink(func() { r.Confirmed = op.Version })
	l.collect()
	return nil
}

// reterm recomputes the terms of every account after what regions may be using
// or the rules in force have changed.
func (l *Ledger) reterm() {
	l.terms = newTermer(l)
	t := l.terms
	for _, a := range l.accounts {
		next := t.of(a.Key)
		if next.orphaned {
			next = t.orphan(a)
		}
		l.change(a, func() { a.adopt(next) })
	}
}

// adopt puts the account under new terms: what is held keeps its value in the
// period of the new limit. The pool takes the difference, without tokens.
func (a *Account) adopt(next *terms) {
	per := next.limit.Rate.Per
	if per != a.terms.limit.Rate.Per {
		for i := range a.held {
			h := &a.held[i]
			h.Lease = h.Lease.In(per)
			if h.Flight != nil {
				f := *h.Flight
				f.Lease = f.Lease.In(per)
				h.Flight = &f
			}
		}
		for i := range a.loans {
			n := &a.loans[i]
			n.Capacity = n.Capacity.In(per)
		}
	}
	a.terms = next
}

func sortedShares(s quota.Shares) quota.Shares {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b quota.Share) int { return cmp.Compare(a.Region, b.Region) })
	return s
}

func weightOf(s quota.Shares, region string) int64 {
	for _, e := range s {
		if e.Region == region {
			return e.Weight
		}
	}
	return 0
}
