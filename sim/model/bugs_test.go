package model

import (
	"flag"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite testdata with what is found now")

// overspends says how long the shortest way is on which a bug breaks the first
// invariant, and how long the one on which it overspends. Most need no more than
// a single token and a session of a tick; doc.go says which need a share.
var overspends = []struct {
	bug   Bug
	first int
	steps int
	large bool // not under the race detector
	cfg   Config
}{
	{GrowBeforeShrink, 7, 16, false, Config{Limit: Capacity{1, 1}, TTL: 1}},
	{CreditAboveGrowth, 20, 20, false, Config{Limit: Capacity{1, 1}, TTL: 1}},
	{RefundAtExpiry, 17, 17, false, Config{Limit: Capacity{1, 1}, TTL: 1}},
	{ExpiryFromReceive, 5, 15, true, Config{Limit: Capacity{1, 1}, TTL: 1}},
	{NoLeadershipCheck, 6, 16, true, Config{Limit: Capacity{1, 1}, TTL: 1}},
	{NewLeaderKeepsTimers, 6, 18, true, Config{Limit: Capacity{1, 2}, Shares: oneShare, TTL: 1}},
	{ClockJumpsAtElection, 14, 14, false, Config{Limit: Capacity{1, 1}, TTL: 1}},
	{LateApply, 16, 16, true, Config{Limit: Capacity{1, 2}, Shares: oneShare, TTL: 1}},
	{SyncReplacesLiveSession, 4, 15, true, Config{Limit: Capacity{1, 2}, Shares: oneShare, TTL: 1}},
	{MissingIsFull, 3, 3, false, Config{Limit: Capacity{1, 1}, Shares: oneShare, TTL: 1, Resets: true}},
	{NoStandingDeducted, 1, 8, false, Config{Limit: Capacity{1, 2}, Shares: oneShare, TTL: 1}},
	{ApplyTwice, 8, 8, false, Config{Limit: Capacity{1, 1}, TTL: 1}},
	{RenewWhileSilent, 7, 19, true, Config{Limit: Capacity{1, 2}, Shares: oneShare, TTL: 1, Silence: true}},
}

func TestEveryBugOverspends(t *testing.T) {
	tried := map[Bug]bool{}
	for _, c := range overspends {
		tried[c.bug] = true
		t.Run(c.bug.String(), func(t *testing.T) {
			c.cfg.Bug = c.bug
			first := Explore(c.cfg)
			if first.Violation == nil {
				t.Fatalf("no invariant is broken in %d states", first.States)
			}
			t.Logf("after %d steps: %s", first.Violation.Len(), first.Violation.Broken)
			if have := first.Violation.Len(); have != c.first {
				t.Errorf("have the first violation after %d steps, want %d:\n%v", have, c.first, first.Violation)
			}
			if c.large && reduced() {
				return
			}
			c.cfg.BoundOnly = true
			began := time.Now()
			have := Explore(c.cfg)
			if have.Violation == nil {
				t.Fatalf("the Bound holds in %d states, complete %v", have.States, have.Complete)
			}
			t.Logf("overspends after %d steps, found in %d states and %v", have.Violation.Len(), have.States, time.Since(began).Round(time.Millisecond))
			if have.Violation.Len() != c.steps {
				t.Errorf("have a trace of %d steps, want %d:\n%v", have.Violation.Len(), c.steps, have.Violation)
			}
		})
	}
	for _, b := range Bugs() {
		if !tried[b] {
			t.Errorf("%v is not tried", b)
		}
	}
}

// A counterexample must tell its reader what went wrong.
func TestTraceReadsWell(t *testing.T) {
	const file = "testdata/growBeforeShrink.txt"
	res := Explore(Config{Limit: Capacity{1, 1}, TTL: 1, Bug: GrowBeforeShrink, BoundOnly: true})
	if res.Violation == nil {
		t.Fatal("no violation")
	}
	have := res.Violation.String()
	if *update {
		if err := os.WriteFile(file, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if have != string(want) {
		t.Errorf("have:\n%s\nwant:\n%s", have, want)
	}
}
