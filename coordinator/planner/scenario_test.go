package planner

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

var update = flag.Bool("update", false, "rewrite the drawings in testdata")

// Each file is a little play: what is asked where and when, and a drawing of who
// held and got what. The drawing is reviewed when it changes.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			script, want, _ := strings.Cut(string(text), "---\n")
			have := play(t, script)
			if *update {
				if err := os.WriteFile(file, []byte(script+"---\n"+have), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if have != want {
				t.Errorf("the drawing changed; look at it, and run with -update if it is better\nhave\n%s\nwant\n%s", have, want)
			}
		})
	}
}

const columns = 60

type cue struct {
	at quota.Micros
	do func()
}

type stage struct {
	t     *testing.T
	w     *world
	start quota.Micros
	long  quota.Micros
	cues  []cue
	loads map[string][]load
	least float64 // percent of an ideal bucket
}

type load struct {
	rate, swing float64
	from, to    quota.Micros
	period      quota.Micros
}

// play runs a script and returns its drawing.
func play(t *testing.T, script string) string {
	s := &stage{t: t, loads: map[string][]load{}}
	var lines [][]string
	for _, line := range strings.Split(script, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) > 0 {
			lines = append(lines, f)
		}
	}
	var regions []string
	for _, f := range lines {
		if f[0] == "regions" {
			regions = f[1:]
		}
	}
	for _, f := range lines {
		if f[0] == "limit" && !slices.Contains(f, "at") {
			s.w = newWorld(7, s.document(f), regions...)
			s.start = s.w.now
		}
	}
	for _, f := range lines {
		s.line(f)
	}
	for name, loads := range s.loads {
		s.w.region(name).demand[shop] = func(at float64) float64 {
			sum := 0.0
			for _, l := range loads {
				sum += l.at(quota.Micros(at*float64(quota.Second)) - s.start)
			}
			return sum
		}
	}
	slices.SortStableFunc(s.cues, func(a, b cue) int { return int(a.at - b.at) })
	return s.draw(regions)
}

func (l load) at(now quota.Micros) float64 {
	if now < l.from || now >= l.to {
		return 0
	}
	if l.period > 0 && (now-l.from)%l.period >= l.period/2 {
		return l.swing
	}
	return l.rate
}

// line reads one of
//
//	limit N UNIT burst N share F [at T]
//	run D
//	REGION RATE [to-and-fro RATE every D] [from T] [until T]
//	cut REGION from T until T        nothing gets in or out
//	kill REGION from T               its agent and store are gone
//	cost N                           of every request
//	expect P                         at least this much of an ideal bucket, in percent
func (s *stage) line(f []string) {
	arg := func(word string) (string, bool) {
		i := slices.Index(f, word)
		if i < 0 || i+1 >= len(f) {
			return "", false
		}
		return f[i+1], true
	}
	when := func(word string, or quota.Micros) quota.Micros {
		if v, ok := arg(word); ok {
			return s.duration(v)
		}
		return or
	}
	const end = 1000 * quota.Second
	cue := func(at quota.Micros, do func()) { s.cues = append(s.cues, cue{at, do}) }
	switch f[0] {
	case "regions":
	case "limit":
		if _, ok := arg("at"); ok {
			cue(when("at", 0), func() {
				s.w.apply(ledger.SetRules{Sources: s.document(f)})
				clear(s.w.limits)
			})
		}
	case "run":
		s.long = s.duration(f[1])
	case "expect":
		s.least = s.number(f[1])
	case "cost":
		for _, r := range s.w.regions {
			r.cost[shop] = quota.Whole(uint64(s.number(f[1])))
		}
	case "cut":
		cue(when("from", 0), func() { s.w.region(f[1]).cut = true })
		cue(when("until", end), func() { s.w.region(f[1]).cut = false })
	case "kill":
		cue(when("from", 0), func() { s.w.region(f[1]).dead = true })
	default:
		l := load{rate: s.number(f[1]), from: when("from", 0), to: when("until", end), period: when("every", 0)}
		if v, ok := arg("to-and-fro"); ok {
			l.swing = s.number(v)
		}
		s.loads[f[0]] = append(s.loads[f[0]], l)
	}
}

