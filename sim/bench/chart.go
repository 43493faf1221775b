package bench

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// The chart is drawn for a width of 1000, and all of its texts are large enough to
// be read at 800.
const (
	chartWidth = 1000.0
	margin     = 24.0

	tilesTop   = 82.0
	tileHeight = 106.0
	tileGap    = 12.0
	groupsTop  = tilesTop + tileHeight + 64

	barHeight  = 10.0
	barPitch   = 15.0
	groupPitch = 4*barPitch + 18

	// Columns, from left to right: names, systems, utilization, overshoot, goal.
	aboutColumns = 29 // characters of a line of Workload.About
	systemRight  = 292.0
	useLeft      = 300.0
	useWidth     = 270.0
	useRight     = 626.0 // of the numbers, which end there
	overLeft     = 648.0
	overWidth    = 120.0
	overRight    = 822.0
	goalLeft     = 846.0

	// capped is where a bar of utilization ends; the number says the rest.
	capped = 1.5
	// visiblyOver is the least utilization above 100 % that its number shows.
	visiblyOver = 1.001
)

// chartStyle has two sets of colours, with its own background for both: the page
// around a picture does not always have the theme that the browser reports. What
// is blue, grey and red is told apart by its place and its number as well.
const chartStyle = `
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-size:11.5px;fill:#1f2937}
.paper{fill:#ffffff;stroke:#d8dee6}
.tile{fill:#f6f8fa;stroke:#d8dee6}
.tile-own{fill:#eef4ff;stroke:#2563eb}
.h1{font-size:20px;font-weight:650}
.h2{font-size:13px;font-weight:650}
.big{font-size:21px;font-weight:650}
.muted{fill:#5b6673}
.small{font-size:11px}
.num{text-anchor:end;font-variant-numeric:tabular-nums}
.end{text-anchor:end}
.mid{text-anchor:middle}
.strong{font-weight:650}
.own{fill:#2563eb}
.other{fill:#8b97a6}
.over{fill:#d92d20}
.over-text{fill:#b42318}
.track{fill:#eceff3}
.grid{stroke:#d8dee6}
.full{stroke:#1f2937;stroke-width:1.2}
.cut{stroke:#ffffff;stroke-width:2.2;fill:none}
@media (prefers-color-scheme:dark){
text{fill:#e6e9ee}
.paper{fill:#0f141a;stroke:#2b333d}
.tile{fill:#171e26;stroke:#2b333d}
.tile-own{fill:#13233f;stroke:#5b93ff}
.muted{fill:#9aa5b3}
.own{fill:#5b93ff}
.other{fill:#6f7c8c}
.over{fill:#f2574a}
.over-text{fill:#ff8a7f}
.track{fill:#1f2731}
.grid{stroke:#2b333d}
.full{stroke:#e6e9ee}
.cut{stroke:#0f141a}
}
`

// does says in a few words what a system is.
var does = map[string]string{
	"quorate":     "leases parts of one limit",
	"static":      "each region has 1/N of the limit",
	"independent": "each region has the whole limit",
	"gossip":      "regions tell what they admitted",
}

// WriteChart writes a comparison as a picture: an SVG of one file.
func (c Comparison) WriteChart(out io.Writer) error {
	d := &drawing{}
	height := groupsTop + groupPitch*float64(len(c.Workloads)) + 110
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img" aria-labelledby="title desc">`,
		chartWidth, height, chartWidth, height)
	d.printf(`<title id="title">quorate and what it is compared with: utilization and overshoot</title>`)
	d.printf(`<desc id="desc">%s</desc>`, escape(c.told()))
	d.printf("<style>%s</style>", chartStyle)
	d.printf(`<rect class="paper" x="0.5" y="0.5" width="%g" height="%g" rx="10"/>`, chartWidth-1, height-1)
	d.text(margin, 42, "h1", "How much of a global limit is used, and how far it is exceeded")
	d.text(margin, 64, "muted", c.scope()+"; "+network())
	c.tiles(d)
	axis := c.axis()
	bottom := groupsTop + groupPitch*float64(len(c.Workloads))
	axis.grid(d, bottom)
	for i, w := range c.Workloads {
		c.group(d, axis, w, groupsTop+groupPitch*float64(i))
	}
	// The line of 100 % lies over the bars, so that it shows where they cross it.
	full := useLeft + useWidth/capped
	d.line("full", full, groupsTop-8, full, bottom)
	for i, line := range []string{
		"The empty part of a bar went unused; red is beyond the limit. Overshoot is that of the worst window of any length, on a logarithmic scale.",
		"Goals are quorate's: its utilization, or its time to the fair share after a step of demand.",
		fmt.Sprintf("Commit %s, %s, %s, %s.", c.Commit, c.Go, c.Date, c.CPU),
		c.Command,
	} {
		d.text(margin, bottom+42+17*float64(i), "muted small", line)
	}
	d.printf("</svg>")
	if _, err := io.WriteString(out, d.String()); err != nil {
		return fmt.Errorf("write chart: %w", err)
	}
	return nil
}

