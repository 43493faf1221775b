package raftnode

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

var (
	// ErrDisk means that the log or a snapshot could not be written, or not in
	// time. The node ends: one that cannot persist must not vote or lead.
	ErrDisk = errors.New("data directory cannot be written")
	// ErrDataDir means that the data directory belongs to another node or
	// process, or cannot be used.
	ErrDataDir = errors.New("data directory cannot be used")
)

// snapshotsKept is how many snapshots stay on disk: when the last one turns out
// to be damaged, an older one with the log after it leads to the same state.
const snapshotsKept = 3

func openBolt(dir string) (*raftboltdb.BoltStore, error) {
	path := filepath.Join(dir, "raft.db")
	store, err := raftboltdb.New(raftboltdb.Options{
		Path: path,
		// The free list is rebuilt at start instead of being written at every
		// commit. The lock is waited for a little, for a predecessor that ends.
		BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: 2 * time.Second},
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%w: %s is locked by another process; each node needs its own --data-dir", ErrDataDir, path)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: open %s: %w", ErrDataDir, path, err)
	}
	return store, nil
}

// guard watches writes: the first one that fails, or that takes longer than
// limit, is reported to fail, once per write.
type guard struct {
	limit time.Duration
	fail  func(error)
}

func (g guard) write(what string, write func() error) error {
	late := time.AfterFunc(g.limit, func() {
		g.fail(fmt.Errorf("%w: %s has taken longer than %s", ErrDisk, what, g.limit))
	})
	defer late.Stop()
	err := write()
	if err != nil {
		g.fail(fmt.Errorf("%w: %s: %w", ErrDisk, what, err))
	}
	return err
}

// logStore and stableStore pass on to the bolt store and guard its writes.
type logStore struct {
	raft.LogStore
	guard guard
}

func (s logStore) StoreLog(l *raft.Log) error {
	return s.guard.write("append to the log", func() error { return s.LogStore.StoreLog(l) })
}

func (s logStore) StoreLogs(l []*raft.Log) error {
	return s.guard.write("append to the log", func() error { return s.LogStore.StoreLogs(l) })
}

func (s logStore) DeleteRange(low, high uint64) error {
	return s.guard.write("truncate the log", func() error { return s.LogStore.DeleteRange(low, high) })
}

type stableStore struct {
	raft.StableStore
	guard guard
}

func (s stableStore) Set(k, v []byte) error {
	return s.guard.write("write term or vote", func() error { return s.StableStore.Set(k, v) })
}

func (s stableStore) SetUint64(k []byte, v uint64) error {
	return s.guard.write("write term or vote", func() error { return s.StableStore.SetUint64(k, v) })
}

// snapshotStore guards the writes of snapshots.
type snapshotStore struct {
	raft.SnapshotStore
	guard guard
}

func (s snapshotStore) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, t raft.Transport) (raft.SnapshotSink, error) {
	var sink raft.SnapshotSink
	err := s.guard.write("create a snapshot", func() (err error) {
		sink, err = s.SnapshotStore.Create(v, index, term, c, at, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	return snapshotSink{sink, s.guard}, nil
}

type snapshotSink struct {
	raft.SnapshotSink
	guard guard
}

func (s snapshotSink) Write(b []byte) (n int, err error) {
	err = s.guard.write("write a snapshot", func() error {
		n, err = s.SnapshotSink.Write(b)
		return err
	})
	return n, err
}

func (s snapshotSink) Close() error {
	return s.guard.write("complete a snapshot", s.SnapshotSink.Close)
}

// restoreGuard reports a snapshot from the leader that could not be restored:
// raft logs it and goes on, and would try for ever.
type restoreGuard struct {
	raft.FSM
	fail func(error)
}

func (f restoreGuard) Restore(r io.ReadCloser) error {
	err := f.FSM.Restore(r)
	if err != nil {
		f.fail(err)
	}
	return err
}
