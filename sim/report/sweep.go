package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/sim"
)

// Sweep is the result of a sweep with what is needed to trust and to repeat it. The
// JSON names are an interface.
type Sweep struct {
	sim.Sweep
	First uint64 `json:"first_seed"`
	Origin
	TookS float64 `json:"took_s"`
	// Partial says that the sweep was ended before it was done.
	Partial bool `json:"partial"`
}

// NewSweep adds where and when a sweep was made.
func NewSweep(s sim.Sweep, first uint64, commit string, began time.Time, took time.Duration) Sweep {
	if s.Unreached == nil {
		s.Unreached = []string{}
	}
	return Sweep{Sweep: s, First: first, Origin: Here(commit, began), TookS: float64(took.Milliseconds()) / 1000}
}

// Origin says where figures come from: without it they mean nothing.
type Origin struct {
	Commit string `json:"commit"`
	Go     string `json:"go"`
	CPU    string `json:"cpu"`
	Date   string `json:"date"`
}

// Here is the origin of figures that this program of the commit makes.
func Here(commit string, began time.Time) Origin {
	return Origin{Commit: commit, Go: runtime.Version(), CPU: cpu(), Date: began.UTC().Format(time.DateOnly)}
}

// cpu names the processor, as well as this system says it.
func cpu() string {
	name := runtime.GOARCH
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores", name, runtime.GOMAXPROCS(0))
}

// Broken reports whether any run broke a promise.
func (s Sweep) Broken() bool { return s.Violations > 0 }

// Write prints the summary of a sweep.
func (s Sweep) Write(out io.Writer) error {
	p := &page{}
	ended := ""
	if s.Partial {
		ended = fmt.Sprintf(" (ended early: go on with --first %d)", s.First+uint64(s.Seeds))
	}
	p.item("sweep", fmt.Sprintf("%d random worlds from seed %d%s", s.Seeds, s.First, ended),
		fmt.Sprintf("%d of them long", s.LongWorlds),
		fmt.Sprintf("%.1f simulated hours in %v", s.SimHours, seconds(s.TookS)))
	p.item("made by", "commit "+cmp.Or(s.Commit, "unknown"), s.Go, s.Date)
	p.item("on", s.CPU)
	verdict := "every promise kept in every run"
	if s.Broken() {
		verdict = fmt.Sprintf("BROKEN in %d of %d runs", s.Violations, s.Seeds)
	}
	p.item("promises", verdict)
	p.item("overshoot", fmt.Sprintf("%g tokens over the Bound in the worst window", s.WorstOverBound),
		fmt.Sprintf("%g where a clock was frozen on purpose", s.WorstOvershoot))
	for _, r := range s.Failed {
		p.line("")
		p.line("seed %d; see how with: quorate-sim replay %d --trace", r.Seed, r.Seed)
		for _, v := range r.Violations {
			p.line("  %s at %v: %s", v.Promise, v.At.Duration(), v.What)
		}
	}
	p.times("faults fired", s.Faults)
	p.times("sometimes", s.Sometimes)
	p.line("")
	if len(s.Unreached) == 0 {
		p.line("every state of interest was reached")
	} else {
		p.line("never reached")
		for _, what := range s.Unreached {
			p.line("  %s", what)
		}
	}
	if _, err := io.WriteString(out, p.String()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// times lists how often each thing happened.
func (p *page) times(title string, counts sim.Counts) {
	p.line("")
	p.line("%s", title)
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		p.line("  %11d  %s", counts[what], what)
	}
}

func seconds(s float64) time.Duration {
	d := time.Duration(s * float64(time.Second))
	if d > 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(10 * time.Millisecond)
}