// told is the chart in words, for whom cannot see it.
func (c Comparison) told() string {
	parts := []string{c.scope() + "; " + network()}
	for _, s := range compared {
		use, over := c.totals(s)
		parts = append(parts, fmt.Sprintf("%s (%s): median utilization %s %%, worst overshoot %s tokens", s, does[s], percent(use), tokens(over)))
	}
	for _, w := range c.Workloads {
		var shares []string
		for _, s := range compared {
			if r, ok := c.of(w, s); ok {
				shares = append(shares, fmt.Sprintf("%s %s %% and %s tokens over", s, percent(r.Utilization), tokens(r.OvershootTokens)))
			}
		}
		parts = append(parts, w.Name+": "+strings.Join(shares, ", "))
	}
	return strings.Join(parts, ". ") + "."
}

// totals returns the median utilization of a system over the workloads, and its
// worst overshoot.
func (c Comparison) totals(system string) (use, over float64) {
	var shares []float64
	for _, w := range c.Workloads {
		if r, ok := c.of(w, system); ok {
			shares, over = append(shares, r.Utilization), max(over, r.OvershootTokens)
		}
	}
	if len(shares) == 0 {
		return 0, 0
	}
	return median(shares), over
}

// tiles draws the sum of it, a tile a system.
func (c Comparison) tiles(d *drawing) {
	n := float64(len(compared))
	width := (chartWidth - 2*margin - tileGap*(n-1)) / n
	for i, s := range compared {
		x := margin + float64(i)*(width+tileGap)
		class := "tile"
		if i == 0 {
			class = "tile-own"
		}
		d.printf(`<rect class="%s" x="%g" y="%g" width="%g" height="%g" rx="8"/>`, class, x, tilesTop, width, tileHeight)
		use, over := c.totals(s)
		d.text(x+14, tilesTop+24, "h2", s)
		d.text(x+14, tilesTop+40, "muted small", does[s])
		class = "big"
		if use >= visiblyOver {
			class = "big over-text"
		}
		d.text(x+14, tilesTop+72, class, percent(use)+" %")
		d.text(x+14, tilesTop+91, "muted small", "median utilization")
		class = "big"
		if over > 0 {
			class = "big over-text"
		}
		right := x + width/2 + 14
		d.text(right, tilesTop+72, class, tokens(over))
		d.text(right, tilesTop+91, "muted small", "worst overshoot")
	}
}

// overAxis is the logarithmic axis of the overshoot. It begins at none.
type overAxis struct{ top float64 }

func (c Comparison) axis() overAxis {
	top := 10.0
	for _, r := range c.Results {
		for top < r.OvershootTokens {
			top *= 10
		}
	}
	return overAxis{top}
}

func (a overAxis) at(tokens float64) float64 {
	return overWidth * math.Log10(1+tokens) / math.Log10(1+a.top)
}

