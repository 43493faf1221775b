package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/live"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

func TestMain(m *testing.M) {
	live.Main()
	os.Exit(m.Run())
}

func golden(t *testing.T, name, have string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if have != string(want) {
		t.Errorf("%s: have\n%s\nwant\n%s", name, have, want)
	}
}

// scene is a demo after 40 of its 60 seconds.
func scene() frame {
	return frame{
		elapsed: 40 * time.Second, duration: time.Minute,
		limit: Options{Rate: 400, Burst: 200}.limit(),
		sight: live.Sight{Leader: "n2", Term: 4, Leading: true, Changes: 1},
		rows: []row{
			{name: "ap", demand: 120, lease: 125.4, admitted: 119.6},
			{name: "eu", demand: 300, lease: 13.3, admitted: 13, denied: 287, cut: true, standing: true},
			{name: "us", demand: 420, lease: 250, admitted: 248, denied: 171, failed: 1},
		},
		total: row{name: "all", demand: 840, lease: 388.7, admitted: 380.6, denied: 458, failed: 1},
		tally: live.Tally{
			Counts: live.Counts{Offered: quota.Whole(32_000), Admitted: quota.Whole(15_500)},
			Ideal:  quota.Whole(16_000), Headroom: quota.Whole(50),
		},
		events: []Event{{25 * time.Second, "leader n1 killed"}, {37 * time.Second, "eu cut off from all coordinators"}},
	}
}

func TestFrameIsDrawn(t *testing.T) {
	f := scene()
	golden(t, "view.txt", ansi.Strip(f.draw(90)))
	f.sight.Leading = false
	golden(t, "line.txt", f.line()+"\n")
}

func TestDrawingFitsAnySize(t *testing.T) {
	for _, width := range []int{0, 1, 20, 80, 500} {
		f := scene()
		f.total.admitted, f.tally.Headroom = 1e6, -quota.Token // beyond both ends of the bars
		if f.draw(width) == "" {
			t.Errorf("nothing drawn at width %d", width)
		}
	}
}

func TestHeadroomIsBelowZeroOnlyWhenProven(t *testing.T) {
	for _, tt := range []struct {
		reason           string
		headroom, proven quota.Tokens
		want             quota.Tokens
	}{
		{"what is left", 5 * quota.Token, 0, 5 * quota.Token},
		{"answers that arrived together prove nothing", -3 * quota.Token, 0, 0},
		{"a proven overshoot shows", 5 * quota.Token, 2 * quota.Token, -2 * quota.Token},
	} {
		f := frame{tally: live.Tally{Headroom: tt.headroom}, overshoot: tt.proven}
		if have := f.headroom(); have != tt.want {
			t.Errorf("%s: have %v, want %v", tt.reason, have, tt.want)
		}
	}
}

func TestSummaryIsWritten(t *testing.T) {
	s := Summary{
		Regions: 3, DurationS: 60, Seed: 7, Store: "redis", LimitPerS: 400, Burst: 200,
		Offered: 48_000, Admitted: 23_600, Denied: 24_390, Failed: 10, Ideal: 24_200, Utilization: 0.9752,
		OvershootPossibleTokens: 1.5, LeaderChanges: 1, Partitions: 1, DecisionP50US: 840, DecisionP99US: 5120,
	}
	var b bytes.Buffer
	s.Write(&b)
	s.Partial, s.BoundViolations, s.OvershootTokens = true, 1, 12
	s.Write(&b)
	golden(t, "summary.txt", b.String())
}

func TestSummaryHasThePromisedFields(t *testing.T) {
	data, err := json.Marshal(Summary{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"regions", "duration_s", "limit_per_s", "burst", "offered", "admitted", "denied", "ideal", "utilization",
		"overshoot_tokens", "bound_violations", "leader_changes", "partitions", "decision_p50_us", "decision_p99_us",
	} {
		if _, ok := fields[name]; !ok {
			t.Errorf("no field %s", name)
		}
	}
}

func TestRuleDocumentIsValid(t *testing.T) {
	o := Options{Rate: 400, Burst: 200}
	set, err := rules.Parse([]quota.Source{{Name: "demo.yaml", Text: o.rules()}})
	if err != nil {
		t.Fatal(err)
	}
	rule := set.Match(domain, []rules.Entry{{Key: entry, Value: value}})
	if rule == nil {
		t.Fatal("no rule for the demo's requests")
	}
	if have, want := rule.Limits[0].Capacity, o.limit(); have != want {
		t.Errorf("have %v, want %v", have, want)
	}
}

func TestInvalidOptionsNameTheProblem(t *testing.T) {
	for _, tt := range []struct {
		reason string
		change func(*Options)
		want   string
	}{
		{"too short", func(o *Options) { o.Duration = time.Millisecond }, "duration 1ms"},
		{"no rate", func(o *Options) { o.Rate = 0 }, "rate 0"},
		{"no burst", func(o *Options) { o.Burst = 0 }, "burst 0"},
		{"unknown store", func(o *Options) { o.Store = "disk" }, `store "disk"`},
	} {
		o := Options{Duration: time.Minute, Rate: 1, Burst: 1}
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		tt.change(&o)
		if err := o.Validate(); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: have %v, want %q", tt.reason, err, tt.want)
		}
	}
}
