package caller

import (
	"errors"
	"fmt"
)

// Missing says what to do with a call that has no value for a key. There is no
// default: a limit that whoever leaves out a header escapes is a choice to make.
type Missing uint8

// The policies.
const (
	_ Missing = iota
	// Refuse answers that the call makes no sense: 400, or INVALID_ARGUMENT.
	Refuse
	// Skip does not count the descriptor; others of the call are counted. Whoever
	// leaves the value out is not limited by it.
	Skip
	// Share counts all such calls under one key, whose value is empty.
	Share
)

// maxValue bounds the values that a caller has chosen, in bytes: they are kept, in the
// region's Redis and at the coordinator. A longer one is counted under its Digest.
const maxValue = 256

// Key is one entry of a descriptor, read from calls of type T.
type Key[T any] struct {
	// Name is the entry's key, as the rules have it.
	Name string
	// Missing is what happens when Value returns an empty text.
	Missing Missing
	// Value reads the entry's value. An error says that the call makes no sense: it
	// is refused whatever Missing says, and told to the caller, so it has no secret.
	Value func(call T) (string, error)
}

// ErrMany: a value that there can be one of is there several times.
var ErrMany = errors.New("given more than once")

// One returns the only one of values, empty for none.
func One(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", ErrMany
}

// RefusedError is a call that makes no sense.
type RefusedError struct {
	Name string // of the key
	Err  error
}

// ErrMissing: the call has no value for a key.
var ErrMissing = errors.New("missing")

func (e *RefusedError) Error() string { return fmt.Sprintf("rate limit key %q: %v", e.Name, e.Err) }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }
