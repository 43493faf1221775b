package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
)

// totals prints the sums of all keys, and whether every promise was kept.
func (p *page) totals() {
	overshoot := p.sums()
	p.windows()
	p.settled()
	p.item("log entries", fmt.Sprintf("%.1f a second", float64(p.result.Entries)/p.result.SimSeconds))
	p.item("messages", fmt.Sprintf("%.1f a second", float64(p.result.Messages)/p.result.SimSeconds))
	p.item("overshoot", fmt.Sprintf("%v tokens in the worst window", overshoot))
	p.counts()
	p.item("ledger", p.result.Hash)
	p.verdict()
}

// windows prints what was admitted in each window of the first key.
func (p *page) windows() {
	var parts []string
	for _, admitted := range p.result.Keys[0].Windows {
		parts = append(parts, whole(admitted))
	}
	if len(parts) > 0 {
		p.item("windows", parts...)
	}
}

// sums prints what became of all requests, and returns the worst overshoot of a key.
func (p *page) sums() quota.Tokens {
	var sum sim.KeyReport
	for _, k := range p.result.Keys {
		sum.Offered += k.Offered
		sum.Admitted += k.Admitted
		sum.Denied += k.Denied
		sum.GivenBack += k.GivenBack
		sum.Uncharged += k.Uncharged
		sum.Ideal += k.Ideal
		sum.DeniedWhileThere += k.DeniedWhileThere
		sum.Overshoot = max(sum.Overshoot, k.Overshoot)
	}
	p.line("")
	p.item("offered", whole(sum.Offered))
	p.item("admitted", whole(sum.Admitted))
	p.item("denied", fmt.Sprintf("%s (%s of it while one central bucket had tokens left)", whole(sum.Denied), whole(sum.DeniedWhileThere)))
	if sum.GivenBack > 0 {
		p.item("given back", whole(sum.GivenBack)+" of what was admitted")
	}
	if sum.Uncharged > 0 {
		p.item("uncharged", whole(sum.Uncharged)+" of what was settled")
	}
	if lost := sum.Offered - sum.Admitted - sum.Denied - sum.Uncharged; lost > 0 {
		p.item("no decision", whole(lost))
	}
	p.item("ideal", whole(sum.Ideal)+" by one central bucket")
	p.item("utilization", fmt.Sprintf("%.1f %%", 100*sum.Utilization()))
	return sum.Overshoot
}

// verdict says whether every promise was kept.
func (p *page) verdict() {
	p.line("")
	if !p.result.Broken() {
		p.line("every promise kept")
		return
	}
	for _, v := range p.result.Violations {
		p.line("BROKEN: %s at %v: %s", v.Promise, (v.At - p.plan.Start).Duration(), v.What)
	}
}

// counts prints the faults that happened, and what a reader of a run asks for.
func (p *page) counts() {
	var faults, denials []string
	for _, what := range slices.Sorted(maps.Keys(p.result.Counts)) {
		n := p.result.Counts[what]
		switch {
		case sim.IsFault(what):
			faults = append(faults, fmt.Sprintf("%d %s", n, what))
		case strings.HasPrefix(what, "denied: "):
			denials = append(denials, fmt.Sprintf("%d %s", n, what))
		}
	}
	if len(denials) > 0 {
		p.item("requests", denials...)
	}
	if len(faults) > 0 {
		p.item("faults fired", faults...)
	}
}

func whole(t quota.Tokens) string { return fmt.Sprint(t.Floor()) }
