// Package replog is the replicated log of a simulation in the place of Raft: one
// sequence of entries that every node applies in order, with commits that take
// time, proposals that are lost, outcomes that nobody learns, and changes of the
// leader in between.
//
// What it keeps of Raft is what the protocol relies on: an entry of a deposed
// leader may still be committed until the next one has begun its term, and not
// afterwards; a leader begins its term after it has applied everything that was
// committed before.
package replog

import (
	"math/rand/v2"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/vclock"
)

// Faults say how badly the log serves its leader.
type Faults struct {
	// Commit is what a commit takes, CommitJitter what is added at random.
	Commit, CommitJitter quota.Micros
	// Lost is the probability that a proposal is not committed, and nobody
	// learns that; Unknown, that it is and nobody learns that.
	Lost, Unknown float64
}

// Log is the log. It is not safe for concurrent use.
type Log struct {
	loop    *vclock.Loop
	rand    *rand.Rand
	faults  Faults
	entries []ledger.Batch
	term    uint64 // the newest
	serving uint64 // the newest term that has begun

	// Committed is called after each commit, before anybody else learns of it.
	Committed func(index uint64, b ledger.Batch)
	// Counts of what became of proposals.
	Proposals, LostOnes, UnknownOnes, Stale int
}

// New returns an empty log.
func New(loop *vclock.Loop, r *rand.Rand, f Faults) *Log {
	return &Log{loop: loop, rand: r, faults: f, Committed: func(uint64, ledger.Batch) {}}
}

// SetFaults changes what happens to the proposals that are made from now on.
func (l *Log) SetFaults(f Faults) { l.faults = f }

// Len returns the index of the last entry; the first has index 1.
func (l *Log) Len() uint64 { return uint64(len(l.entries)) }

// Entry returns the entry with an index.
func (l *Log) Entry(index uint64) ledger.Batch { return l.entries[index-1] }

// Term returns the newest term.
func (l *Log) Term() uint64 { return l.term }

// Elect starts a new term and returns its number. Until Begin its leader has not
// applied everything, and entries of the one before may still be committed.
func (l *Log) Elect() uint64 {
	l.term++
	return l.term
}

// Begin says that the leader of a term has applied everything there is. It
// returns false when the term is over already.
func (l *Log) Begin(term uint64) bool {
	if term != l.term {
		return false
	}
	l.serving = term
	return true
}

// Leads reports whether a term is the newest. Its leader does not know.
func (l *Log) Leads(term uint64) bool { return term == l.term }

// Append commits an entry at once: what a cluster begins with.
func (l *Log) Append(b ledger.Batch) {
	l.entries = append(l.entries, b)
	l.Committed(l.Len(), b)
}

// Propose commits a batch of the leader of b.Term in a while, or does not. It
// then calls done with the index, or with 0 when the outcome is unknown to the
// proposer, whatever it was.
func (l *Log) Propose(b ledger.Batch, done func(index uint64)) {
	l.Proposals++
	lost := l.faults.Lost > 0 && l.rand.Float64() < l.faults.Lost
	unknown := l.faults.Unknown > 0 && l.rand.Float64() < l.faults.Unknown
	d := l.faults.Commit
	if l.faults.CommitJitter > 0 {
		d += quota.Micros(l.rand.Int64N(int64(l.faults.CommitJitter) + 1))
	}
	l.loop.After(d, func() {
		switch {
		case lost || b.Term < l.serving:
			l.LostOnes++
			done(0)
			return
		case b.Term < l.term:
			// Deposed, and the next leader has not begun: it may go either way.
			l.Stale++
			if l.rand.IntN(2) == 0 {
				l.Append(b)
			}
			done(0)
			return
		}
		l.Append(b)
		if unknown {
			l.UnknownOnes++
			done(0)
			return
		}
		done(l.Len())
	})
}
