package fsm

import (
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	ledgerv1 "github.com/quorate/quorate/proto/ledger/v1"
)

var update = flag.Bool("update", false, "rewrite the golden files; only for a new format number")

// everyOp has every operation with every field set.
func everyOp() ledger.Batch {
	lease := quota.Capacity{Rate: quota.Rate{Tokens: 7, Per: 8}, Burst: 9}
	return ledger.Batch{Term: 3, At: 4, Ops: []ledger.Op{
		ledger.Found{Cluster: "c", Shares: quota.Shares{{Region: "eu", Weight: 2}}},
		ledger.Lead{Node: "n1", Address: "n1:7600"},
		ledger.OpenSession{Region: "eu", Incarnation: "i2", Replaces: "i1"},
		ledger.EndSession{Region: "eu", Session: 5},
		ledger.MarkSilent{Region: "eu", Session: 5, Silent: true},
		ledger.Assign{Region: "eu", Session: 5, Key: "api|user=a\xff", Prev: 6, Lease: lease, Credit: 10, Release: true},
		ledger.Confirm{Region: "eu", Session: 5, Key: "k", Epoch: 11, Surrendered: 12},
		ledger.Drop{Key: "k"},
		ledger.SetRules{Sources: []quota.Source{{Name: "a.yaml", Text: "domain: a\n"}}, IfVersion: new(uint64(13))},
		ledger.AddRegion{Region: "us", Weight: 14},
		ledger.DrainRegion{Region: "us"},
		ledger.RemoveRegion{Region: "us", Force: true},
		ledger.Offer{Region: "eu", Version: 15},
		ledger.Adopted{Region: "eu", Version: 16},
		ledger.Lend{Region: "eu", Session: 5, Key: "k", Prev: 17, For: 18},
		ledger.Borrow{Region: "us", Session: 6, Key: "k", Prev: 19, Lenders: []string{"eu"}},
		ledger.EndLoan{Key: "k", Lender: "eu"},
	}}
}

// No condition and the condition that there are no rules yet are not the same.
func TestConditionOfAnEditSurvivesTheEntry(t *testing.T) {
	for _, want := range []*uint64{nil, new(uint64(0)), new(uint64(1))} {
		data, err := Encode(ledger.Batch{Ops: []ledger.Op{ledger.SetRules{IfVersion: want}}})
		if err != nil {
			t.Fatal(err)
		}
		batch, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if have := batch.Ops[0].(ledger.SetRules).IfVersion; !reflect.DeepEqual(have, want) {
			t.Errorf("have %v, want %v", have, want)
		}
	}
}

func TestEveryOperationSurvivesTheEntry(t *testing.T) {
	want := everyOp()
	data, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	have, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("have %+v\nwant %+v", have, want)
	}
	kinds := (&ledgerv1.Op{}).ProtoReflect().Descriptor().Fields().Len()
	if len(want.Ops) != kinds {
		t.Errorf("the test has %d operations, the disk contract %d", len(want.Ops), kinds)
	}
	for _, op := range want.Ops {
		v := reflect.ValueOf(op)
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%T.%s is not set, so the test does not see it", op, v.Type().Field(i).Name)
			}
		}
	}
}

// The bytes of format 1 are on disks: they never change.
func TestEntryBytesAreCompatibleForEver(t *testing.T) {
	data, err := Encode(everyOp())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "entry-1.hex", data)
	batch, err := Decode(fromGolden(t, "entry-1.hex"))
	if err != nil || !reflect.DeepEqual(batch, everyOp()) {
		t.Errorf("decode the golden entry: have %+v, %v", batch, err)
	}
}

func golden(t *testing.T, name string, have []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		var b strings.Builder
		for i := 0; i < len(have); i += 32 {
			b.WriteString(hex.EncodeToString(have[i:min(i+32, len(have))]) + "\n")
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := fromGolden(t, name); string(have) != string(want) {
		t.Errorf("%s: the bytes on disk have changed:\nhave %x\nwant %x", name, have, want)
	}
}

func fromGolden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	data, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestWhatIsNoEntryIsRefused(t *testing.T) {
	good, err := Encode(everyOp())
	if err != nil {
		t.Fatal(err)
	}
	unknownField := protowire.AppendTag(append([]byte{}, good...), 99, protowire.VarintType)
	unknownField = protowire.AppendVarint(unknownField, 1)
	// Field 4 of an entry is an operation; 99 is a kind that does not exist.
	newOp := protowire.AppendTag(nil, 99, protowire.BytesType)
	newOp = protowire.AppendBytes(newOp, []byte("x"))
	unknownOp := protowire.AppendTag(append([]byte{}, good...), 4, protowire.BytesType)
	unknownOp = protowire.AppendBytes(unknownOp, newOp)
	noOp := protowire.AppendTag(append([]byte{}, good...), 4, protowire.BytesType)
	noOp = protowire.AppendBytes(noOp, nil)
	for _, tt := range []struct {
		reason string
		data   []byte
		want   error
	}{
		{"nothing at all", nil, ErrCorrupt},
		{"no protobuf", []byte("\xff\xff\xff"), ErrCorrupt},
		{"cut in the middle", good[:len(good)-1], ErrCorrupt},
		{"an operation of no kind", noOp, ErrCorrupt},
		{"a newer format", []byte{8, 2}, ErrFormat},
		{"a newer field", unknownField, ErrFormat},
		{"a newer operation", unknownOp, ErrFormat},
	} {
		if _, err := Decode(tt.data); !errors.Is(err, tt.want) {
			t.Errorf("%s: have %v, want %v", tt.reason, err, tt.want)
		}
		func() {
			defer func() {
				text, _ := recover().(string)
				if !strings.Contains(text, "apply log entry 7 of term 2") {
					t.Errorf("%s: have panic %q, want one that names the entry", tt.reason, text)
				}
			}()
			New().Apply(&raft.Log{Index: 7, Term: 2, Data: tt.data})
		}()
	}
}

func TestEntriesTooLargeAreRefusedBeforeTheyAreProposed(t *testing.T) {
	big := ledger.SetRules{Sources: []quota.Source{{Name: "a.yaml", Text: strings.Repeat("#", MaxEntryBytes)}}}
	if _, err := Encode(ledger.Batch{Ops: []ledger.Op{big}}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("have %v, want %v", err, ErrTooLarge)
	}
}

// Whatever the bytes, Decode returns an error or a batch that encodes again.
func FuzzDecodeEntry(f *testing.F) {
	for _, b := range append(history(), everyOp()) {
		data, err := Encode(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := Decode(again); err != nil || !reflect.DeepEqual(have, b) {
			t.Fatalf("have %+v, %v\nwant %+v", have, err, b)
		}
		ledger.New().Apply(1, b) // must not panic
	})
}
