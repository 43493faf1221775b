package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

const liveHead = `limit: {rate: 10}
regions: [{name: eu, agents: 2}, us]
load: [{steady: 5}]
duration: 20s
heal: 10s
faults: {outages: 5s, frozen: 0.5}
live:
`

func TestLiveEventsAreRead(t *testing.T) {
	s, err := Parse("x.yaml", liveHead+`  coordinators: 5
  sentinel: true
  events:
  - {at: 3s, do: blackhole, region: eu, way: out, for: 2s}
  - {at: 1s, do: freeze, on: leader, for: 500ms}
  - {at: 2s, do: set_clock, on: eu-2, by: -30s}
`)
	if err != nil {
		t.Fatal(err)
	}
	if s.Live.Coordinators != 5 || !s.Live.Sentinel {
		t.Errorf("have %+v", s.Live)
	}
	want := []LiveEvent{
		{At: quota.Second, For: quota.Second / 2, Kind: Freeze, On: Leader, Path: "live.events[1]"},
		{At: 2 * quota.Second, Kind: SetClock, On: "eu-2", By: -30 * time.Second, Path: "live.events[2]"},
		{At: 3 * quota.Second, For: 2 * quota.Second, Kind: Blackhole, Region: "eu", Way: Out, Path: "live.events[0]"},
	}
	if len(s.Live.Events) != len(want) {
		t.Fatalf("have %+v", s.Live.Events)
	}
	for i, e := range s.Live.Events {
		if e != want[i] {
			t.Errorf("event %d: have %+v, want %+v", i, e, want[i])
		}
	}
	if have := s.Problem("faults.frozen", "no clock stands").String(); have != "x.yaml:6:23: no clock stands" {
		t.Errorf("have the problem %q", have)
	}
	if have := s.Problem("live.events[1]", "x").Line; have != 12 {
		t.Errorf("have an event on line %d, want 12", have)
	}
}

func TestLiveProblemsAreNamed(t *testing.T) {
	for _, tt := range []struct{ reason, text, want string }{
		{"an even number of nodes", "  coordinators: 4\n", "3 or 5"},
		{"too many nodes", "  coordinators: 7\n", "from 3 to 5"},
		{"an unknown kind", "  events: [{at: 1s, do: freese, on: n1, for: 1s}]\n", "did you mean `freeze`"},
		{"an unknown process", "  events: [{at: 1s, do: freeze, on: eu-3, for: 1s}]\n", "did you mean"},
		{"no end", "  events: [{at: 1s, do: freeze, on: eu-1}]\n", "`for` of the event is missing"},
		{"a key of another kind", "  events: [{at: 1s, do: failover, region: eu, way: in}]\n", "`failover` has no `way`"},
		{"after everything has healed", "  events: [{at: 10s, do: failover, region: eu}]\n", "nothing happens after 10s"},
		{"the disk of an agent", "  events: [{at: 1s, do: disk_full, on: eu-1, for: 1s}]\n", "happens to a coordinator"},
		{"the clock of a coordinator", "  events: [{at: 1s, do: suspend, on: n1, by: 1s}]\n", "happens to an agent"},
		{"a clock that is set by nothing", "  events: [{at: 1s, do: set_clock, on: eu-1, by: 0s}]\n", "either way"},
	} {
		_, err := Parse("x.yaml", liveHead+tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "x.yaml:8:") {
			t.Errorf("%s: have %v, want %q on line 8", tt.reason, err, tt.want)
		}
	}
}
