package scenario

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
)

const (
	// maxDriftPPM keeps any two clocks within the 1 % that the Bound needs.
	maxDriftPPM = 4_950
	maxAgents   = 100
)

func (r *reader) regions(f field, p *sim.Plan) {
	items, ok := r.list(f)
	if ok && len(items) == 0 {
		r.wrong(f, "a list of at least one region")
	}
	for _, item := range items {
		one := sim.Region{Weight: 1, Agents: 1}
		if item.value.Kind == yaml.ScalarNode {
			one.Name = r.text(item)
		} else {
			there := r.mapping(item, keys{
				"name":   func(f field) { one.Name = r.text(f) },
				"weight": func(f field) { one.Weight = r.whole(f, 0, quota.MaxWeight) },
				"agents": func(f field) { one.Agents = int(r.whole(f, 1, maxAgents)) },
			})
			if _, ok := there["name"]; !ok && there != nil {
				r.problem(item.value, item.path, "`name` of the region is missing")
			}
		}
		if one.Name != "" && slices.Contains(names(p), one.Name) {
			r.problem(item.value, item.path, "there are two regions `%s`", one.Name)
			continue
		}
		p.Regions = append(p.Regions, one)
	}
}

func names(p *sim.Plan) (all []string) {
	for _, r := range p.Regions {
		all = append(all, r.Name)
	}
	return all
}

// region reads the name of a region that there is.
func (r *reader) region(f field, p *sim.Plan) string { return r.word(f, names(p)) }

func (r *reader) faults(f field, p *sim.Plan) {
	all := &p.Faults
	there := r.mapping(f, keys{
		"elections": r.micros(&all.Elections), "loyal": r.part(&all.Loyal), "partitions": r.micros(&all.Partitions), "resets": r.micros(&all.Resets),
		"outages": r.micros(&all.Outages), "frozen": r.part(&all.Frozen), "lost_replies": r.part(&all.LostReplies),
		"kills": r.micros(&all.Kills), "steps": r.micros(&all.Steps), "edits": r.micros(&all.Edits), "nonsense": r.part(&all.Nonsense),
	})
	if frozen, ok := there["frozen"]; ok && all.Outages == 0 && all.Frozen > 0 {
		r.problem(frozen.key, frozen.path, "`frozen` is the part of `outages` in which the clock stands, and there are none")
	}
}

// kinds are the events, and whether they happen to a region.
var kinds = map[sim.Kind]bool{
	sim.Elect: false, sim.Edit: false,
	sim.Cut: true, sim.Mend: true, sim.Reset: true, sim.Outage: true, sim.Back: true, sim.Kill: true,
}

func (r *reader) events(f field, p *sim.Plan) {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		words = append(words, string(k))
	}
	items, _ := r.list(f)
	for _, item := range items {
		var e sim.Event
		there := r.mapping(item, keys{
			"at":     func(f field) { e.At = p.Start + r.duration(f) },
			"do":     func(f field) { e.Kind = sim.Kind(r.word(f, words)) },
			"region": func(f field) { e.Region = r.region(f, p) },
		})
		if there == nil {
			continue
		}
		at, timed := there["at"]
		end := p.Duration
		if p.Heal > 0 {
			end = p.Heal
		}
		region, placed := there["region"]
		switch _, named := there["do"]; {
		case !timed:
			r.problem(item.value, item.path, "`at` of the event is missing")
		case e.At >= end:
			r.problem(at.value, at.path, "the event is at %s, and nothing happens after %v", at.value.Value, (end - p.Start).Duration())
		case !named:
			r.problem(item.value, item.path, "`do` of the event is missing")
		case e.Kind != "" && kinds[e.Kind] && !placed:
			r.problem(item.value, item.path, "`region` is missing: where to %s", e.Kind)
		case e.Kind != "" && !kinds[e.Kind] && placed:
			r.problem(region.key, region.path, "`%s` happens to no region", e.Kind)
		}
		p.Events = append(p.Events, e)
	}
}
