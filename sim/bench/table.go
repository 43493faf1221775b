package bench

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Origin says where results come from, so that anybody can make them again.
type Origin struct {
	Commit, Go, CPU, Date string
	// Command is what makes the same again, with this commit.
	Command string
	// Seeds is how many runs a figure is the median of: those of seeds 1 to Seeds.
	Seeds int
}

// Comparison is workloads with their results on every system.
type Comparison struct {
	Origin
	Workloads []Workload
	Results   []Result
}

// compared are the systems that are shown: the ideal has 100 % by definition.
var compared = slices.DeleteFunc(slices.Clone(Systems), func(s string) bool { return s == "ideal" })

// Medians returns the median of every figure over several runs of one workload,
// each as Run returns it.
func Medians(runs [][]Result) []Result {
	var all []Result
	for i, first := range runs[0] {
		of := func(f func(Result) float64) float64 {
			var v []float64
			for _, r := range runs {
				v = append(v, f(r[i]))
			}
			return median(v)
		}
		// A share that never became fair took longer than any that did.
		fair := of(func(r Result) float64 {
			if r.TimeToFairMS < 0 {
				return math.Inf(1)
			}
			return r.TimeToFairMS
		})
		if math.IsInf(fair, 1) {
			fair = -1
		}
		all = append(all, Result{
			Workload: first.Workload, System: first.System,
			Utilization:          of(func(r Result) float64 { return r.Utilization }),
			OvershootTokens:      of(func(r Result) float64 { return r.OvershootTokens }),
			DeniedWhileAvailable: of(func(r Result) float64 { return r.DeniedWhileAvailable }),
			TimeToFairMS:         fair,
			LogEntriesPerS:       of(func(r Result) float64 { return r.LogEntriesPerS }),
			MessagesPerS:         of(func(r Result) float64 { return r.MessagesPerS }),
		})
	}
	return all
}

func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// of returns the result of a workload on a system.
func (c Comparison) of(w Workload, system string) (Result, bool) {
	for _, r := range c.Results {
		if r.Workload == w.Name && r.System == system {
			return r, true
		}
	}
	return Result{}, false
}

// goal is one thing that quorate should reach.
type goal struct {
	want string
	met  bool
}

func (g goal) verdict() string {
	if g.met {
		return "met"
	}
	return "MISSED"
}

// goals returns what quorate should reach in a workload, and whether r does.
func goals(w Workload, r Result) (all []goal) {
	if w.Goal > 0 {
		all = append(all, goal{fmt.Sprintf("%.4g %%", 100*w.Goal), r.Utilization >= w.Goal})
	}
	if w.Step > 0 {
		fair := float64(Fair.Microseconds()) / 1000
		all = append(all, goal{fmt.Sprintf("%g ms", fair), r.TimeToFairMS >= 0 && r.TimeToFairMS <= fair})
	}
	return all
}

// percent rounds down: a goal that is missed must not look reached.
func percent(share float64) string {
	return strconv.FormatFloat(math.Floor(1000*share+1e-9)/10, 'f', 1, 64)
}

// tokens writes a number of tokens so that only none at all looks like none.
func tokens(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 0.1:
		return "<0.1"
	case n < 10:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// toFair writes how long the fair share took, nothing where there is no step.
func toFair(w Workload, r Result) string {
	switch {
	case w.Step == 0:
		return ""
	case r.TimeToFairMS < 0:
		return "never"
	}
	return strconv.FormatFloat(math.Ceil(r.TimeToFairMS), 'f', 0, 64) // up, as percent rounds down
}

// row returns the cells of a workload.
func (c Comparison) row(w Workload) []string {
	cells := []string{w.Name}
	for _, s := range compared {
		if r, ok := c.of(w, s); ok {
			cells = append(cells, percent(r.Utilization))
		} else {
			cells = append(cells, "")
		}
	}
	for _, s := range compared {
		if r, ok := c.of(w, s); ok {
			cells = append(cells, tokens(r.OvershootTokens))
		} else {
			cells = append(cells, "")
		}
	}
	own, ok := c.of(w, Systems[0])
	if !ok {
		return append(cells, "", "", "", "")
	}
	var verdicts []string
	for _, g := range goals(w, own) {
		verdicts = append(verdicts, g.want+" "+g.verdict())
	}
	return append(cells, toFair(w, own),
		strconv.FormatFloat(own.LogEntriesPerS, 'f', 1, 64), strconv.FormatFloat(own.MessagesPerS, 'f', 1, 64),
		strings.Join(verdicts, ", "))
}

// WriteTable writes a comparison for people.
func (c Comparison) WriteTable(out io.Writer) error {
	var b strings.Builder
	item := func(name, text string) { fmt.Fprintf(&b, "%-12s %s\n", name, text) }
	item("bench", c.scope())
	item("network", network())
	item("made by", fmt.Sprintf("commit %s, %s, %s", c.Commit, c.Go, c.Date))
	item("on", c.CPU)
	item("command", c.Command)
	b.WriteByte('\n')

	header := append([]string{"workload"}, compared...)
	header = append(header, compared...)
	header = append(header, "fair ms", "log/s", "messages/s", "goal")
	rows := [][]string{header}
	met, asked := 0, 0
	for _, w := range c.Workloads {
		rows = append(rows, c.row(w))
		own, ok := c.of(w, Systems[0])
		if !ok {
			continue
		}
		for _, g := range goals(w, own) {
			asked++
			if g.met {
				met++
			}
		}
	}
	n := len(compared)
	align(&b, []group{{"", 1}, {"utilization, %", n}, {"overshoot, tokens", n}, {"quorate", 4}}, rows)

	fmt.Fprintf(&b, `
goals met    %d of %d

utilization  of what one central bucket that answers at once (ideal) would admit;
             above 100 %% is more than the limit allows
overshoot    more than the limit allows, in the worst window of any length
fair ms      from a step of demand until the region has 95 %% of its fair share
log/s        entries in the replicated log, and messages, for all keys together
`, met, asked)
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// scope says what the figures are figures of.
func (c Comparison) scope() string {
	workloads, over := "1 workload", "seed 1"
	if n := len(c.Workloads); n != 1 {
		workloads = fmt.Sprintf("%d workloads", n)
	}
	if c.Seeds > 1 {
		over = fmt.Sprintf("medians over seeds 1 to %d", c.Seeds)
	}
	return workloads + ", " + over
}

// network says what lies between the regions of every workload.
func network() string {
	return fmt.Sprintf("%d ms round trip to the coordinator, %d ms a commit, no faults",
		(2 * oneWay).Duration().Milliseconds(), commit.Duration().Milliseconds())
}

// group is a heading over several columns.
type group struct {
	name string
	size int
}

// align writes a table without boxes: the first and the last column begin at one
// place, the numbers between them end at one. An empty cell is "-".
func align(b *strings.Builder, groups []group, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i := range r {
			r[i] = cmp.Or(r[i], "-")
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
	}
	const gap, wide = "  ", "    " // between columns, and between groups of them
	begins := map[int]bool{}
	var heading strings.Builder
	at := 0
	for _, g := range groups {
		width := len(gap) * (g.size - 1)
		for _, w := range widths[at : at+g.size] {
			width += w
		}
		if at > 0 {
			begins[at] = true
			heading.WriteString(wide)
		}
		fmt.Fprintf(&heading, "%-*s", width, g.name)
		at += g.size
	}
	b.WriteString(strings.TrimRight(heading.String(), " ") + "\n")
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			switch {
			case begins[i]:
				line.WriteString(wide)
			case i > 0:
				line.WriteString(gap)
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 || i == len(r)-1 {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
