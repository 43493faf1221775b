package envoyrls

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorate/quorate/regional/enforce"
)

func marshalled(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// everything is a request that has every field.
func everything() *rls.RateLimitRequest {
	a, b := overridden(7, typev3.RateLimitUnit_MINUTE, "user", "1", "path", "/a"), descriptor("x", "")
	a.HitsAddend, a.IsNegativeHits = wrapperspb.UInt64(1<<40), true
	a.Limit.UnitMultiplier = wrapperspb.UInt32(5)
	b.HitsAddend = wrapperspb.UInt64(0)
	return &rls.RateLimitRequest{
		Domain: "api", HitsAddend: 3, Descriptors: []*common.RateLimitDescriptor{a, b, {}, descriptor("", "", "ä", "\x00")},
	}
}

// Whatever comes from the network is read as package proto reads it, also in memory
// that another request was in before.
func FuzzRead(f *testing.F) {
	usual := marshalled(f, everything())
	in := func(number protowire.Number, m ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), m)
	}
	descriptor := func(m ...byte) []byte { return in(2, m...) }
	limit := func(requests, unit byte) []byte { return in(2, 1<<3, requests, 2<<3, unit) }
	for _, m := range [][]byte{
		nil,
		usual,
		slices.Concat(usual, usual),
		usual[:len(usual)-1],
		marshalled(f, &rls.RateLimitRequest{Domain: "api", Descriptors: []*common.RateLimitDescriptor{{Entries: make([]*common.RateLimitDescriptor_Entry, 40)}}}),
		slices.Concat(in(1, 'a'), in(1, 'b')), // the last one counts
		slices.Concat(in(1, 'a'), in(1)),
		in(1, 0xff),
		slices.Concat(in(1, 0xff), in(1, 'a')),
		descriptor(in(1, slices.Concat(in(1, 'k'), in(2, 'v'), in(1, 'l'))...)...),
		descriptor(in(1, in(2, 0xc3)...)...),
		descriptor(slices.Concat(limit(1, 0), limit(2, 3))...),       // the two are one
		descriptor(slices.Concat(in(2, 1<<3, 9), in(2, 2<<3, 3))...), // the two are one
		descriptor(slices.Concat(in(3, 1<<3, 9), in(3))...),          // the two are one
		slices.Concat(descriptor(limit(1, 99)...), []byte{1<<3 | 2}), // no limit, and then no message
		slices.Concat(descriptor(limit(1, 99)...), descriptor(limit(1, 98)...)),
		descriptor(in(2, in(3, 0xff)...)...),                                // a multiplier that is none
		descriptor(in(2, 3<<3, 1)...),                                       // of another type, so unknown
		{1 << 3, 5, 2<<3 | 5, 1, 2, 3, 4, 3<<3 | 1, 1, 2, 3, 4, 5, 6, 7, 8}, // of other types, so unknown
		{3 << 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		{3 << 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}, // more than 64 bits
		{3 << 3, 0x81, 0},
		descriptor(4<<3, 0x80, 2), // true in the second byte
		in(33, 'a'),               // as domain, in one byte
		in(1<<25|1, 'a'),
		in(protowire.MaxValidNumber, 'a'),
		{0x82, 0x80, 0x80, 0x80, 0x10, 0}, // a number that is too large
		{2, 0},                            // number 0
		{9<<3 | 3, 9<<3 | 4},              // a group
		{9<<3 | 3, 10<<3 | 4},
		{9<<3 | 3},
		{9<<3 | 4},
		{9<<3 | 6, 0},
		{9<<3 | 7, 0},
		slices.Repeat([]byte{9<<3 | 3}, 10_001),
		slices.Concat(slices.Repeat([]byte{9<<3 | 3}, 10_001), slices.Repeat([]byte{9<<3 | 4}, 10_001)),
	} {
		f.Add(usual, m)
		f.Add(m, usual)
	}
	f.Fuzz(func(t *testing.T, before, m []byte) {
		var used, fresh call
		_ = used.read(before)
		sameAsProto(t, &used, m)
		sameAsProto(t, &fresh, m)
	})
}

func sameAsProto(t *testing.T, c *call, m []byte) {
	t.Helper()
	var message rls.RateLimitRequest
	err := proto.Unmarshal(m, &message)
	if have := c.read(m); (err != nil) != (have != nil) {
		t.Fatalf("want error %v, have %v", err, have)
	}
	if err != nil {
		return
	}
	want, bad := toRequest(&message)
	if fmt.Sprint(c.bad) != fmt.Sprint(bad) {
		t.Fatalf("want error %v, have %v", bad, c.bad)
	}
	if bad != nil {
		return
	}
	have := c.request
	have.Descriptors = slices.Clone(have.Descriptors)
	for i := range have.Descriptors {
		have.Descriptors[i].Entries = slices.Clip(append(want.Descriptors[i].Entries[:0:0], have.Descriptors[i].Entries...))
	}
	if len(have.Descriptors) == 0 {
		have.Descriptors = nil
	}
	if !reflect.DeepEqual(have, want) {
		t.Fatalf("want %+v, have %+v", want, have)
	}
}

// What a descriptor has must not be written over by what comes after it, nor a request
// grow by what was in its memory before.
func TestMemoryIsUsedAgain(t *testing.T) {
	var c call
	for _, entries := range []int{3, 1, 40, 0, 2} {
		m := &rls.RateLimitRequest{Domain: strings.Repeat("d", entries)}
		for i := range 5 {
			kv := make([]string, 2*entries)
			for j := range kv {
				kv[j] = fmt.Sprint(entries, i, j)
			}
			m.Descriptors = append(m.Descriptors, descriptor(kv...))
		}
		sameAsProto(t, &c, marshalled(t, m))
	}
	m := marshalled(t, &rls.RateLimitRequest{Domain: "api", Descriptors: []*common.RateLimitDescriptor{descriptor("user", "1", "path", "/a")}})
	if n := testing.AllocsPerRun(10, func() {
		if err := c.read(m); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("the same request again: %v allocations", n)
	}
	if c.request.Descriptors[0].Hits != nil || c.request.Descriptors[0].Override != (enforce.Descriptor{}).Override {
		t.Errorf("have %+v", c.request)
	}
}
