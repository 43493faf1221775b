package report

import (
	"fmt"
	"io"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
)

// Live is a run on real processes: the page of a Run, with what only real processes
// have in the place of what only a run in virtual time does.
type Live struct {
	Run
	// Parts is what ran.
	Parts []string
	// Marks are what was done to it beside the events of the plan.
	Marks []Mark
	// Lines follow the sums.
	Lines []Line
	// Partial says that it was ended early.
	Partial bool
}

// Mark is something that happened at a time since the load began.
type Mark struct {
	At   quota.Micros
	Text string
}

// Line is a name and what there is to say about it.
type Line struct {
	Name  string
	Parts []string
}

// Write prints the run.
func (l Live) Write(out io.Writer) error {
	p := &page{about: l.About, plan: l.Plan, result: l.Result, more: l.Marks}
	p.head()
	p.item("real parts", l.Parts...)
	p.charts()
	if hasLeases(l.Result) {
		p.leases()
	}
	p.sums()
	for _, one := range l.Lines {
		p.item(one.Name, one.Parts...)
	}
	if l.Partial {
		p.line("")
		p.line("ended early: fair shares were not measured")
	}
	p.verdict()
	if _, err := io.WriteString(out, p.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// hasLeases reports whether somebody has looked at leases: of several keys nobody does.
func hasLeases(r sim.Report) bool {
	for _, cells := range r.Cells {
		for _, c := range cells {
			if c.Lease.Tokens > 0 {
				return true
			}
		}
	}
	return false
}
