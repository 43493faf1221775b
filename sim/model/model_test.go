package model

import (
	_ "embed"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var wide = flag.Bool("wide", false, "explore the spaces of several million states too (minutes)")

// reduced reports whether only the small spaces are explored.
func reduced() bool { return raced || testing.Short() }

const (
	small  = iota // always explored
	usual         // not under the race detector
	widest        // with -wide only
)

// Shares that are not equal distinguish the regions, equal ones do not.
var (
	oneShare = [2]Capacity{{0, 1}}
	slow     = [2]Capacity{{0, 1}, {0, 1}}
	fast     = [2]Capacity{{1, 1}, {1, 1}}
	lopsided = [2]Capacity{{1, 1}}
)

// worlds are the spaces of the correct model. Each is finite and explored to its
// end. The number of states is part of the test: a model that loses some of them
// has become blind.
var worlds = []struct {
	name   string
	size   int
	states int
	cfg    Config
}{
	{"a single token", small, 16136, Config{Limit: Capacity{1, 1}, TTL: 1, Resets: true}},
	{"a session of one tick", usual, 122125, Config{Limit: Capacity{1, 2}, TTL: 1, Resets: true}},
	{"a share of burst in one region", small, 87596, Config{Limit: Capacity{1, 2}, Shares: oneShare, TTL: 1, Resets: true}},
	{"shares of rate and burst", usual, 80908, Config{Limit: Capacity{3, 3}, Shares: fast, TTL: 1, Resets: true}},
	{"stores that last", small, 74526, Config{Limit: Capacity{1, 1}, TTL: 2}},
	{"a session of two ticks", usual, 866935, Config{Limit: Capacity{1, 2}, TTL: 2, Resets: true}},
	{"silence", usual, 708347, Config{Limit: Capacity{1, 1}, TTL: 2, Resets: true, Silence: true}},
	{"one region with a share, for two ticks", usual, 491980, Config{Limit: Capacity{2, 2}, Shares: lopsided, TTL: 2, Resets: true}},
	{"both with a share of burst, for two ticks", usual, 748388, Config{Limit: Capacity{1, 3}, Shares: slow, TTL: 2, Resets: true}},
	{"a guard", widest, 5808598, Config{Limit: Capacity{1, 2}, Shares: oneShare, TTL: 2, Guard: 1, Resets: true, Silence: true}},
	{"three ticks", widest, 4595713, Config{Limit: Capacity{1, 1}, TTL: 3, Resets: true, Silence: true}},
	{"two tokens and silence", widest, 5567213, Config{Limit: Capacity{1, 2}, TTL: 2, Resets: true, Silence: true}},
	{"two tokens a tick", widest, 2193509, Config{Limit: Capacity{2, 3}, Shares: slow, TTL: 2, Resets: true}},
	{"shares and silence", widest, 3410305, Config{Limit: Capacity{3, 3}, Shares: fast, TTL: 2, Resets: true, Silence: true}},
}

// refused is what a correct kernel refuses in every state.
var refused = []kind{appliesOld, renewsOld, answersDeposed}

//go:embed doc.go
var doc string

func TestNoStateBreaksTheBound(t *testing.T) {
	for _, w := range worlds {
		t.Run(w.name, func(t *testing.T) {
			if w.size == usual && reduced() || w.size == widest && !*wide {
				t.Skip("a larger space")
			}
			began := time.Now()
			have := Explore(w.cfg)
			t.Logf("%d states, %d transitions, depth %d, in %v", have.States, have.Transitions, have.Depth, time.Since(began).Round(time.Millisecond))
			if have.Violation != nil {
				t.Fatalf("violation:\n%v", have.Violation)
			}
			if !have.Complete {
				t.Error("the space was not explored to its end")
			}
			for _, k := range refused {
				if n := have.Taken[kindNames[k]]; n > 0 {
					t.Errorf("%q was taken %d times", kindNames[k], n)
				}
			}
			if have.States != w.states {
				t.Errorf("have %d states, want %d", have.States, w.states)
			}
			if !strings.Contains(doc, fmt.Sprintf(" %d states", w.states)) {
				t.Errorf("doc.go does not name the %d states", w.states)
			}
		})
	}
}

// A model in which something never happens proves nothing about it.
func TestEverythingHappens(t *testing.T) {
	have := Explore(Config{Limit: Capacity{1, 1}, TTL: 1, Resets: true, Silence: true, MaxStates: 20_000})
	for k := range kinds {
		if n, never := have.Taken[kindNames[k]], slices.Contains(refused, k); (n == 0) != never {
			t.Errorf("%q was taken %d times", kindNames[k], n)
		}
	}
}

func TestExploreStopsAtItsLimit(t *testing.T) {
	have := Explore(Config{Limit: Capacity{1, 1}, TTL: 1, MaxStates: 1000})
	if have.Complete || have.Violation != nil || have.States < 1000 || have.States > 1100 {
		t.Errorf("have %d states, complete %v; want 1000 and not complete", have.States, have.Complete)
	}
}

// The exploration relies on both: it goes on from the same value after a
// refusal, and keeps of every state its key only.
func TestRefusalsChangeNothingAndKeysLoseNothing(t *testing.T) {
	for _, bug := range append(Bugs(), NoBug) {
		c := Config{Limit: Capacity{2, 3}, Shares: lopsided, TTL: 2, Guard: 1, Resets: true, Silence: true, Bug: bug, BoundOnly: true}
		seen := newKnown()
		first := c.initial()
		seen.add(c.pack(&first), 0)
		for at := 0; at < len(seen.keys) && at < 3000; at++ {
			s := seen.keys[at].unpack()
			c.successors(&s, func(st step, next *state) bool {
				if next.audit < 0 {
					return true
				}
				k := c.pack(next)
				if have := k.unpack(); have != *next {
					t.Fatalf("%v: %s: have %+v, want %+v", bug, c.describe(&s, st), have, *next)
				}
				seen.add(k, uint32(at))
				return true
			})
			for k := range kinds {
				st := step{kind: k, side: at % 2, age: at % c.TTL, offer: parcel{Capacity{3, 4}, 1}}
				have := s
				if !c.do(&have, st) && have != s {
					t.Fatalf("%v: %s was refused and changed something", bug, c.describe(&s, st))
				}
			}
		}
	}
}

func TestValidateNamesEveryProblem(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		want bool
	}{
		{"smallest", Config{TTL: 1}, true},
		{"widest", Config{Limit: Capacity{3, 3}, Shares: fast, TTL: 3, Guard: 3}, true},
		{"no lifetime", Config{}, false},
		{"more than a key has room for", Config{Limit: Capacity{1, 4}, TTL: 1}, false},
		{"negative limit", Config{Limit: Capacity{-1, 1}, TTL: 1}, false},
		{"shares above the limit", Config{Limit: Capacity{1, 1}, Shares: fast, TTL: 1}, false},
		{"negative share", Config{Limit: Capacity{1, 1}, Shares: [2]Capacity{{-1, 0}, {1, 0}}, TTL: 1}, false},
		{"timer beyond a key", Config{TTL: 3, Guard: 4}, false},
		{"unknown bug", Config{TTL: 1, Bug: bugs}, false},
	} {
		if have := c.cfg.Validate(); (have == nil) != c.want {
			t.Errorf("%s: have %v, want valid %v", c.name, have, c.want)
		}
	}
}
