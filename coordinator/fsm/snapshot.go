package fsm

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/coordinator/ledger"
	ledgerv1 "github.com/quorate/quorate/proto/ledger/v1"
)

// snapshot is an immutable copy of a ledger's state. Raft persists it while
// entries go on being applied.
type snapshot struct{ state ledger.State }

// Persist writes the snapshot; on any error raft keeps the older ones.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := WriteSnapshot(sink, s.state); err != nil {
		return fmt.Errorf("persist snapshot: %w", errors.Join(err, sink.Cancel()))
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("persist snapshot: %w", err)
	}
	return nil
}

// Release frees nothing: the copy is garbage once raft forgets it.
func (s *snapshot) Release() {}

// WriteSnapshot writes a state as a stream of framed records, ended by their
// number and their hash.
func WriteSnapshot(w io.Writer, s ledger.State) error {
	buf := bufio.NewWriterSize(w, 1<<16)
	out := frameWriter{w: buf, sum: sha256.New()}
	if err := out.write(fromHeader(s)); err != nil {
		return err
	}
	for i := range s.Configs {
		if err := out.write(fromConfig(&s.Configs[i])); err != nil {
			return err
		}
	}
	for i := range s.Regions {
		if err := out.write(fromRegion(&s.Regions[i])); err != nil {
			return err
		}
	}
	for _, m := range s.Marks {
		if err := out.write(fromMark(m)); err != nil {
			return err
		}
	}
	for i := range s.Accounts {
		if err := out.write(fromAccount(&s.Accounts[i])); err != nil {
			return err
		}
	}
	end := &ledgerv1.End{Records: out.records, Sha256: out.sum.Sum(nil)}
	if err := out.write(&ledgerv1.Record{Kind: &ledgerv1.Record_End{End: end}}); err != nil {
		return err
	}
	return buf.Flush()
}

// ReadSnapshot reads what WriteSnapshot wrote, all of it and nothing else. It
// returns ErrFormat for a record this version does not know (K78: a reader that
// stops or skips there would go on with half a state) and ErrCorrupt for bytes
// that do not match their hash.
func ReadSnapshot(r io.Reader) (ledger.State, error) {
	in := frameReader{r: bufio.NewReaderSize(r, 1<<16), sum: sha256.New()}
	var s ledger.State
	for {
		records, sum := in.records, in.sum.Sum(nil)
		rec, err := in.read()
		if err != nil {
			return ledger.State{}, fmt.Errorf("record %d: %w", records, err)
		}
		if end := rec.GetEnd(); end != nil {
			if end.GetRecords() != records || !bytes.Equal(end.GetSha256(), sum) {
				return ledger.State{}, fmt.Errorf("record %d: %w: the hash of %d records does not match", records, ErrCorrupt, records)
			}
			if _, err := in.r.ReadByte(); err != io.EOF {
				return ledger.State{}, fmt.Errorf("record %d: %w: bytes after the end", records, ErrCorrupt)
			}
			return s, nil
		}
		if err := addRecord(&s, rec, records == 0); err != nil {
			return ledger.State{}, fmt.Errorf("record %d: %w", records, err)
		}
	}
}

// maxFrame bounds one record; the largest are rule documents, which came in one
// log entry.
const maxFrame = 2 * MaxEntryBytes

type frameWriter struct {
	w       io.Writer
	sum     hash.Hash
	records uint64
	buf     []byte
}

func (f *frameWriter) write(rec *ledgerv1.Record) error {
	body, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(f.buf[:0], rec)
	if err != nil {
		return fmt.Errorf("encode record %d: %w", f.records, err)
	}
	f.buf = body
	head := binary.AppendUvarint(nil, uint64(len(body)))
	for _, b := range [][]byte{head, body} {
		f.sum.Write(b)
		if _, err := f.w.Write(b); err != nil {
			return fmt.Errorf("write record %d: %w", f.records, err)
		}
	}
	f.records++
	return nil
}

type frameReader struct {
	r       *bufio.Reader
	sum     hash.Hash
	records uint64
}

func (f *frameReader) read() (*ledgerv1.Record, error) {
	size, err := binary.ReadUvarint(f.r)
	if err != nil {
		return nil, fmt.Errorf("%w: the stream ends without an end record: %w", ErrCorrupt, err)
	}
	if size > maxFrame {
		return nil, fmt.Errorf("%w: a record of %d bytes", ErrCorrupt, size)
	}
	// A buffer that grows as bytes arrive: a corrupt length must not allocate.
	var body bytes.Buffer
	if _, err := io.CopyN(&body, f.r, int64(size)); err != nil {
		return nil, fmt.Errorf("%w: the stream ends within a record: %w", ErrCorrupt, err)
	}
	f.sum.Write(binary.AppendUvarint(nil, size))
	f.sum.Write(body.Bytes())
	f.records++
	rec := &ledgerv1.Record{}
	if err := proto.Unmarshal(body.Bytes(), rec); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err := known(rec); err != nil {
		return nil, err
	}
	return rec, nil
}
