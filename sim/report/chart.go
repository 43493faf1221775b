package report

import (
	"fmt"
	"math"
	"strings"
)

const (
	// mostColumns keeps a chart with its labels within 80 columns.
	mostColumns = 72
	rows        = 6
)

// series is what a chart shows, a value a column: admitted as a filled area, what
// was denied above it, and the line that bounds it.
type series struct {
	demand, admitted, line []float64
}

// top returns the end of the axis. Demand far above what can be admitted is cut
// off, as it would leave no room for the rest.
func (s series) top() float64 {
	demand, inside := 0.0, 0.0
	for i := range s.demand {
		demand = max(demand, s.demand[i])
		inside = max(inside, s.admitted[i])
		if s.line != nil {
			inside = max(inside, s.line[i])
		}
	}
	if inside == 0 {
		return roundUp(demand)
	}
	return roundUp(max(inside*1.05, min(demand, 1.6*inside)))
}

// roundUp returns the next number of two digits that six rows divide well.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	scale := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 1.2, 1.5, 1.8, 2.1, 2.4, 3, 3.6, 4.2, 4.8, 6, 7.2, 9, 12} {
		if v <= step*scale*(1+1e-9) {
			return step * scale
		}
	}
	return 12 * scale
}

// draw returns the lines of the chart, without its time axis.
func (s series) draw() []string {
	top := s.top()
	lines := make([]string, rows)
	for r := range rows {
		var b strings.Builder
		label := ""
		switch r {
		case 0:
			label = short(top)
		case rows / 2:
			label = short(top / 2)
		}
		fmt.Fprintf(&b, "%5s |", label)
		low := float64(rows-1-r) / rows * top
		for i := range s.demand {
			b.WriteByte(s.cell(i, low, top/rows, r == 0))
		}
		lines[r] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// cell returns the character of one column between low and low+height.
func (s series) cell(i int, low, height float64, highest bool) byte {
	part := func(v float64) float64 { return (v - low) / height }
	if highest && part(s.demand[i]) > 1.25 {
		return '^'
	}
	onLine := s.line != nil && part(s.line[i]) > 0 && part(s.line[i]) <= 1
	admitted := part(s.admitted[i])
	switch {
	case onLine && admitted >= 0.25:
		return '='
	case onLine:
		return '-'
	case admitted >= 0.75:
		return '#'
	case admitted >= 0.25:
		return ':'
	case part(s.demand[i]) >= 0.5:
		return '.'
	}
	return ' '
}

// axis returns the time axis with a mark in the column of each event.
func axis(columns int, marks map[int]byte) string {
	var b strings.Builder
	b.WriteString("    0 +")
	for i := range columns {
		switch mark, ok := marks[i]; {
		case ok:
			b.WriteByte(mark)
		case i%10 == 0:
			b.WriteByte('+')
		default:
			b.WriteByte('-')
		}
	}
	return b.String()
}

// times returns the labels below a time axis; a column is so many seconds.
func times(columns, seconds int) string {
	var b strings.Builder
	for i := 0; i < columns; i += 10 {
		fmt.Fprintf(&b, "%-10s", clock(i*seconds))
	}
	return strings.TrimRight("       "+b.String(), " ")
}

// clock is a time in a few characters.
func clock(seconds int) string {
	if seconds%60 == 0 && seconds > 0 {
		return fmt.Sprintf("%dm", seconds/60)
	}
	if seconds > 120 {
		return fmt.Sprintf("%dm%ds", seconds/60, seconds%60)
	}
	return fmt.Sprintf("%ds", seconds)
}

// short is a number in at most five characters, from 0.1 up.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 1e5:
		return fmt.Sprintf("%.3gk", v/1e3)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v < 1:
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.3g", v)
}
