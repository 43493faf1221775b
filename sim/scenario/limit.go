package scenario

import (
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim"
)

// What `limit` stands for: a rule document with one descriptor, and one key.
const (
	domain     = "sim"
	descriptor = "tenant"
	tenant     = "acme"
)

var (
	// rateKeys are the keys of `limit` that stand in a rate_limit, by their name
	// there. No edit may change them, the burst or the debt: the auditor has one limit.
	rateKeys = map[string]string{"rate": "requests_per_unit", "unit": "unit", "unit_multiplier": "unit_multiplier"}
	// quotaKeys are those that stand in its quota block.
	quotaKeys = []string{"burst", "max_debt", "standing_share", "weights", "on_disconnect", "on_store_failure", "cold_start_wait", "algorithm", "align", "time_zone"}
)

// limits reads the rules and the keys that are asked for, in either form.
func (r *reader) limits(f field, there map[string]field, p *sim.Plan) []group {
	limit, short := there["limit"]
	text, long := there["rules"]
	switch {
	case short && long:
		r.problem(text.key, text.path, "`limit` and `rules` say the same in two ways; leave one of them out")
		return nil
	case short:
		if k, ok := there["keys"]; ok {
			r.problem(k.key, k.path, "`keys` belong to `rules`; a `limit` has one key, %s=%s", descriptor, tenant)
		}
		r.short(limit, there["edits"], p)
		p.Keys = []sim.Key{{Domain: domain, Entries: []rules.Entry{{Key: descriptor, Value: tenant}}}}
		return []group{{name: descriptor + "=" + tenant, count: 1}}
	case long:
		set := r.document(text, &p.Rules)
		var groups []group
		if k, ok := there["keys"]; ok {
			groups = r.keys(k, set, p)
		} else {
			r.problem(text.key, text.path, "`rules` need `keys`: whom requests are for")
		}
		r.edits(there["edits"], set, p)
		return groups
	}
	r.problem(f.value, "", "`limit` is missing, or `rules` and `keys`")
	return nil
}

// document reads a rule document.
func (r *reader) document(f field, to *[]quota.Source) *rules.Set {
	text := r.text(f)
	if text == "" {
		return nil
	}
	set, err := rules.Parse([]quota.Source{{Text: text}})
	var found rules.Problems
	switch {
	case errors.As(err, &found):
		for _, one := range found {
			at := yaml.Node{Line: f.value.Line, Column: f.value.Column}
			if f.value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 && one.Line > 0 {
				// The text begins below its key, indented by nobody knows how much.
				at.Line, at.Column = at.Line+one.Line, 0
			}
			r.problem(&at, f.path, "in the rule document: %s", one.Message)
		}
		return nil
	case err != nil:
		r.problem(f.value, f.path, "in the rule document: %v", err)
		return nil
	}
	*to = []quota.Source{{Name: set.Domains()[0] + ".yaml", Text: text}}
	return set
}

// short makes rule documents of `limit` and of what edits change of it.
func (r *reader) short(f, edits field, p *sim.Plan) {
	limit := r.settings(f, p, true)
	if limit == nil {
		return
	}
	if source, ok := r.written(f, limit); ok {
		p.Rules = []quota.Source{source}
	}
	if edits.value == nil {
		return
	}
	items, _ := r.list(edits)
	for _, item := range items {
		edited := r.settings(item, p, false)
		if edited == nil {
			continue
		}
		for name, value := range limit {
			if _, ok := edited[name]; !ok {
				edited[name] = value
			}
		}
		if source, ok := r.written(item, edited); ok {
			p.Edited = append(p.Edited, []quota.Source{source})
		}
	}
}

// settings reads the keys of `limit`, or of an edit of it.
func (r *reader) settings(f field, p *sim.Plan, whole bool) map[string]field {
	known := keys{}
	fixed := func(f field) {
		if !whole {
			r.problem(f.key, f.path, "an edit cannot change rate, burst and max_debt, or how they are counted: the auditor knows one limit")
		}
	}
	for name := range rateKeys {
		known[name] = fixed
	}
	for _, name := range quotaKeys {
		known[name] = func(field) {}
	}
	for _, name := range []string{"burst", "max_debt", "algorithm", "align", "time_zone"} {
		known[name] = fixed
	}
	known["weights"] = func(f field) {
		_, of, _ := r.pairs(f)
		for _, name := range of {
			if !slices.Contains(names(p), name) {
				r.problem(f.value, f.path, "there is no region `%s`%s", name, near(name, names(p)))
			}
		}
	}
	there := r.mapping(f, known)
	if _, ok := there["rate"]; whole && there != nil && !ok {
		r.problem(f.value, f.path, "`rate` of the limit is missing")
		return nil
	}
	return there
}

// written makes the rule document of a limit. What is wrong with a value is said
// by package rules and told here at its place.
func (r *reader) written(f field, limit map[string]field) (quota.Source, bool) {
	scalar := func(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }
	mapping := func(pairs ...*yaml.Node) *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Content: pairs} }
	rate, extras := mapping(), mapping()
	places := map[string]field{}
	for _, name := range []string{"rate", "unit", "unit_multiplier"} {
		if g, ok := limit[name]; ok {
			rate.Content = append(rate.Content, scalar(rateKeys[name]), g.value)
			places[rateKeys[name]] = g
		} else if name == "unit" {
			rate.Content = append(rate.Content, scalar("unit"), scalar("second"))
		}
	}
	for _, name := range quotaKeys {
		if g, ok := limit[name]; ok {
			extras.Content = append(extras.Content, scalar(name), g.value)
			places[name] = g
		}
	}
	if len(extras.Content) > 0 {
		rate.Content = append(rate.Content, scalar("quota"), extras)
	}
	doc := mapping(scalar("domain"), scalar(domain), scalar("descriptors"), &yaml.Node{
		Kind: yaml.SequenceNode, Content: []*yaml.Node{mapping(scalar("key"), scalar(descriptor), scalar("rate_limit"), rate)},
	})
	text, err := yaml.Marshal(doc)
	if err != nil {
		r.problem(f.value, f.path, "%v", err)
		return quota.Source{}, false
	}
	source := quota.Source{Name: domain + ".yaml", Text: string(text)}
	_, err = rules.Parse([]quota.Source{source})
	var found rules.Problems
	if !errors.As(err, &found) {
		return source, true
	}
	for _, one := range found {
		at := f
		for _, step := range strings.Split(one.Key, ".") {
			if g, ok := places[step]; ok {
				at = g
			}
		}
		r.problem(at.value, at.path, "%s", strings.ReplaceAll(one.Message, "requests_per_unit", "rate"))
	}
	return quota.Source{}, false
}

// edits reads the documents that an edit puts in the place of the first. They
// limit every key as it does.
func (r *reader) edits(f field, set *rules.Set, p *sim.Plan) {
	if f.value == nil {
		return
	}
	items, _ := r.list(f)
	for _, item := range items {
		var sources []quota.Source
		edited := r.document(item, &sources)
		if edited == nil || set == nil {
			continue
		}
		p.Edited = append(p.Edited, sources)
		for _, k := range p.Keys {
			was, is := limitOf(set, k), limitOf(edited, k)
			if was == nil {
				continue // said where the key stands
			}
			if is == nil || is.Capacity != was.Capacity || is.MaxDebt != was.MaxDebt || is.Algorithm != was.Algorithm {
				r.problem(item.value, item.path, "an edit cannot change rate, burst and max_debt, or how they are counted, and this one does for %s", keyName(k.Entries))
				break
			}
		}
	}
}
