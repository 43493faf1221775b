package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/workload"
)

// Format writes a plan as a scenario. Parse reads from it a plan that runs the
// same, event by event, unless the plan has what no scenario can say: rules of
// several documents, timing or a planner of its own, or loads over a part of its
// keys.
func Format(p sim.Plan, seed uint64) string {
	b := &writer{}
	b.line("name: %s", quote(p.Name))
	b.line("seed: %d", seed)
	b.text("rules", p.Rules)
	b.line("keys:")
	for _, k := range p.Keys {
		var entries []string
		for _, e := range k.Entries {
			entries = append(entries, quote(e.Key)+": "+quote(e.Value))
		}
		override := ""
		if !k.Override.IsZero() {
			override = ", override: " + k.Override.String()
		}
		b.line("  - {domain: %s, descriptor: {%s}%s}", quote(k.Domain), strings.Join(entries, ", "), override)
	}
	b.line("regions:")
	for _, r := range p.Regions {
		b.line("  - {name: %s, weight: %d, agents: %d}", quote(r.Name), r.Weight, r.Agents)
	}
	b.faults(p)
	if p.Allowances {
		b.line("allowances: true")
	}
	b.line("settle: %v", p.Start.Duration())
	b.line("duration: %v", (p.Duration - p.Start).Duration())
	b.loads("load", p, p.Load)
	if len(p.Events) > 0 {
		b.line("events:")
	}
	for _, e := range p.Events {
		region := ""
		if e.Region != "" {
			region = ", region: " + quote(e.Region)
		}
		b.line("  - {at: %v, do: %s%s}", (e.At - p.Start).Duration(), e.Kind, region)
	}
	if p.Faults.Edits > 0 || slices.ContainsFunc(p.Events, func(e sim.Event) bool { return e.Kind == sim.Edit }) {
		b.edits(p.Edited)
	}
	if p.Heal > 0 {
		b.line("heal: %v", (p.Heal - p.Start).Duration())
		b.loads("final", p, p.Final)
	}
	return b.String()
}

type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

func (w *writer) indented(by string, sources []quota.Source) {
	for _, s := range sources {
		for line := range strings.Lines(s.Text) {
			w.WriteString(by + strings.TrimRight(line, "\n") + "\n")
		}
	}
}

func (w *writer) text(key string, sources []quota.Source) {
	w.line("%s: |", key)
	w.indented("  ", sources)
}

func (w *writer) edits(edited [][]quota.Source) {
	if len(edited) > 0 {
		w.line("edits:")
	}
	for _, sources := range edited {
		w.line("  - |")
		w.indented("    ", sources)
	}
}

// faults writes what is not zero, in the order of the grammar.
func (w *writer) faults(p sim.Plan) {
	f := p.Faults
	d, n := mean, number
	w.block("network", d("delay", f.Network.Delay), d("jitter", f.Network.Jitter), n("loss", f.Network.Loss), n("duplicate", f.Network.Duplicate),
		n("late", f.Network.Late), n("held", f.Network.Held))
	w.block("log", d("commit", f.Log.Commit), d("jitter", f.Log.CommitJitter), n("lost", f.Log.Lost), n("unknown", f.Log.Unknown))
	w.block("clocks", n("drift_ppm", float64(f.DriftPPM)))
	w.block("faults",
		d("elections", f.Elections), n("loyal", f.Loyal), d("partitions", f.Partitions), d("resets", f.Resets), d("outages", f.Outages), n("frozen", f.Frozen),
		n("lost_replies", f.LostReplies), d("kills", f.Kills), d("steps", f.Steps), d("edits", f.Edits), n("nonsense", f.Nonsense))
}

func (w *writer) block(key string, pairs ...string) {
	pairs = slices.DeleteFunc(pairs, func(p string) bool { return p == "" })
	if len(pairs) > 0 {
		w.line("%s: {%s}", key, strings.Join(pairs, ", "))
	}
}

func mean(key string, m quota.Micros) string {
	if m == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %v", key, m.Duration())
}

func number(key string, v float64) string {
	if v == 0 {
		return ""
	}
	return key + ": " + exact(v)
}

// exact is a number that is read as the very same.
func exact(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// loads writes a load a line, and one line for all where every key of every region
// has the same.
func (w *writer) loads(key string, p sim.Plan, loads []sim.Load) {
	if len(loads) == 0 {
		w.line("%s: []", key)
		return
	}
	w.line("%s:", key)
	if everywhere(p, loads) {
		w.line("  - {%s}", demand(loads[0]))
		return
	}
	for _, l := range loads {
		w.line("  - {region: %s, key: %s, %s}", quote(l.Region), quote(keyName(p.Keys[l.Key].Entries)), demand(l))
	}
}

// everywhere reports whether the loads are what one item without region and key
// stands for.
func everywhere(p sim.Plan, loads []sim.Load) bool {
	if len(loads) != len(p.Regions)*len(p.Keys) {
		return false
	}
	for i, l := range loads {
		if l.Region != p.Regions[i/len(p.Keys)].Name || l.Key != i%len(p.Keys) || demand(l) != demand(loads[0]) {
			return false
		}
	}
	return true
}

func demand(l sim.Load) string {
	cost := ""
	switch least := max(l.Cost, 1); {
	case l.MostCost > least:
		cost = fmt.Sprintf(", cost: [%d, %d]", least, l.MostCost)
	case least > 1:
		cost = fmt.Sprintf(", cost: %d", least)
	}
	if l.Afterwards != "" {
		cost += fmt.Sprintf(", afterwards: %s", l.Afterwards)
	}
	return curve(l.Curve) + cost
}

func curve(c workload.Curve) string {
	switch {
	case len(c.Points) == 0:
		return "steady: 0"
	case len(c.Points) == 1:
		return "steady: " + exact(c.Points[0].PerSecond)
	}
	var points []string
	for _, p := range c.Points {
		points = append(points, fmt.Sprintf("[%v, %s]", p.At, exact(p.PerSecond)))
	}
	every := ""
	if c.Period > 0 {
		every = fmt.Sprintf(", every: %v", c.Period)
	}
	return "points: [" + strings.Join(points, ", ") + "]" + every
}

// quote writes text that YAML could take for something else in quotes.
func quote(text string) string {
	for _, r := range text {
		if r != '-' && r != '_' && (r < 'a' || r > 'z') {
			return strconv.Quote(text)
		}
	}
	if slices.Contains([]string{"", "true", "false", "null", "yes", "no", "on", "off", "y", "n"}, text) || text[0] == '-' {
		return strconv.Quote(text)
	}
	return text
}
