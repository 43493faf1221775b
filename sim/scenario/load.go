package scenario

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/workload"
)

// group is what one item of keys stands for: count keys of the plan from first on.
type group struct {
	name         string
	first, count int
}

func (r *reader) loads(f field, p *sim.Plan, groups []group) (all []sim.Load) {
	items, _ := r.list(f)
	for _, item := range items {
		all = append(all, r.load(item, p, groups)...)
	}
	return all
}

// goOn is the load that asks for what is asked for when everything heals.
func goOn(p *sim.Plan) (final []sim.Load) {
	for _, l := range p.Load {
		l.Curve = workload.Steady(l.Curve.At((p.Heal - p.Start).Duration()))
		final = append(final, l)
	}
	return final
}

// demands are the ways to say how many requests there are.
var demands = []string{"steady", "step", "flash", "follow_the_sun", "points"}

// load reads one item: a load for each of its regions and keys.
func (r *reader) load(f field, p *sim.Plan, groups []group) (all []sim.Load) {
	regions, asked := names(p), groups
	one := sim.Load{Cost: 1}
	var curve func(regions int) []workload.Curve // one for all, or one for each
	there := r.mapping(f, keys{
		"region": func(f field) { regions = r.some(f, names(p)) },
		"key": func(f field) {
			var known []string
			for _, g := range groups {
				known = append(known, g.name)
			}
			chosen := r.some(f, known)
			asked = slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return !slices.Contains(chosen, g.name) })
		},
		"cost": func(f field) { one.Cost, one.MostCost = r.cost(f) },
		"afterwards": func(f field) {
			one.Afterwards = sim.Afterwards(r.word(f, []string{string(sim.Refund), string(sim.Settle)}))
		},
		"steady":         func(f field) { curve = r.steady(f) },
		"step":           func(f field) { curve = r.step(f) },
		"flash":          func(f field) { curve = r.flash(f) },
		"follow_the_sun": func(f field) { curve = r.sun(f) },
		"points":         func(f field) { curve = r.points(f) },
		"every":          func(field) {},
	})
	said := 0
	for _, name := range demands {
		if _, ok := there[name]; ok {
			said++
		}
	}
	if there != nil && said != 1 {
		r.problem(f.value, f.path, "a load needs exactly one of steady, step, flash, follow_the_sun and points; here are %d", said)
	}
	if curve == nil {
		return nil
	}
	curves := curve(len(regions))
	if every, ok := there["every"]; ok {
		r.every(every, there, curves)
	}
	for i, region := range regions {
		for _, g := range asked {
			l := one
			l.Region, l.Key, l.Curve = region, g.first, curves[i%len(curves)]
			if g.count > 1 {
				l.Keys = g.count
			}
			all = append(all, l)
		}
	}
	return all
}

// some reads one of several words, or a list of them.
func (r *reader) some(f field, known []string) (chosen []string) {
	if f.value.Kind != yaml.SequenceNode {
		return []string{r.word(f, known)}
	}
	items, _ := r.list(f)
	for _, item := range items {
		chosen = append(chosen, r.word(item, known))
	}
	return chosen
}

func (r *reader) cost(f field) (least, most uint32) {
	const limit = 1 << 30
	if f.value.Kind != yaml.SequenceNode {
		return uint32(r.whole(f, 1, limit)), 0
	}
	items, _ := r.list(f)
	if len(items) != 2 {
		r.wrong(f, "one number, or [least, most]")
		return 1, 0
	}
	least = uint32(r.whole(items[0], 1, limit))
	return least, uint32(r.whole(items[1], int64(least), limit))
}

// every makes curves repeat.
func (r *reader) every(f field, there map[string]field, curves []workload.Curve) {
	period := r.duration(f)
	_, flash := there["flash"]
	_, points := there["points"]
	if !flash && !points {
		r.problem(f.key, f.path, "`every` repeats flash and points only")
		return
	}
	for i := range curves {
		curves[i].Period = period.Duration()
		if err := curves[i].Validate(); err != nil {
			r.problem(f.value, f.path, "%v", err)
		}
	}
}

// parts reads a mapping in which every key must be.
func (r *reader) parts(f field, known keys) bool {
	there := r.mapping(f, known)
	if there == nil {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, ok := there[name]; !ok {
			r.problem(f.value, f.path, "%s needs `%s`", f.what(), name)
		}
	}
	return true
}

func same(c workload.Curve) func(int) []workload.Curve {
	return func(int) []workload.Curve { return []workload.Curve{c} }
}

func (r *reader) steady(f field) func(int) []workload.Curve {
	return same(workload.Steady(r.demand(f)))
}

func (r *reader) rate(to *float64) func(field) { return func(f field) { *to = r.demand(f) } }

func (r *reader) step(f field) func(int) []workload.Curve {
	var from, to float64
	var at quota.Micros
	r.parts(f, keys{"from": r.rate(&from), "to": r.rate(&to), "at": r.micros(&at)})
	return same(workload.Step(from, to, at.Duration()))
}

func (r *reader) flash(f field) func(int) []workload.Curve {
	var base, peak float64
	var at, length quota.Micros
	r.parts(f, keys{"base": r.rate(&base), "peak": r.rate(&peak), "at": r.micros(&at), "for": r.micros(&length)})
	return same(workload.Flash(base, peak, at.Duration(), length.Duration()))
}

func (r *reader) sun(f field) func(int) []workload.Curve {
	var night, noon float64
	var day quota.Micros
	there := r.parts(f, keys{"night": r.rate(&night), "noon": r.rate(&noon), "day": r.micros(&day)})
	if there && day == 0 {
		r.problem(f.value, f.path, "`day` must be longer than nothing")
		day = 1
	}
	return func(regions int) []workload.Curve { return workload.FollowTheSun(regions, night, noon, day.Duration()) }
}

func (r *reader) points(f field) func(int) []workload.Curve {
	var c workload.Curve
	items, ok := r.list(f)
	if ok && len(items) == 0 {
		r.wrong(f, "a list of at least one [time, demand]")
	}
	for _, item := range items {
		if item.value.Kind != yaml.SequenceNode || len(item.value.Content) != 2 {
			r.wrong(item, "[time, demand] like [5s, 50]")
			continue
		}
		pair, _ := r.list(item)
		c.Points = append(c.Points, workload.Point{At: r.duration(pair[0]).Duration(), PerSecond: r.demand(pair[1])})
	}
	if err := c.Validate(); err != nil {
		r.problem(f.value, f.path, "%v", err)
	}
	return same(c)
}