func (s *stage) document(f []string) []quota.Source {
	return document(int(s.number(f[1])), f[2], int(s.number(f[4])), f[6])
}

func (s *stage) number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Fatalf("script: %v", err)
	}
	return v
}

func (s *stage) duration(text string) quota.Micros {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatalf("script: %v", err)
	}
	return quota.MicrosOf(d)
}

// draw runs the play: the burst and the rate that each region holds and what it
// gets. Columns are equal times; a digit is tenths of the limit,
// `.` is less than a twentieth, `#` is all but a twentieth.
func (s *stage) draw(regions []string) string {
	w := s.w
	bursts, rates, gets := map[string][]byte{}, map[string][]byte{}, map[string][]byte{}
	ideal := []byte{}
	step := s.long / columns
	for col := range columns {
		for end := s.start + quota.Micros(col+1)*step; w.now < end; {
			for len(s.cues) > 0 && s.cues[0].at <= w.now-s.start {
				s.cues[0].do()
				s.cues = s.cues[1:]
			}
			w.run(1000)
		}
		_, rule := w.l.Current().Rules().LimitOf(shop)
		flow := float64(rule.Rate.Tokens) / float64(rule.Rate.Per) * float64(step)
		got := quota.Tokens(0)
		for _, name := range regions {
			r := w.region(name)
			share := r.share(shop)
			if a := w.l.Account(shop); a != nil {
				share = a.Reserved(name)
			}
			b := r.bucket(shop, w.now)
			part := quota.Tokens(b.got-b.gotAll) * max(r.cost[shop], quota.Token)
			b.gotAll = b.got
			bursts[name] = append(bursts[name], digit(float64(share.Burst)/float64(rule.Burst)))
			rates[name] = append(rates[name], digit(float64(share.Rate.Tokens)/float64(rule.Rate.Tokens)))
			gets[name] = append(gets[name], digit(float64(part)/flow))
			got += part
		}
		c := w.central[shop]
		if c == nil {
			ideal = append(ideal, ' ')
			continue
		}
		ideal = append(ideal, digit(float64(got)/float64(max(c.idealNow, 1))))
		c.idealNow, c.gotNow = 0, 0
	}
	var out strings.Builder
	fmt.Fprintf(&out, "a column is %v\n", step.Duration())
	for _, name := range regions {
		fmt.Fprintf(&out, "%-5s burst |%s|\n", name, bursts[name])
		fmt.Fprintf(&out, "%-5s rate  |%s|\n", "", rates[name])
		fmt.Fprintf(&out, "%-5s gets  |%s|\n", "", gets[name])
	}
	fmt.Fprintf(&out, "of an ideal |%s|\n", ideal)
	c := w.central[shop]
	fmt.Fprintf(&out, "admitted %.1f %% of what one central bucket would have\n", c.efficiency())
	fmt.Fprintf(&out, "operations:")
	for _, op := range slices.Sorted(maps.Keys(w.ops)) {
		fmt.Fprintf(&out, " %d %s", w.ops[op], op)
	}
	fmt.Fprintf(&out, "\n")
	for _, r := range w.refusals {
		fmt.Fprintf(&out, "refused: %s\n", r)
	}
	if c.worst < 0 && !slices.Contains(slices.Collect(maps.Keys(w.ops)), "SetRules") {
		s.t.Errorf("overshoot by %v", -c.worst)
	}
	if e := c.efficiency(); e < s.least {
		s.t.Errorf("admitted %.1f %% of an ideal bucket, want at least %.1f %%", e, s.least)
	}
	return out.String()
}

func digit(part float64) byte {
	switch {
	case part < 0.05:
		return '.'
	case part >= 0.95:
		return '#'
	}
	return '0' + byte(min(9, int(part*10)))
}
