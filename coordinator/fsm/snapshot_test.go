package fsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quorate/quorate/coordinator/ledger"
)

// sink is a raft.SnapshotSink in memory whose write number fail fails.
type sink struct {
	bytes.Buffer
	fail              int
	closed, cancelled bool
}

var errDisk = errors.New("disk is full")

func (s *sink) Write(b []byte) (int, error) {
	if s.fail--; s.fail == 0 {
		return 0, errDisk
	}
	return s.Buffer.Write(b)
}
func (s *sink) ID() string    { return "test" }
func (s *sink) Close() error  { s.closed = true; return nil }
func (s *sink) Cancel() error { s.cancelled = true; return nil }

func persisted(t *testing.T, f *FSM) []byte {
	t.Helper()
	snap, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	var s sink
	if err := snap.Persist(&s); err != nil || !s.closed || s.cancelled {
		t.Fatalf("persist: have %v, closed %v, cancelled %v", err, s.closed, s.cancelled)
	}
	return s.Bytes()
}

// Wherever the snapshot is taken, snapshot and tail lead to the state that all
// entries lead to.
func TestReplayEqualsSnapshotAndTail(t *testing.T) {
	h := history()
	replayed := New()
	apply(t, replayed, 5, h)
	for cut := range len(h) + 1 {
		before, after := New(), New()
		apply(t, before, 5, h[:cut])
		if err := after.Restore(io.NopCloser(bytes.NewReader(persisted(t, before)))); err != nil {
			t.Fatalf("snapshot after %d entries: %v", cut, err)
		}
		if after.Last() != before.Last() {
			t.Errorf("snapshot after %d entries: have %v, want %v", cut, after.Last(), before.Last())
		}
		apply(t, after, 5+uint64(cut), h[cut:])
		if after.Last() != replayed.Last() {
			t.Errorf("snapshot after %d entries and tail: have %v, want %v", cut, after.Last(), replayed.Last())
		}
	}
}

// K80: the log is applied again at each start; what a snapshot holds already
// changes nothing.
func TestK80EntriesBelowTheSnapshotChangeNothing(t *testing.T) {
	h := history()
	f := New()
	apply(t, f, 5, h)
	want := f.Last()
	for range 3 {
		next := New()
		if err := next.Restore(io.NopCloser(bytes.NewReader(persisted(t, f)))); err != nil {
			t.Fatal(err)
		}
		apply(t, next, 5, h)
		if next.Last() != want {
			t.Fatalf("have %v, want %v", next.Last(), want)
		}
		f = next
	}
}

// A snapshot goes on being written while entries change the state.
func TestSnapshotIsACopy(t *testing.T) {
	f := New()
	apply(t, f, 5, history()[:5])
	want := persisted(t, f)
	snap, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	apply(t, f, 10, history()[5:])
	var s sink
	if err := snap.Persist(&s); err != nil {
		t.Fatal(err)
	}
	a, errA := ReadSnapshot(bytes.NewReader(want))
	b, errB := ReadSnapshot(bytes.NewReader(s.Bytes()))
	if errA != nil || errB != nil || a.Hash != b.Hash || len(a.Accounts) != len(b.Accounts) {
		t.Errorf("the snapshot changed after it was taken: %v %v", errA, errB)
	}
}

func TestSnapshotBytesAreCompatibleForEver(t *testing.T) {
	f := New()
	// One account: accounts are written in no particular order.
	apply(t, f, 5, history()[:3])
	apply(t, f, 8, []ledger.Batch{{Term: 2, At: 3_000_000, Ops: history()[3].Ops[:2]}, history()[4]})
	golden(t, "snapshot-1.hex", persisted(t, f))
	restored := New()
	if err := restored.Restore(io.NopCloser(bytes.NewReader(fromGolden(t, "snapshot-1.hex")))); err != nil {
		t.Fatal(err)
	}
	if restored.Last() != f.Last() {
		t.Errorf("have %v, want %v", restored.Last(), f.Last())
	}
}

// Any changed, missing or additional byte makes the restore fail, and the state
// from before stays.
func TestDamagedSnapshotsChangeNothing(t *testing.T) {
	f := New()
	apply(t, f, 5, history())
	good := persisted(t, f)
	kept := New()
	apply(t, kept, 5, history()[:2])
	want := kept.Last()
	try := func(what string, at int, data []byte) {
		if err := kept.Restore(io.NopCloser(bytes.NewReader(data))); err == nil {
			t.Fatalf("%s at byte %d of %d was restored", what, at, len(good))
		}
		if kept.Last() != want {
			t.Fatalf("%s at byte %d changed the state", what, at)
		}
	}
	for i := range good {
		flipped := bytes.Clone(good)
		flipped[i] ^= 0x20
		try("a flipped bit", i, flipped)
		try("an end", i, good[:i])
	}
	try("an additional byte", len(good), append(bytes.Clone(good), 0))
}

// K78: a record of an unknown kind fails the restore instead of ending it early.
func TestK78UnknownRecordKindIsAHardError(t *testing.T) {
	f := New()
	apply(t, f, 5, history())
	snap := persisted(t, f)
	extra := protowire.AppendTag(nil, 77, protowire.BytesType)
	extra = protowire.AppendBytes(extra, []byte("from the future"))
	size, n := binary.Uvarint(snap)
	after := n + int(size) // of the header
	mixed := bytes.Clone(snap[:after])
	mixed = binary.AppendUvarint(mixed, uint64(len(extra)))
	mixed = append(append(mixed, extra...), snap[after:]...)
	_, err := ReadSnapshot(bytes.NewReader(mixed))
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "record 1") {
		t.Errorf("have %v, want %v in record 1", err, ErrFormat)
	}
}

// The file must never be closed as complete after a failed write.
func TestFailedPersistIsCancelled(t *testing.T) {
	f := New()
	apply(t, f, 5, history())
	snap, _ := f.Snapshot()
	s := sink{fail: 1}
	if err := snap.Persist(&s); !errors.Is(err, errDisk) {
		t.Errorf("have %v, want %v", err, errDisk)
	}
	if s.closed || !s.cancelled {
		t.Errorf("closed %v, cancelled %v", s.closed, s.cancelled)
	}
}

func TestHashIsKnownForRecentIndexes(t *testing.T) {
	f := New()
	apply(t, f, 5, history()[:4])
	if _, ok := f.Hash(4); ok {
		t.Error("index 4 was never applied")
	}
	if h, ok := f.Hash(8); !ok || h != f.Last().Hash {
		t.Error("the hash of the last index is missing")
	}
	if _, ok := f.Hash(8 + stamps); ok {
		t.Error("an index of the future has the hash of an old one")
	}
}

func FuzzReadSnapshot(f *testing.F) {
	m := New()
	for i, b := range history() {
		data, _ := Encode(b)
		batch, _ := Decode(data)
		m.ledger.Apply(uint64(i+1), batch)
		var out bytes.Buffer
		if err := WriteSnapshot(&out, m.ledger.Snapshot()); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ReadSnapshot(bytes.NewReader(data))
		if err != nil {
			return
		}
		ledger.Restore(s) // must not panic
	})
}
