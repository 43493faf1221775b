package fsm

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	ledgerv1 "github.com/quorate/quorate/proto/ledger/v1"
)

// Format is the format number of entries and snapshots that this version
// writes, and the only one it reads.
const Format = 1

// MaxEntryBytes bounds one log entry. A leader keeps its batches far below; a
// rule document that would not fit is refused before it is proposed.
const MaxEntryBytes = 16 << 20

var (
	// ErrFormat means that the bytes were written by a version that knows more
	// than this one. Upgrade this node.
	ErrFormat = errors.New("written by a newer version of quorate; upgrade this node")
	// ErrCorrupt means that the bytes are not what any version writes.
	ErrCorrupt = errors.New("corrupt data; restore this node's data directory from another node")
	// ErrTooLarge means that an entry exceeds MaxEntryBytes.
	ErrTooLarge = errors.New("log entry is too large")
)

// Encode writes a batch as one log entry. It fails on an operation that the
// disk contract does not know, on text that is not UTF-8, and on an entry above
// MaxEntryBytes.
func Encode(b ledger.Batch) ([]byte, error) {
	e := &ledgerv1.Entry{Format: Format, Term: b.Term, AtUs: int64(b.At)}
	for _, op := range b.Ops {
		m, err := fromOp(op)
		if err != nil {
			return nil, fmt.Errorf("encode entry: %w", err)
		}
		e.Ops = append(e.Ops, m)
	}
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode entry: %w", err)
	}
	if len(out) > MaxEntryBytes {
		return nil, fmt.Errorf("encode entry of %d operations: %w: %d bytes, at most %d", len(b.Ops), ErrTooLarge, len(out), MaxEntryBytes)
	}
	return out, nil
}

// Decode reads a log entry. It returns ErrFormat when the entry holds anything
// that this version does not know, and ErrCorrupt when it is not an entry.
func Decode(data []byte) (ledger.Batch, error) {
	var e ledgerv1.Entry
	if err := proto.Unmarshal(data, &e); err != nil {
		return ledger.Batch{}, fmt.Errorf("decode entry: %w: %w", ErrCorrupt, err)
	}
	if e.GetFormat() == 0 {
		return ledger.Batch{}, fmt.Errorf("decode entry: %w: it has no format number", ErrCorrupt)
	}
	if e.GetFormat() != Format {
		return ledger.Batch{}, fmt.Errorf("decode entry: %w: format %d, this version reads %d", ErrFormat, e.GetFormat(), Format)
	}
	if err := known(&e); err != nil {
		return ledger.Batch{}, fmt.Errorf("decode entry: %w", err)
	}
	b := ledger.Batch{Term: e.GetTerm(), At: quota.Micros(e.GetAtUs())}
	for i, m := range e.GetOps() {
		op, err := toOp(m)
		if err != nil {
			return ledger.Batch{}, fmt.Errorf("decode operation %d of entry: %w", i, err)
		}
		b.Ops = append(b.Ops, op)
	}
	return b, nil
}
