package scenario

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
)

// Scenario is a run as somebody wrote it down.
type Scenario struct {
	About string
	Seed  uint64 // that it asks for
	Plan  sim.Plan
	Live  Live

	file   string
	places map[string]place
}

// settle is how long the cluster runs before the load: time for an election, the
// sessions and the first configuration.
const settle = 5 * quota.Second

// Load reads a scenario file.
func Load(file string) (Scenario, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Scenario{}, fmt.Errorf("read scenario: %w", err)
	}
	return Parse(file, string(text))
}

// Parse reads a scenario. An error that the text causes is a rules.Problems: all
// that is wrong with it, each with its place.
func Parse(file, text string) (Scenario, error) {
	r := &reader{file: file, places: map[string]place{}}
	doc, err := decode(text)
	if err != nil {
		r.syntax(err)
		return Scenario{}, r.sorted()
	}
	s := Scenario{Seed: 1, file: file, places: r.places, Plan: sim.Plan{
		Name:  strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)),
		Start: settle,
	}}
	r.scenario(field{value: resolve(doc)}, &s)
	if err := r.sorted(); err != nil {
		return Scenario{}, err
	}
	return s, nil
}

// decode reads the only document of a text.
func decode(text string) (*yaml.Node, error) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file is empty")
	case err != nil:
		return nil, err
	case !errors.Is(dec.Decode(&second), io.EOF):
		return nil, errors.New("a scenario is a single YAML document")
	}
	return doc.Content[0], nil
}

// syntax reports an error of the YAML parser, a text with a line in it.
func (r *reader) syntax(err error) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	n := &yaml.Node{Line: 1}
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		if number, text, ok := strings.Cut(rest, ": "); ok {
			if line, err := strconv.Atoi(number); err == nil {
				n.Line, msg = line, text
			}
		}
	}
	r.problem(n, "", "not a scenario: %s", msg)
}

// scenario reads the document. What depends on the regions, keys and times is read
// after them, wherever it stands.
func (r *reader) scenario(f field, s *Scenario) {
	p := &s.Plan
	later := func(field) {}
	there := r.mapping(f, keys{
		"name":    func(f field) { p.Name = r.text(f) },
		"about":   func(f field) { s.About = strings.TrimSpace(r.text(f)) },
		"seed":    func(f field) { s.Seed = uint64(r.whole(f, 0, 1<<62)) },
		"regions": func(f field) { r.regions(f, p) },
		"allowances": func(f field) {
			p.Allowances = r.word(f, []string{"true", "false"}) == "true"
		},
		"settle":   func(f field) { p.Start = r.duration(f) },
		"duration": func(f field) { p.Duration = r.duration(f) },
		"heal":     func(f field) { p.Heal = r.duration(f) },
		"network": func(f field) {
			n := &p.Faults.Network
			r.mapping(f, keys{
				"delay": r.micros(&n.Delay), "jitter": r.micros(&n.Jitter),
				"loss": r.part(&n.Loss), "duplicate": r.part(&n.Duplicate),
				"late": r.part(&n.Late), "held": r.part(&n.Held),
			})
		},
		"log": func(f field) {
			l := &p.Faults.Log
			r.mapping(f, keys{
				"commit": r.micros(&l.Commit), "jitter": r.micros(&l.CommitJitter),
				"lost": r.part(&l.Lost), "unknown": r.part(&l.Unknown),
			})
		},
		"clocks": func(f field) {
			r.mapping(f, keys{"drift_ppm": func(f field) { p.Faults.DriftPPM = r.whole(f, 0, maxDriftPPM) }})
		},
		"faults": func(f field) { r.faults(f, p) },
		"limit":  later, "rules": later, "keys": later, "edits": later, "load": later, "final": later, "events": later, "live": later,
	})
	if there == nil {
		return
	}
	for _, name := range []string{"regions", "duration", "load"} {
		if _, ok := there[name]; !ok {
			r.problem(f.value, "", "`%s` is missing", name)
		}
	}
	if d, ok := there["duration"]; ok && p.Duration == 0 {
		if !r.said(d) {
			r.wrong(d, "longer than nothing")
		}
		p.Duration = quota.MicrosOf(longest) // what else is wrong is wrong by itself
	}
	if h, ok := there["heal"]; ok && !r.said(h) {
		if p.Heal == 0 || p.Heal >= p.Duration {
			r.problem(h.value, h.path, "`heal` must be after the start and before the end")
		}
		p.Heal += p.Start
	}
	p.Duration += p.Start
	groups := r.limits(f, there, p)
	if l, ok := there["load"]; ok {
		p.Load = r.loads(l, p, groups)
	}
	if l, ok := there["final"]; ok {
		if p.Heal == 0 {
			r.problem(l.key, l.path, "`final` is the load after `heal`, which is missing")
		}
		p.Final = r.loads(l, p, groups)
	} else if p.Heal > 0 {
		p.Final = goOn(p)
	}
	if e, ok := there["events"]; ok {
		r.events(e, p)
	}
	if l, ok := there["live"]; ok {
		r.live(l, s)
	}
}

func (r *reader) micros(to *quota.Micros) func(field) {
	return func(f field) { *to = r.duration(f) }
}

func (r *reader) part(to *float64) func(field) {
	return func(f field) { *to = r.fraction(f) }
}