// grid draws the headings and the axes.
func (a overAxis) grid(d *drawing, bottom float64) {
	y := groupsTop - 40
	d.text(margin, y, "h2", "Workload")
	d.text(useLeft, y, "h2", "Utilization, % of the ideal")
	d.text(overLeft, y, "h2", "Overshoot, tokens")
	d.text(goalLeft, y, "h2", "Goal")
	label := func(x float64, text string) {
		d.text(x, groupsTop-16, "muted small mid", text)
		d.text(x, bottom+14, "muted small mid", text)
	}
	for _, share := range []float64{0, 0.5, 1, capped} {
		x := useLeft + useWidth*share/capped
		d.line("grid", x, groupsTop-8, x, bottom)
		label(x, strconv.FormatFloat(100*share, 'f', 0, 64))
	}
	every := int(math.Ceil(math.Log10(a.top) / 4)) // labels must not touch
	d.line("grid", overLeft, groupsTop-8, overLeft, bottom)
	label(overLeft, "0")
	for i, v := 0, 10.0; v <= a.top; i, v = i+1, v*10 {
		x := overLeft + a.at(v)
		d.line("grid", x, groupsTop-8, x, bottom)
		if i%every == 0 {
			label(x, short(v))
		}
	}
}

// short writes a power of ten.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", v)
}

// group draws one workload.
func (c Comparison) group(d *drawing, axis overAxis, w Workload, top float64) {
	d.printf("<g><title>%s: %s</title>", escape(w.Name), escape(w.About))
	d.line("grid", margin, top-2, chartWidth-margin, top-2)
	d.text(margin, top+16, "strong", w.Name)
	for i, line := range wrap(w.About, aboutColumns) {
		d.text(margin, top+31+13.5*float64(i), "muted small", line)
	}
	for i, s := range compared {
		r, ok := c.of(w, s)
		if !ok {
			continue
		}
		y := top + 7 + barPitch*float64(i)
		base := y + barHeight - 1
		own, weight := "other", ""
		if i == 0 {
			own, weight = "own", " strong"
		}
		d.text(systemRight, base, "end small"+weight, s)
		use(d, r.Utilization, own, y)
		red := ""
		if r.Utilization >= visiblyOver {
			red = " over-text"
		}
		d.text(useRight, base, "num"+weight+red, percent(r.Utilization))
		red = ""
		if r.OvershootTokens > 0 {
			red = " over-text"
			d.bar("over", overLeft, y, max(1.5, axis.at(r.OvershootTokens)))
		}
		d.text(overRight, base, "num"+weight+red, tokens(r.OvershootTokens))
	}
	if own, ok := c.of(w, Systems[0]); ok {
		for i, g := range goals(w, own) {
			class := "small"
			if !g.met {
				class = "small strong over-text"
			}
			d.text(goalLeft, top+7+barPitch*float64(i)+barHeight-1, class, g.want+" "+g.verdict())
		}
		if w.Step > 0 {
			took := toFair(w, own)
			if own.TimeToFairMS >= 0 {
				took += " ms"
			}
			d.text(goalLeft, top+7+barPitch*float64(len(goals(w, own)))+barHeight-1, "muted small", "fair after "+took)
		}
	}
	d.printf("</g>")
}

// use draws a bar of utilization: what is left to 100 % as a track, what is beyond
// it in another colour, and a cut where it is too long.
func use(d *drawing, share float64, class string, y float64) {
	scale := useWidth / capped
	d.bar("track", useLeft, y, scale)
	d.bar(class, useLeft, y, scale*min(share, 1))
	if share > 1 {
		d.bar("over", useLeft+scale, y, scale*(min(share, capped)-1))
	}
	if share > capped {
		x := useLeft + useWidth - 9
		d.printf(`<path class="cut" d="M%g %gl4 %gM%g %gl4 %g"/>`, x, y+barHeight+1, -barHeight-2, x+4, y+barHeight+1, -barHeight-2)
	}
}

// wrap breaks a text into lines of at most so many characters.
func wrap(text string, columns int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > columns:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// drawing is an SVG as it grows.
type drawing struct{ strings.Builder }

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

func (d *drawing) text(x, y float64, class, text string) {
	d.printf(`<text x="%.4g" y="%.5g" class="%s">%s</text>`, x, y, class, escape(text))
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	d.printf(`<line class="%s" x1="%.5g" y1="%.5g" x2="%.5g" y2="%.5g"/>`, class, x1, y1, x2, y2)
}

func (d *drawing) bar(class string, x, y, width float64) {
	d.printf(`<rect class="%s" x="%.5g" y="%.5g" width="%.4g" height="%g"/>`, class, x, y, width, barHeight)
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}
