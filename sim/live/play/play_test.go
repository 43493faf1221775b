package play

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/scenario"
)

// These tests start real processes and run in real time: six seconds of faults, three
// TTLs of three seconds, and four seconds in which fair shares are judged.
const faults = 6 * time.Second

func load(t *testing.T, file string) scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// played runs a scenario to its end and checks what every such run must show.
func played(t *testing.T, s scenario.Scenario) Report {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a process per node and runs in real time")
	}
	var talk bytes.Buffer
	report, err := Run(t.Context(), Options{Scenario: s, Seed: 7, Duration: faults, Out: &talk})
	t.Logf("%s", &talk)
	if err != nil {
		t.Fatal(err)
	}
	if report.Broken() || report.Partial {
		t.Errorf("have %+v, partial %v", report.Violations, report.Partial)
	}
	if report.Shares != len(report.Regions) {
		t.Errorf("have %d fair shares judged, want one a region", report.Shares)
	}
	key := report.Keys[0]
	var regions, offered int64
	for _, r := range report.Regions {
		regions, offered = regions+r.Admitted, offered+r.Offered
		if r.Offered != r.Admitted+r.Denied+r.Failed+r.Dropped {
			t.Errorf("%s: have %+v, want the parts to be the whole", r.Name, r)
		}
	}
	if key.Verdict != Kept && key.Verdict != Within || key.Overshoot > key.Allowed {
		t.Errorf("have verdict %q, overshoot %v of %v", key.Verdict, key.Overshoot, key.Allowed)
	}
	if key.DeniedWhileThere > key.Denied {
		t.Errorf("have %v denied, %v of it while there was some", key.Denied, key.DeniedWhileThere)
	}
	if regions != key.Admitted.Floor() || offered != key.Offered.Floor() || key.Admitted == 0 || key.Denied == 0 {
		t.Errorf("have %d of %d in the regions, %v of %v of the key, %v denied", regions, offered, key.Admitted, key.Offered, key.Denied)
	}
	var sampled quota.Tokens
	leased := false
	for _, cells := range report.cells {
		for _, c := range cells {
			sampled += c.Admitted
			leased = leased || c.Lease.Tokens > 0
		}
	}
	if sampled != key.Admitted || !leased {
		t.Errorf("have %v in the charts, leases %v, want all of %v and leases", sampled, leased, key.Admitted)
	}
	return report
}

// happened checks that each fault was made as often as the scenario says.
func happened(t *testing.T, r Report, want map[string]int) {
	t.Helper()
	for what, n := range want {
		if have := r.Counts[what]; have != n {
			t.Errorf("have %d %s, want %d", have, what, n)
		}
	}
	for what := range r.Counts {
		if _, ok := want[what]; !ok {
			t.Errorf("have %d %s, which nobody asked for", r.Counts[what], what)
		}
	}
}

func TestProcessesAreKilledCutOffAndReset(t *testing.T) {
	r := played(t, load(t, "testdata/processes.yaml"))
	happened(t, r, map[string]int{
		"coordinators killed": 1, "partitions": 1, "store resets": 1, "agent clocks upset": 2, "agents killed": 1,
	})
	if r.LeaderChanges == 0 {
		t.Error("no other leader was seen")
	}
	var page bytes.Buffer
	if err := r.Write(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"processes, a line and clocks fail\n", "seed          7\n", "real parts    3 coordinators, a Redis per region, ", "A 600ms kill leader, B 900ms blackhole eu out,",
		"\nall regions; their line is the limit\n", "\nleases        1 ap, 2 eu", "overshoot     ", "1 coordinators killed", "\nevery promise kept\n",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("have %s\nwant %q", &page, want)
		}
	}
}

func TestStoresFailOverAndDisksAreFull(t *testing.T) {
	s := load(t, "testdata/stores.yaml")
	want := map[string]int{"store fail-overs": 1}
	if err := live.CanMount(); err == nil {
		s.Live.Events = append(s.Live.Events, scenario.LiveEvent{At: 7 * quota.Second, For: 10 * quota.Second, Kind: scenario.DiskFull, On: scenario.Leader})
		want["disks full"] = 1
	} else {
		t.Logf("without a full disk: %v", err)
	}
	r := played(t, s)
	happened(t, r, want)
	// On a busy machine Sentinels may take a Redis for down that nobody has killed.
	if r.FailOvers < 1 || r.Store != string(live.StoreSentinel) {
		t.Errorf("have %d fail-overs of %s, want at least 1", r.FailOvers, r.Store)
	}
}

