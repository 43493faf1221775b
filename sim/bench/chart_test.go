package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// drawn reads a chart with a strict parser and returns its elements and its texts.
func drawn(t *testing.T, c Comparison) (elements []xml.StartElement, texts []string) {
	t.Helper()
	var b strings.Builder
	if err := c.WriteChart(&b); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements, texts
		}
		if err != nil {
			t.Fatalf("%v in %s", err, b.String())
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements = append(elements, token.Copy())
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" {
				texts = append(texts, text)
			}
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func TestChartSaysWhatTheTableSays(t *testing.T) {
	c := fixed()
	_, texts := drawn(t, c)
	// The bar of 330 % is cut at 150 %, its number is not.
	want := []string{c.Commit + ", " + c.Go, c.Date, c.CPU, "330.0", "123456", "<0.1", "99 % met", "98.5 % MISSED", "fair after never", "fair after 570 ms"}
	for _, w := range c.Workloads {
		want = append(want, w.Name)
	}
	want = append(want, compared...)
	for _, w := range want {
		if !slices.ContainsFunc(texts, func(have string) bool { return strings.Contains(have, w) }) {
			t.Errorf("want %q in the chart, have %q", w, texts)
		}
	}
}

func TestChartOfEveryWorkload(t *testing.T) {
	c := Comparison{Workloads: Workloads(), Origin: Origin{Seeds: 1}}
	_, texts := drawn(t, c)
	for _, w := range c.Workloads {
		if !slices.Contains(texts, w.Name) {
			t.Errorf("want %q in the chart", w.Name)
		}
		if lines := wrap(w.About, aboutColumns); len(lines) > 3 {
			t.Errorf("%s: %q has no room in three lines", w.Name, w.About)
		}
	}
}

// The chart is one file that asks nobody for anything, has a name for those who
// cannot see it, and keeps inside of its own frame.
func TestChartStandsAlone(t *testing.T) {
	elements, texts := drawn(t, fixed())
	root := elements[0]
	if root.Name.Local != "svg" || attribute(root, "role") != "img" || attribute(root, "aria-labelledby") != "title desc" {
		t.Errorf("have %v", root)
	}
	named := map[string]bool{}
	for _, e := range elements {
		named[attribute(e, "id")] = true
		switch e.Name.Local {
		case "script", "image", "use", "link", "foreignObject":
			t.Errorf("have an element %s", e.Name.Local)
		case "rect":
			x, _ := strconv.ParseFloat(attribute(e, "x"), 64)
			width, err := strconv.ParseFloat(attribute(e, "width"), 64)
			if err != nil || width < 0 || x+width > chartWidth {
				t.Errorf("have a bar from %g, %g wide, %v", x, width, err)
			}
		}
		for _, a := range e.Attr {
			if a.Name.Local != "xmlns" && strings.Contains(a.Value, "://") || strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" {
				t.Errorf("have %s=%q", a.Name.Local, a.Value)
			}
		}
	}
	if !named["title"] || !named["desc"] {
		t.Error("want an element for the title and one for the description")
	}
	style := ""
	for _, text := range texts {
		if strings.Contains(text, "font-family") {
			style = text
		}
	}
	if !strings.Contains(style, "prefers-color-scheme:dark") || strings.Contains(style, "url(") || strings.Contains(style, "@import") {
		t.Errorf("have the style %s", style)
	}
}
