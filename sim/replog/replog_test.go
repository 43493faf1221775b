package replog

import (
	"math/rand/v2"
	"testing"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/vclock"
)

const ms = quota.Second / 1000

func newLog(f Faults) (*vclock.Loop, *Log) {
	loop := &vclock.Loop{}
	return loop, New(loop, rand.New(rand.NewPCG(3, 4)), f)
}

func TestProposalsAreCommittedInOrderAfterAWhile(t *testing.T) {
	loop, l := newLog(Faults{Commit: 40 * ms})
	var seen []uint64
	l.Committed = func(index uint64, b ledger.Batch) { seen = append(seen, index) }
	term := l.Elect()
	l.Begin(term)
	var index uint64
	l.Propose(ledger.Batch{Term: term}, func(i uint64) { index = i })
	if loop.Run(39 * ms); index != 0 || l.Len() != 0 {
		t.Errorf("committed after 39 ms: index %d", index)
	}
	l.Propose(ledger.Batch{Term: term}, func(i uint64) { index = i })
	if loop.Run(100 * ms); index != 2 || l.Len() != 2 || len(seen) != 2 || seen[1] != 2 {
		t.Errorf("have index %d, %d entries, seen %v; want 2 entries", index, l.Len(), seen)
	}
	if l.Entry(2).Term != term {
		t.Errorf("entry 2 is of term %d, want %d", l.Entry(2).Term, term)
	}
}

func TestOutcomesNobodyLearns(t *testing.T) {
	for _, tt := range []struct {
		reason  string
		faults  Faults
		entries uint64
	}{
		{"lost", Faults{Lost: 1}, 0},
		{"committed, and the answer lost", Faults{Unknown: 1}, 1},
	} {
		loop, l := newLog(tt.faults)
		term := l.Elect()
		l.Begin(term)
		called, index := false, uint64(9)
		l.Propose(ledger.Batch{Term: term}, func(i uint64) { called, index = true, i })
		loop.Run(quota.Second)
		if !called || index != 0 || l.Len() != tt.entries {
			t.Errorf("%s: called %v with %d, %d entries; want 0 and %d", tt.reason, called, index, l.Len(), tt.entries)
		}
	}
}

// An entry of a deposed leader is committed before the next one begins, or never.
func TestDeposedLeadersCommitBeforeTheNextBeginsOrNever(t *testing.T) {
	loop, l := newLog(Faults{Commit: 10 * ms})
	early := 0
	for range 200 {
		old := l.Elect()
		l.Begin(old)
		before := l.Len()
		l.Propose(ledger.Batch{Term: old}, func(i uint64) {
			if i != 0 {
				t.Errorf("a deposed leader learned of index %d", i)
			}
		})
		next := l.Elect()
		if l.Leads(old) || !l.Leads(next) {
			t.Fatal("the old term still leads")
		}
		loop.Run(loop.Now() + 20*ms)
		early += int(l.Len() - before)

		if l.Begin(old) {
			t.Fatal("a term that is over began")
		}
		l.Begin(next)
		before = l.Len()
		l.Propose(ledger.Batch{Term: old}, func(uint64) {})
		loop.Run(loop.Now() + 20*ms)
		if l.Len() != before {
			t.Fatal("an entry of an older term was committed after the next had begun")
		}
	}
	if early < 50 || early > 150 {
		t.Errorf("have %d of 200 committed before the next began, want about half", early)
	}
}
