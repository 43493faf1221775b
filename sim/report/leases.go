package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/workload"
)

const (
	leaseRows = 12
	// settling is how long the leases of a run may move after the last thing that
	// gives them a reason to.
	settling = 10 * quota.Second
)

// leases draws the leases of all regions into one chart, so that a swing from one to
// another shows: a lease that moves within a column has all of its span there.
func (p *page) leases() {
	if !p.rated() || len(p.plan.Regions) < 2 {
		return
	}
	seconds := int((p.plan.Duration - p.plan.Start + quota.Second - 1) / quota.Second)
	step := stepFor(seconds)
	columns := (seconds + step - 1) / step
	var names []string
	bands := make([]band, len(p.plan.Regions))
	for r, region := range p.plan.Regions {
		bands[r] = p.band(region.Name, columns, step)
		names = append(names, fmt.Sprintf("%c %s", letter(r), region.Name))
	}
	marks := map[int]byte{}
	for _, m := range p.marks() {
		marks[min(int(m.at/quota.Second)/step, columns-1)] = m.letter
	}
	p.line("")
	p.item("leases", append(names, "* several")...)
	for _, line := range drawBands(bands) {
		p.line("%s", line)
	}
	p.line("%s", axis(columns, marks))
	p.line("%s", times(columns, step))
}

func letter(region int) byte { return "1234567890"[region%10] }

// band is where a lease is in each column: from low to high, as a rate in the unit of
// the limit.
type band struct{ low, high []float64 }

func (p *page) band(region string, columns, step int) (b band) {
	cells := p.result.Cells[region]
	cells = cells[min(int(p.plan.Start/quota.Second), len(cells)):]
	last := 0.0
	for i := range columns {
		low, high := math.Inf(1), math.Inf(-1)
		for _, c := range cells[min(i*step, len(cells)):min((i+1)*step, len(cells))] {
			last = float64(c.Lease.Tokens) / float64(quota.Token)
			low, high = min(low, last), max(high, last)
		}
		if low > high {
			low, high = last, last
		}
		b.low, b.high = append(b.low, low), append(b.high, high)
	}
	return b
}

// drawBands returns the lines of a chart of several bands, without its time axis.
func drawBands(bands []band) []string {
	top := 0.0
	for _, b := range bands {
		for _, v := range b.high {
			top = max(top, v)
		}
	}
	top = roundUp(top)
	row := func(v float64) int { return min(leaseRows-1, int(v/top*leaseRows)) }
	grid := make([][]byte, leaseRows)
	for r := range grid {
		grid[r] = []byte(strings.Repeat(" ", len(bands[0].low)))
	}
	for n, b := range bands {
		for i := range b.low {
			for r := row(b.low[i]); r <= row(b.high[i]); r++ {
				if cell := &grid[r][i]; *cell == ' ' {
					*cell = letter(n)
				} else {
					*cell = '*'
				}
			}
		}
	}
	var lines []string
	for r := leaseRows - 1; r >= 0; r-- {
		label := ""
		switch r {
		case leaseRows - 1:
			label = short(top)
		case leaseRows/2 - 1:
			label = short(top / 2)
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%5s |%s", label, grid[r]), " "))
	}
	return lines
}

// settled prints how often leases change where demand has been steady for a while,
// and how far each region's moves a minute, up and down added, as a part of the limit.
func (p *page) settled() {
	from, ok := settledFrom(p.plan)
	if !ok || !p.rated() {
		return
	}
	span := float64(p.plan.Duration-from) / float64(quota.Second)
	limit := p.result.Keys[0].Limit
	held, moved, n := map[string]float64{}, map[string]float64{}, 0
	for _, r := range p.plan.Regions {
		held[r.Name] = limit.Steady(limit.StandingShare(r.Name, p.shares())).PerSecond()
	}
	for _, c := range p.result.Leases {
		rate := limit.Steady(c.Lease).PerSecond()
		if c.At >= from {
			moved[c.Region] += math.Abs(rate - held[c.Region])
			n++
		}
		held[c.Region] = rate
	}
	parts := []string{fmt.Sprintf("%.2f lease changes a second from %v on", float64(n)/span, (from - p.plan.Start).Duration())}
	for _, r := range p.plan.Regions {
		parts = append(parts, fmt.Sprintf("%s moved %.1f %%", r.Name, 100*moved[r.Name]/limit.Steady(limit.Capacity).PerSecond()*60/span))
	}
	p.item("steady", append(parts, "of the limit a minute")...)
}

// settledFrom returns when the leases of a plan have no more reason to move; ok is
// false where that never comes, or where nobody has noted how they move.
func settledFrom(p sim.Plan) (from quota.Micros, ok bool) {
	f := p.Faults
	calm := f.Calm()
	calm.Network, calm.Log = f.Network, f.Log
	if !p.KeepLeases || f != calm || p.Heal > 0 {
		return 0, false
	}
	from = p.Start
	for _, l := range p.Load {
		if l.Curve.Period > 0 && !flat(l.Curve) {
			return 0, false
		}
		if n := len(l.Curve.Points); n > 1 {
			from = max(from, p.Start+quota.MicrosOf(l.Curve.Points[n-1].At))
		}
	}
	for _, e := range p.Events {
		from = max(from, e.At)
	}
	from += settling
	return from, from < p.Duration
}

// flat reports whether a curve is the same at all times.
func flat(c workload.Curve) bool {
	for _, p := range c.Points {
		if p.PerSecond != c.Points[0].PerSecond {
			return false
		}
	}
	return true
}
