package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim"
)

// Live is what a scenario says of real processes only.
type Live struct {
	// Coordinators is the number of nodes, 0 where it says nothing.
	Coordinators int
	// Sentinel gives each region a pair of servers and Sentinels.
	Sentinel bool
	Events   []LiveEvent
}

// LiveKind is a kind of fault of a process, a connection, a disk or a clock.
type LiveKind string

// The kinds of live events.
const (
	Freeze     LiveKind = "freeze"     // stop the process On in its tracks
	KillNode   LiveKind = "kill"       // end the process On at once; it starts again after For
	Isolate    LiveKind = "isolate"    // part the coordinator On from all others and from agents
	Blackhole  LiveKind = "blackhole"  // lose what goes one way between Region and the coordinators
	Disconnect LiveKind = "disconnect" // break the connections of Region to the coordinators
	Throttle   LiveKind = "throttle"   // let Bytes a second through between them
	Slow       LiveKind = "slow"       // another one-way Delay between them
	FailOver   LiveKind = "failover"   // kill the primary of Region's Redis
	DiskFull   LiveKind = "disk_full"  // leave no space on the disk of the coordinator On
	SetClock   LiveKind = "set_clock"  // set the wall clock of the agent On by By
	Suspend    LiveKind = "suspend"    // suspend the machine of the agent On for By, seen by its clocks
)

// Words for coordinators by what they are when the event begins.
const (
	Leader   = "leader"
	Follower = "follower"
)

// Ways of a blackhole.
const (
	In  = "in"  // what coordinators send to the region is lost
	Out = "out" // what the region sends is lost
)

// LiveEvent is a fault at a fixed time, which ends by itself after For.
type LiveEvent struct {
	At, For quota.Micros
	Kind    LiveKind
	// On is a process: leader, follower, a coordinator (n1) or an agent (eu-1);
	// Region a region. A kind has one of them.
	On, Region string
	Way        string
	Bytes      int64
	Delay      quota.Micros
	By         time.Duration
	Path       string // in the file, for Scenario.Problem
}

// String says what happens to whom.
func (e LiveEvent) String() string {
	text := string(e.Kind) + " " + e.On + e.Region
	if e.Way != "" {
		text += " " + e.Way
	}
	return text
}

// liveKeys are what each kind needs beside at and do.
var liveKeys = map[LiveKind][]string{
	Freeze: {"on", "for"}, KillNode: {"on", "for"}, Isolate: {"on", "for"}, DiskFull: {"on", "for"},
	Blackhole: {"region", "way", "for"}, Disconnect: {"region"}, Throttle: {"region", "bytes", "for"},
	Slow: {"region", "delay", "for"}, FailOver: {"region"}, SetClock: {"on", "by"}, Suspend: {"on", "by"},
}

// MostCoordinators is the most that a scenario may ask for: more nodes than a
// machine of one person should run.
const MostCoordinators = 5

// live reads what only real processes have.
func (r *reader) live(f field, s *Scenario) {
	l := &s.Live
	r.mapping(f, keys{
		"coordinators": func(f field) {
			n := r.whole(f, 3, MostCoordinators)
			if n%2 == 0 {
				r.wrong(f, "3 or 5: an even number survives no more failures than one less")
			}
			l.Coordinators = int(n)
		},
		"sentinel": func(f field) { l.Sentinel = r.word(f, []string{"true", "false"}) == "true" },
		"events": func(f field) {
			items, _ := r.list(f)
			for _, item := range items {
				if e, ok := r.liveEvent(item, &s.Plan); ok {
					l.Events = append(l.Events, e)
				}
			}
		},
	})
	slices.SortStableFunc(l.Events, func(a, b LiveEvent) int { return int(a.At - b.At) })
}

func (r *reader) liveEvent(f field, p *sim.Plan) (LiveEvent, bool) {
	e := LiveEvent{Path: f.path}
	var words []string
	for _, k := range slices.Sorted(maps.Keys(liveKeys)) {
		words = append(words, string(k))
	}
	there := r.mapping(f, keys{
		"at":     r.micros(&e.At),
		"do":     func(f field) { e.Kind = LiveKind(r.word(f, words)) },
		"on":     func(f field) { e.On = r.process(f, p) },
		"region": func(f field) { e.Region = r.region(f, p) },
		"for":    r.micros(&e.For),
		"way":    func(f field) { e.Way = r.word(f, []string{In, Out}) },
		"bytes":  func(f field) { e.Bytes = r.whole(f, 1, 1<<30) },
		"delay":  r.micros(&e.Delay),
		"by":     func(f field) { e.By = r.shift(f) },
	})
	if there == nil {
		return e, false
	}
	needed, known := liveKeys[e.Kind]
	for _, name := range append([]string{"at", "do"}, needed...) {
		if _, ok := there[name]; !ok {
			r.problem(f.value, f.path, "`%s` of the event is missing", name)
			known = false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if known && name != "at" && name != "do" && !slices.Contains(needed, name) {
			r.problem(there[name].key, there[name].path, "`%s` has no `%s`; it needs %s", e.Kind, name, strings.Join(needed, " and "))
		}
	}
	end := p.Duration - p.Start
	if p.Heal > 0 {
		end = p.Heal - p.Start
	}
	if at, ok := there["at"]; ok && e.At >= end {
		r.problem(at.value, at.path, "the event is at %s, and nothing happens after %v", at.value.Value, end.Duration())
	}
	r.whom(there, e)
	return e, known
}

// whom reports a fault that cannot happen to the process it names.
func (r *reader) whom(there map[string]field, e LiveEvent) {
	on, ok := there["on"]
	if !ok || e.On == "" {
		return
	}
	agent := !IsCoordinator(e.On)
	switch e.Kind {
	case Isolate, DiskFull:
		if agent {
			r.problem(on.value, on.path, "`%s` happens to a coordinator: %s, %s or its name like n1, not to %s", e.Kind, Leader, Follower, e.On)
		}
	case SetClock, Suspend:
		if !agent {
			r.problem(on.value, on.path, "`%s` happens to an agent like eu-1: coordinators have no clock of their own", e.Kind)
		}
	}
}

// IsCoordinator reports whether a process of an event is a coordinator.
func IsCoordinator(on string) bool {
	return on == Leader || on == Follower || slices.Contains(coordinators, on)
}

// coordinators are the names that coordinators may have.
var coordinators = func() (names []string) {
	for i := range MostCoordinators {
		names = append(names, fmt.Sprintf("n%d", i+1))
	}
	return names
}()

// process reads who has a fault.
func (r *reader) process(f field, p *sim.Plan) string {
	known := append([]string{Leader, Follower}, coordinators...)
	for _, one := range p.Regions {
		for i := range one.Agents {
			known = append(known, fmt.Sprintf("%s-%d", one.Name, i+1))
		}
	}
	return r.word(f, known)
}

// shift reads by how much a clock is set, either way.
func (r *reader) shift(f field) time.Duration {
	d, err := time.ParseDuration(f.value.Value)
	if err != nil || d == 0 || d < -longest || d > longest {
		r.wrong(f, fmt.Sprintf("a duration with its unit like 30s or -2m, up to %v either way", longest))
	}
	return d
}

// Problem is something that a reader of the scenario finds wrong with it, at the
// place of a path like "faults.frozen".
func (s Scenario) Problem(path, format string, args ...any) rules.Problem {
	at := s.places[path]
	return rules.Problem{File: s.file, Line: at.line, Col: at.col, Key: path, Message: fmt.Sprintf(format, args...)}
}

// place is where something stands in the file, from 1.
type place struct{ line, col int }
