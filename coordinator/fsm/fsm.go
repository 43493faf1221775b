package fsm

import (
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/coordinator/ledger"
)

// Stamp is a state: the index of the last entry applied, and the hash of the
// ledger after it. Equal index, equal hash, on every node.
type Stamp struct {
	Index uint64
	Hash  [32]byte
}

// stamps is how many of the last stamps are kept for comparison across nodes:
// minutes of a steady cluster, seconds of a busy one.
const stamps = 1024

// FSM is a raft.FSM over one ledger. Raft calls Apply, Snapshot and Restore
// from one goroutine; View and the stamps may be read from any.
type FSM struct {
	mu     sync.RWMutex
	ledger *ledger.Ledger
	last   Stamp
	ring   [stamps]Stamp
}

// New returns the state before the first entry.
func New() *FSM {
	f := &FSM{ledger: ledger.New()}
	f.last = Stamp{Hash: f.ledger.Hash()}
	return f
}

// Apply applies one log entry and returns its ledger.Result. It panics on an
// entry that it cannot decode: the entry is committed, so the other nodes apply
// it, and a node that skipped it would differ from them from then on.
func (f *FSM) Apply(log *raft.Log) any {
	batch, err := Decode(log.Data)
	if err != nil {
		panic(fmt.Sprintf("apply log entry %d of term %d: %v", log.Index, log.Term, err))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	res := f.ledger.Apply(log.Index, batch)
	f.stamp()
	return res
}

// stamp publishes the present state. The caller holds the lock.
func (f *FSM) stamp() {
	f.last = Stamp{Index: f.ledger.Index(), Hash: f.ledger.Hash()}
	f.ring[f.last.Index%stamps] = f.last
}

// View calls read with the ledger while no entry is being applied. The ledger
// and what it returns must not be used after read has returned.
func (f *FSM) View(read func(*ledger.Ledger)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	read(f.ledger)
}

// Last returns the stamp of the last entry applied. Its index is the FSM's own:
// raft's AppliedIndex may be ahead of it.
func (f *FSM) Last() Stamp {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.last
}

// Hash returns the hash of the state at a recent index; ok is false when the
// index has not been applied here, was no entry of the ledger, or is too old.
func (f *FSM) Hash(index uint64) (hash [32]byte, ok bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	s := f.ring[index%stamps]
	return s.Hash, s.Index == index && index != 0
}

// Snapshot captures the state. It copies and does not encode, so that entries
// wait as little as possible.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return &snapshot{state: f.ledger.Snapshot()}, nil
}

// Restore replaces the state by a snapshot. Everything is decoded and both
// hashes are checked before anything changes.
func (f *FSM) Restore(r io.ReadCloser) error {
	defer r.Close()
	state, err := ReadSnapshot(r)
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	l, err := ledger.Restore(state)
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ledger, f.ring = l, [stamps]Stamp{}
	f.stamp()
	return nil
}
