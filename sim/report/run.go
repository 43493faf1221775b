package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
)

// Run is one run with what it was asked to do.
type Run struct {
	About  string // what it shows, empty for a drawn plan
	Plan   sim.Plan
	Result sim.Report
}

// Write prints the run.
func (r Run) Write(out io.Writer) error {
	p := &page{about: r.About, plan: r.Plan, result: r.Result}
	p.head()
	p.charts()
	p.leases()
	p.totals()
	_, err := io.WriteString(out, p.String())
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// page is a report on its way to become text.
type page struct {
	strings.Builder
	about  string
	plan   sim.Plan
	result sim.Report
	more   []Mark // on the time axis, beside the plan's events
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// item prints a name and what there is to say about it, on as many lines as it needs.
func (p *page) item(name string, parts ...string) {
	const width = 80 - 14 - 1 // a comma may follow
	line := ""
	for _, part := range parts {
		if line != "" && len(line)+2+len(part) > width {
			p.line("%-13s %s,", name, line)
			name, line = "", ""
		}
		if line != "" {
			line += ", "
		}
		line += part
	}
	p.line("%-13s %s", name, line)
}

// head prints what was asked for. A drawn plan is printed as a scenario by others.
func (p *page) head() {
	p.line("%s", p.plan.Name)
	if p.about != "" {
		p.line("")
		for line := range strings.Lines(p.about) {
			p.line("  %s", strings.TrimRight(line, "\n"))
		}
	}
	p.line("")
	p.item("seed", fmt.Sprint(p.result.Seed))
	limit := p.result.Keys[0].Limit
	parts := limitOf(limit)
	if debt := p.result.Keys[0].MaxDebt; debt > 0 {
		parts = append(parts, fmt.Sprintf("max_debt %v in each region", debt))
	}
	p.item("limit", parts...)
	if n := len(p.plan.Keys); n > 1 {
		p.item("keys", fmt.Sprintf("%d, each with a limit of its own; the first one's is shown", n))
	}
	var regions []string
	shares := p.shares()
	for _, r := range p.plan.Regions {
		weight, _ := limit.WeightOf(r.Name, shares)
		regions = append(regions, fmt.Sprintf("%s (weight %d, %s)", r.Name, weight, count(r.Agents, "agent")))
	}
	p.item("regions", regions...)
	f := p.plan.Faults
	network := []string{fmt.Sprintf("%v one way", f.Network.Delay.Duration()), fmt.Sprintf("commit %v", f.Log.Commit.Duration())}
	p.item("network", append(network, nonzero(
		amount{"jitter", f.Network.Jitter}, amount{"commit jitter", f.Log.CommitJitter}, chance{"loss", f.Network.Loss},
		chance{"duplicate", f.Network.Duplicate}, chance{"proposals lost", f.Log.Lost}, chance{"outcomes unknown", f.Log.Unknown})...)...)
	if f.DriftPPM > 0 {
		p.item("clocks", fmt.Sprintf("fast or slow by at most %d ppm", f.DriftPPM))
	}
	random := nonzero(
		amount{"elections", f.Elections}, amount{"partitions", f.Partitions}, amount{"resets", f.Resets}, amount{"outages", f.Outages},
		amount{"kills", f.Kills}, amount{"steps", f.Steps}, amount{"edits", f.Edits}, chance{"frozen", f.Frozen},
		chance{"lost replies", f.LostReplies}, chance{"nonsense", f.Nonsense})
	if len(random) > 0 {
		p.item("faults", random...)
	}
	if marks := p.marks(); len(marks) > 0 {
		var events []string
		for _, m := range marks {
			events = append(events, fmt.Sprintf("%c %v %s", m.letter, m.at.Duration(), m.text))
		}
		p.item("events", events...)
	}
}

func (p *page) shares() (s quota.Shares) {
	for _, r := range p.plan.Regions {
		s = append(s, quota.Share{Region: r.Name, Weight: r.Weight})
	}
	return s
}

func limitOf(l quota.Limit) []string {
	if l.Window > 0 {
		return []string{
			fmt.Sprintf("%v tokens in any %s (sliding window)", l.Burst, period(l.Window)), fmt.Sprintf("standing share %g", float64(l.Standing)/quota.PPM),
		}
	}
	if l.Rate.Tokens == 0 && l.Burst > 0 {
		return []string{
			fmt.Sprintf("%v tokens in each window of a %s", l.Burst, period(l.Rate.Per)),
			fmt.Sprintf("standing share %g", float64(l.Standing)/quota.PPM),
		}
	}
	return []string{
		fmt.Sprintf("%v tokens a %s", l.Rate.Tokens, period(l.Rate.Per)), fmt.Sprintf("burst %v", l.Burst),
		fmt.Sprintf("standing share %g", float64(l.Standing)/quota.PPM),
	}
}

// period names the length of a unit.
func period(m quota.Micros) string {
	switch m {
	case quota.Second:
		return "second"
	case 60 * quota.Second:
		return "minute"
	case 3600 * quota.Second:
		return "hour"
	case 86400 * quota.Second:
		return "day"
	}
	return m.Duration().String()
}

type (
	amount struct {
		name string
		mean quota.Micros
	}
	chance struct {
		name string
		part float64
	}
)

// nonzero returns what happens at all.
func nonzero(all ...any) (texts []string) {
	for _, one := range all {
		switch one := one.(type) {
		case amount:
			if one.mean > 0 {
				texts = append(texts, fmt.Sprintf("%s %v", one.name, one.mean.Duration()))
			}
		case chance:
			if one.part > 0 {
				texts = append(texts, fmt.Sprintf("%s %.3g", one.name, one.part))
			}
		}
	}
	return texts
}

// mark is an event on the time axis.
type mark struct {
	letter byte
	at     quota.Micros // since the load began
	text   string
}

// marks are the events of the plan and the moment of healing.
func (p *page) marks() (all []mark) {
	events := slices.Clone(p.plan.Events)
	slices.SortStableFunc(events, func(a, b sim.Event) int { return int(a.At - b.At) })
	for _, e := range events {
		all = append(all, mark{at: e.At - p.plan.Start, text: strings.TrimSpace(string(e.Kind) + " " + e.Region)})
	}
	if p.plan.Heal > 0 {
		all = append(all, mark{at: p.plan.Heal - p.plan.Start, text: "heal"})
	}
	for _, m := range p.more {
		all = append(all, mark{at: m.At, text: m.Text})
	}
	slices.SortStableFunc(all, func(a, b mark) int { return int(a.at - b.at) })
	for i := range all {
		all[i].letter = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i%26]
	}
	return all
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
