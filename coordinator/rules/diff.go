package rules

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// ChangeKind says what happened to a rule.
type ChangeKind uint8

// The kinds of change.
const (
	Added ChangeKind = iota
	Removed
	Changed
)

// String returns the kind as a word.
func (k ChangeKind) String() string { return nameOf([]string{"added", "removed", "changed"}, int(k)) }

// Change is one difference between two sets that some request can notice.
type Change struct {
	RuleID string
	Kind   ChangeKind
	Detail string // what changed, for people
}

// Diff returns what a change of the rules from old to new means, sorted by rule.
// It compares rules, not documents: moving one to another place or file is no
// change, unless it changes which of two overlapping patterns is found first.
func Diff(old, new *Set) []Change {
	was, is := old.facts(), new.facts()
	var changes []Change
	for id, b := range is {
		if a, ok := was[id]; !ok {
			changes = append(changes, Change{id, Added, b.summary()})
		} else if detail := a.difference(b); detail != "" {
			changes = append(changes, Change{id, Changed, detail})
		}
	}
	for id, a := range was {
		if _, ok := is[id]; !ok {
			changes = append(changes, Change{id, Removed, a.summary()})
		}
	}
	changes = append(changes, reordered(old, new)...)
	slices.SortFunc(changes, func(a, b Change) int {
		if c := strings.Compare(a.RuleID, b.RuleID); c != 0 {
			return c
		}
		return strings.Compare(a.Detail, b.Detail)
	})
	return changes
}

// fact is one property of a rule with its value, in words; facts keeps them in
// the order in which they are printed.
type (
	fact  struct{ name, value string }
	facts []fact
)

// facts describes every rule, and every other descriptor that a request can
// notice: one without limits at the end of its path exempts what it matches,
// and so does a domain without descriptors.
func (s *Set) facts() map[string]facts {
	all := map[string]facts{}
	if s == nil {
		return all
	}
	for domain, root := range s.domains {
		root.walk(func(n *node) {
			switch {
			case n.rule != nil:
				all[n.rule.ID] = n.rule.facts()
			case n == root && len(n.children) == 0:
				all[escapeLabel(domain, "/")] = facts{{"", "a domain without rules"}}
			case len(n.children) == 0:
				all[n.id(domain)] = facts{{"", "no limit, so what it matches is not limited"}}
			}
		})
		if root.unmatched.NoOverride {
			all[root.unmatched.ID] = facts{{"", "the limits of requests that no rule matches are ignored"}}
		}
	}
	return all
}

func (n *node) walk(visit func(*node)) {
	visit(n)
	for _, c := range n.children {
		c.walk(visit)
	}
}

