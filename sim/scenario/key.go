package scenario

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim"
)

// maxKeys bounds the keys of a plan: each has its own auditor.
const maxKeys = 1_000_000

// keys reads whom requests are for.
func (r *reader) keys(f field, set *rules.Set, p *sim.Plan) (groups []group) {
	items, ok := r.list(f)
	if ok && len(items) == 0 {
		r.wrong(f, "a list of at least one key")
	}
	taken := map[string]bool{}
	for _, item := range items {
		one := sim.Key{}
		if domains := set.Domains(); len(domains) == 1 {
			one.Domain = domains[0]
		}
		g := group{first: len(p.Keys), count: 1}
		there := r.mapping(item, keys{
			"domain":     func(f field) { one.Domain = r.text(f) },
			"name":       func(f field) { g.name = r.text(f) },
			"count":      func(f field) { g.count = int(r.whole(f, 1, maxKeys)) },
			"descriptor": func(f field) { one.Entries = r.entries(f) },
			"override": func(f field) {
				var err error
				if one.Override, err = rules.ParseOverride(r.text(f)); err != nil && f.value.Value != "" {
					r.problem(f.value, f.path, "%v", err)
				}
			},
		})
		switch {
		case there == nil:
			continue
		case one.Domain == "" && set != nil:
			r.problem(item.value, item.path, "`domain` of the key is missing; the rules have several")
		case len(one.Entries) == 0:
			r.problem(item.value, item.path, "`descriptor` of the key is missing, like {user: ann}")
			continue
		}
		if g.name == "" {
			g.name = keyName(one.Entries)
		}
		if taken[g.name] {
			r.problem(item.value, item.path, "there are two keys `%s`; give one of them another `name`", g.name)
		}
		taken[g.name] = true
		for i := range g.count {
			k := one
			if g.count > 1 {
				k.Entries = append([]rules.Entry(nil), one.Entries...)
				k.Entries[len(k.Entries)-1].Value += fmt.Sprintf("-%d", i+1)
			}
			switch {
			case i > 0 || set == nil || limitOf(set, k) != nil:
			case !k.Override.IsZero():
				r.problem(item.value, item.path, "the limit of %s of the domain %s cannot be overridden; say `allow_override: true` in the rules", keyName(k.Entries), k.Domain)
			default:
				r.problem(item.value, item.path, "no rule limits %s of the domain %s", keyName(k.Entries), k.Domain)
			}
			p.Keys = append(p.Keys, k)
		}
		groups = append(groups, g)
	}
	return groups
}

// limitOf returns the limit that a key is audited for, nil for none.
func limitOf(set *rules.Set, k sim.Key) *rules.Limit {
	if !k.Override.IsZero() {
		_, l, _ := set.Overridden(k.Domain, k.Entries, k.Override)
		return l
	}
	if rule := set.Match(k.Domain, k.Entries); rule != nil && len(rule.Limits) > 0 {
		return &rule.Limits[0]
	}
	return nil
}

func (r *reader) entries(f field) (entries []rules.Entry) {
	pairs, names, _ := r.pairs(f)
	for i, g := range pairs {
		entries = append(entries, rules.Entry{Key: names[i], Value: r.text(g)})
	}
	return entries
}

// keyName is what a key is called when it has no name.
func keyName(entries []rules.Entry) string {
	var parts []string
	for _, e := range entries {
		parts = append(parts, e.Key+"="+e.Value)
	}
	return strings.Join(parts, ",")
}
