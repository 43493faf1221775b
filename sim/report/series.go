package report

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
)

// charts draws all regions together, and then each.
func (p *page) charts() {
	seconds := int((p.plan.Duration - p.plan.Start + quota.Second - 1) / quota.Second)
	step := stepFor(seconds)
	columns := (seconds + step - 1) / step
	marks := map[int]byte{}
	for _, m := range p.marks() {
		marks[min(int(m.at/quota.Second)/step, columns-1)] = m.letter
	}
	limit := p.result.Keys[0].Limit
	unit := period(limit.Rate.Per)
	// With several keys, or without a rate, there is no lease that bounds what is drawn.
	one := p.rated()
	lines := ""
	if one {
		lines = ", - = lease"
	}
	p.line("")
	p.line("tokens a %s; a column is %ds; # : admitted, . denied, ^ beyond%s", unit, step, lines)

	var all series
	all.demand, all.admitted = make([]float64, columns), make([]float64, columns)
	if one {
		all.line = slices.Repeat([]float64{float64(limit.Steady(limit.Capacity).Tokens) / float64(quota.Token)}, columns)
	}
	each := make([]series, len(p.plan.Regions))
	for r, region := range p.plan.Regions {
		each[r] = p.series(region.Name, columns, step, limit.Rate.Per, one)
		for i := range columns {
			all.demand[i] += each[r].demand[i]
			all.admitted[i] += each[r].admitted[i]
		}
	}
	title := "all regions"
	if one {
		title += "; their line is the limit"
	}
	p.chart(title, all, marks)
	for r, region := range p.plan.Regions {
		p.chart(region.Name+p.parts(region.Name), each[r], marks)
	}
	p.line("%s", times(columns, step))
}

// rated reports whether leases can be drawn as rates.
func (p *page) rated() bool {
	if len(p.result.Keys) != 1 {
		return false
	}
	l := p.result.Keys[0].Limit
	return l.Steady(l.Capacity).Tokens > 0
}

func (p *page) chart(title string, s series, marks map[int]byte) {
	p.line("")
	p.line("%s", title)
	for _, line := range s.draw() {
		p.line("%s", line)
	}
	p.line("%s", axis(len(s.demand), marks))
}

// stepFor returns how many seconds a column stands for.
func stepFor(seconds int) int {
	for _, step := range []int{1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900} {
		if seconds <= step*mostColumns {
			return step
		}
	}
	return 1800
}

// series gathers one region's cells in columns, as rates in the unit of the limit.
func (p *page) series(region string, columns, step int, per quota.Micros, line bool) (s series) {
	cells := p.result.Cells[region]
	cells = cells[min(int(p.plan.Start/quota.Second), len(cells)):]
	for i := range columns {
		var sum sim.Cell
		n := 0
		for _, c := range cells[min(i*step, len(cells)):min((i+1)*step, len(cells))] {
			sum.Offered += c.Offered
			sum.Admitted += c.Admitted
			sum.Lease.Tokens += c.Lease.Tokens
			n++
		}
		factor := float64(per) / float64(quota.Second) / float64(max(n, 1)) / float64(quota.Token)
		s.demand = append(s.demand, float64(sum.Offered)*factor)
		s.admitted = append(s.admitted, float64(sum.Admitted)*factor)
		if line {
			s.line = append(s.line, float64(sum.Lease.Tokens)/float64(max(n, 1))/float64(quota.Token))
		}
	}
	return s
}

// parts says how much of its demand a region got.
func (p *page) parts(region string) string {
	var offered, admitted quota.Tokens
	for _, c := range p.result.Cells[region] {
		offered += c.Offered
		admitted += c.Admitted
	}
	if offered == 0 {
		return ": nothing offered"
	}
	return fmt.Sprintf(": %d of %d admitted, %.1f %%", admitted.Floor(), offered.Floor(), percent(admitted, offered))
}

func percent(part, whole quota.Tokens) float64 {
	if whole == 0 {
		return 100
	}
	return 100 * float64(part) / float64(whole)
}