func (r *Rule) facts() facts {
	f := facts{
		{"name", r.Name}, {"replaces", strings.Join(slices.Sorted(slices.Values(r.Replaces)), ", ")},
		{"unlimited", yes(r.Unlimited)}, {"shadow_mode", yes(r.Shadow)}, {"quota_mode", yes(r.QuotaMode)},
		{"detailed_metric", yes(r.DetailedMetric)}, {"value_to_metric", r.valuedKeys()},
		{"denial_log_values", yes(r.DenialLogValues)},
	}
	if r.NoOverride {
		f = append(f, fact{"allow_override", "false"})
	}
	var shared, hashed []string
	for _, n := range r.node.path() {
		if n.share {
			shared = append(shared, n.value)
		}
		if n.hash {
			hashed = append(hashed, n.label())
		}
	}
	f = append(f, fact{"share_threshold", strings.Join(shared, ", ")}, fact{"hash_value", strings.Join(hashed, ", ")})
	if len(r.Metadata) > 0 {
		f = append(f, fact{"metadata", fmt.Sprint(r.Metadata)}) // fmt sorts maps
	}
	limits := slices.Clone(r.Limits)
	slices.SortFunc(limits, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	for _, l := range limits {
		f = append(f, l.facts()...)
	}
	return f
}

// valuedKeys lists the descriptors from the domain down to r that have
// value_to_metric: it also acts from above.
func (r *Rule) valuedKeys() string {
	var keys []string
	for _, step := range r.node.path() {
		if step.valued {
			keys = append(keys, step.key)
		}
	}
	return strings.Join(keys, ", ")
}

func yes(set bool) string {
	if set {
		return "true"
	}
	return ""
}

func (l Limit) facts() facts {
	prefix := ""
	if l.Name != "" {
		prefix = l.Name + ": "
	}
	debt := ""
	if l.MaxDebt > 0 {
		debt = l.MaxDebt.String()
	}
	f := facts{
		{"limit", l.String()}, {"burst", l.Burst.String()}, {"max_debt", debt}, {"settle", yes(l.Settle)},
		{"standing_share", strconv.FormatFloat(float64(l.Standing)/1e6, 'f', -1, 64)},
		{"algorithm", l.Algorithm.String()}, {"shape", yes(l.Shape)}, {"on_disconnect", l.OnDisconnect.String()},
		{"on_store_failure", l.OnStoreFailure.String()}, {"cold_start_wait", l.ColdStartWait.String()},
	}
	if l.Windowed() {
		f = append(f, fact{"align", l.Align.String()}, fact{"time_zone", l.TimeZone})
	}
	for _, region := range slices.Sorted(maps.Keys(l.Weights)) {
		f = append(f, fact{"weight of " + region, strconv.FormatInt(l.Weights[region], 10)})
	}
	for i := range f {
		f[i].name = prefix + f[i].name
	}
	return f
}

// String returns the rate as people say it: "100 per minute", "5 per 10 seconds".
func (l Limit) String() string {
	if l.Multiplier == 1 {
		return fmt.Sprintf("%d per %s", l.RequestsPerUnit, l.Unit)
	}
	return fmt.Sprintf("%d per %d %ss", l.RequestsPerUnit, l.Multiplier, l.Unit)
}

// summary is what a new or a removed rule says, without its defaults.
func (f facts) summary() string {
	var limits, rest []string
	for _, one := range f {
		switch name := one.name[strings.LastIndex(one.name, ": ")+1:]; {
		case one.name == "":
			return one.value
		case strings.TrimSpace(name) == "limit":
			limits = append(limits, strings.TrimSuffix(one.name, "limit")+one.value)
		case strings.TrimSpace(name) == "algorithm" && one.value != TokenBucket.String():
			rest = append(rest, one.name+" "+one.value)
		case one.value == "true":
			rest = append(rest, one.name)
		case one.name == "allow_override":
			rest = append(rest, one.name+" "+one.value)
		}
	}
	return strings.Join(append(limits, rest...), "; ")
}

// difference lists what differs, as "name old → new".
func (f facts) difference(g facts) string {
	if reflect.DeepEqual(f, g) {
		return ""
	}
	old := map[string]string{}
	for _, a := range f {
		old[a.name] = a.value
	}
	var out []string
	note := func(name, from, to string) {
		if from != to {
			out = append(out, strings.TrimSpace(name+" "+show(from)+" → "+show(to)))
		}
	}
	for _, b := range g {
		note(b.name, old[b.name], b.value)
		delete(old, b.name)
	}
	for _, a := range f {
		if from, gone := old[a.name]; gone {
			note(a.name, from, "")
		}
	}
	return strings.Join(out, "; ")
}

func show(value string) string {
	if value == "" {
		return "none"
	}
	return value
}

// reordered returns the patterns that are now found before or after another
// one that they overlap, where it was the other way round.
func reordered(old, new *Set) []Change {
	var changes []Change
	if old == nil || new == nil {
		return nil
	}
	var compare func(domain string, a, b *node)
	compare = func(domain string, a, b *node) {
		for key, patterns := range b.wild {
			changes = append(changes, swapped(domain, a.wild[key], patterns)...)
		}
		for e, child := range b.exact {
			if twin := a.exact[e]; twin != nil {
				compare(domain, twin, child)
			}
		}
	}
	for domain, root := range new.domains {
		if twin := old.domains[domain]; twin != nil {
			compare(domain, twin, root)
		}
	}
	return changes
}

func swapped(domain string, old, new []*node) []Change {
	places := map[string]int{}
	for i, n := range old {
		places[n.value] = i + 1
	}
	was := make([]int, len(new)) // place among the old ones, 0 for a new pattern
	for i, n := range new {
		was[i] = places[n.value]
	}
	var changes []Change
	for i, first := range new {
		for j := i + 1; j < len(new); j++ {
			if was[i] > was[j] && was[j] > 0 && overlap(first.value, new[j].value) {
				changes = append(changes, Change{first.id(domain), Changed, "is now found before " + new[j].id(domain)})
			}
		}
	}
	return changes
}