func TestEndedEarlyItReportsWhatThereIs(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a process per node and runs in real time")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &until{text: "is killed", do: cancel}
	r, err := Run(ctx, Options{Scenario: load(t, "testdata/processes.yaml"), Seed: 1, Duration: faults, Out: out})
	if err != nil || !r.Partial || r.Shares != 0 || r.Broken() || r.Counts["coordinators killed"] != 1 {
		t.Fatalf("have %v, %+v", err, r)
	}
	var page bytes.Buffer
	if err := r.Write(&page); err != nil || !strings.Contains(page.String(), "\nended early: ") {
		t.Errorf("have %v, %s", err, &page)
	}
}

// The limit that is audited is a small part of the one that the processes hold.
func TestABrokenBoundIsSeen(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a process per node and runs in real time")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := Options{Scenario: load(t, "testdata/processes.yaml"), Seed: 1, Duration: faults, Out: &until{text: "was suspended", do: cancel}}
	s, err := prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	s.limits[0].Burst, s.limits[0].Rate.Tokens = quota.Whole(1), quota.Whole(1)
	r, err := s.run(ctx, o)
	if err != nil || !r.Broken() || r.Violations[0].Promise != "Bound" || r.Keys[0].Verdict != Broken || r.Keys[0].Overshoot == 0 {
		t.Fatalf("have %v, %+v", err, r)
	}
	var page bytes.Buffer
	if err := r.Write(&page); err != nil || !strings.Contains(page.String(), "\nBROKEN: Bound at ") {
		t.Errorf("have %v, %s", err, &page)
	}
}

// until is a writer that does something when it is told a text.
type until struct {
	text string
	do   func()
}

func (u *until) Write(p []byte) (int, error) {
	if strings.Contains(string(p), u.text) {
		u.do()
	}
	return len(p), nil
}

func TestScenariosCanBePlayed(t *testing.T) {
	files, err := filepath.Glob("../../testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../../testdata/live/*.yaml")
	if err != nil || len(files) < 9 || len(more) < 3 {
		t.Fatalf("have %d and %d scenarios, %v", len(files), len(more), err)
	}
	for _, file := range slices.Concat(files, more) {
		for _, d := range []time.Duration{0, 10 * time.Second} {
			s, err := prepare(Options{Scenario: load(t, file), Duration: d})
			if strings.HasSuffix(file, "disk-full.yaml") && live.CanMount() != nil {
				if err == nil {
					t.Errorf("%s: a disk is filled that cannot be", file)
				}
				continue
			}
			if slices.Contains([]string{"fixed-window.yaml", "sliding-window.yaml", "sliding-skew.yaml", "settlements.yaml"}, filepath.Base(file)) {
				if err == nil {
					t.Errorf("%s: windows or debts are audited that cannot be", file)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s in %v: %v", file, d, err)
				continue
			}
			if d > 0 && s.faults != quota.MicrosOf(d) {
				t.Errorf("%s: have faults until %v, want %v", file, s.faults.Duration(), d)
			}
			if left := s.span - s.measureFrom(); left < quota.Second {
				t.Errorf("%s in %v: only %v to judge fair shares", file, d, left.Duration())
			}
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	s := load(t, "testdata/processes.yaml")
	many, err := scenario.Parse("x.yaml", "limit: {rate: 10}\nregions: [eu]\nload: [{steady: 9000}]\nduration: 10m\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{
		{Scenario: s, Duration: time.Millisecond}, {Scenario: s, Duration: 2 * time.Hour}, {Scenario: s, Coordinators: 4},
		{Scenario: many},
	} {
		if _, err := Run(t.Context(), o); !errors.Is(err, ErrOptions) {
			t.Errorf("%v, %d: have %v", o.Duration, o.Coordinators, err)
		}
	}
}
