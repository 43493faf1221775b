package envoyrls

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// tag is the number of a field and its type on the wire. Those that are written are one
// byte there.
type tag uint64

const (
	varint    = tag(protowire.VarintType)
	delimited = tag(protowire.BytesType)
)

// The fields that are read and written: Envoy's names, message by message.
const (
	requestDomain      = 1<<3 | delimited
	requestDescriptors = 2<<3 | delimited
	requestHitsAddend  = 3<<3 | varint

	descriptorEntries        = 1<<3 | delimited
	descriptorLimit          = 2<<3 | delimited
	descriptorHitsAddend     = 3<<3 | delimited
	descriptorIsNegativeHits = 4<<3 | varint

	entryKey   = 1<<3 | delimited
	entryValue = 2<<3 | delimited

	overrideRequestsPerUnit = 1<<3 | varint
	overrideUnit            = 2<<3 | varint
	overrideUnitMultiplier  = 3<<3 | delimited

	wrapperValue = 1<<3 | varint // of UInt32Value and UInt64Value

	responseOverallCode          = 1<<3 | varint
	responseStatuses             = 2<<3 | delimited
	responseResponseHeadersToAdd = 3<<3 | delimited
	responseDynamicMetadata      = 6<<3 | delimited

	statusCode               = 1<<3 | varint
	statusCurrentLimit       = 2<<3 | delimited
	statusLimitRemaining     = 3<<3 | varint
	statusDurationUntilReset = 4<<3 | delimited

	limitRequestsPerUnit = 1<<3 | varint
	limitUnit            = 2<<3 | varint
	limitName            = 3<<3 | delimited

	headerKey   = 1<<3 | delimited
	headerValue = 2<<3 | delimited

	durationSeconds = 1<<3 | varint
	durationNanos   = 2<<3 | varint
)

var (
	errUTF8   = errors.New("string field contains invalid UTF-8")
	errNumber = errors.New("field number is too large")
)

// field is one field of a message.
type field struct {
	tag   tag
	n     uint64 // of a varint
	bytes []byte // of what is delimited
}

// cut reads the first field of a message into f and returns the others. Of what is
// neither a varint nor delimited it only makes sure that it is well-formed.
func (f *field) cut(m []byte) (rest []byte, err error) {
	number, typ, n := protowire.ConsumeTag(m)
	if n < 0 {
		return nil, protowire.ParseError(n)
	}
	if number > protowire.MaxValidNumber {
		return nil, errNumber
	}
	m = m[n:]
	f.tag = tag(protowire.EncodeTag(number, typ))
	switch typ {
	case protowire.VarintType:
		f.n, n = protowire.ConsumeVarint(m)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(m)
	default:
		n = protowire.ConsumeFieldValue(number, typ, m)
	}
	if n < 0 {
		return nil, protowire.ParseError(n)
	}
	return m[n:], nil
}

// text returns the field's string. It is was where that says the same, so that what
// requests have in common costs no memory.
func (f *field) text(was string) (string, error) {
	switch {
	case was == string(f.bytes):
		return was, nil
	case !utf8.Valid(f.bytes):
		return "", errUTF8
	}
	return string(f.bytes), nil
}

// appendNumber appends a field. Zero is what an absent field says.
func appendNumber(m []byte, t tag, n uint64) []byte {
	if n == 0 {
		return m
	}
	return protowire.AppendVarint(append(m, byte(t)), n)
}

// appendText appends a field. The empty string is what an absent field says.
func appendText(m []byte, t tag, s string) []byte {
	if s == "" {
		return m
	}
	return protowire.AppendString(append(m, byte(t)), s)
}

// begin begins a message in a message: what is appended from at until end is called.
func begin(m []byte, t tag) (_ []byte, at int) {
	return append(m, byte(t), 0), len(m) + 2
}

// end puts the length before the message, for which begin has left one byte.
func end(m []byte, at int) []byte {
	n := uint64(len(m) - at)
	var more [9]byte
	m = append(m, more[:protowire.SizeVarint(n)-1]...)
	copy(m[len(m)-int(n):], m[at:])
	protowire.AppendVarint(m[:at-1], n)
	return m
}
