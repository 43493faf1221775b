package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/quorate/quorate/regional/caller"
)

// Call is a call as it comes in.
type Call struct {
	Context context.Context
	Method  string // /package.Service/Method
}

// Key is one entry of a descriptor. Name is its key in the rules; Value can be any
// function of the call, and the functions below make the usual ones.
type Key = caller.Key[Call]

// Value is an entry that is the same for all calls.
func Value(name, value string) Key {
	return Key{Name: name, Missing: caller.Share, Value: func(Call) (string, error) { return value, nil }}
}

// Metadata is the value of a metadata key. It is whatever the client says: a client
// that is not known by other means takes another value for each call. A key that is
// there more than once is refused.
func Metadata(name, key string, missing caller.Missing) Key {
	return Key{Name: name, Missing: missing, Value: func(c Call) (string, error) { return one(c, key) }}
}

// APIKey is the caller.Digest of a secret in a metadata key. Keys should have been
// checked before: of made-up ones a client has as many as it likes.
func APIKey(name, key string, missing caller.Missing) Key {
	return caller.Secret(name, missing, func(c Call) (string, error) { return one(c, key) })
}

// Bearer is the caller.Digest of the bearer token in the metadata key authorization,
// with the same advice as APIKey. A call of another scheme has none.
func Bearer(name string, missing caller.Missing) Key {
	return caller.Secret(name, missing, func(c Call) (string, error) {
		value, err := one(c, "authorization")
		return caller.BearerToken(value), err
	})
}

// ClientIP is what from counts of the client's address: itself, or its network. It is
// missing when a client of a Unix socket has none; when a trusted proxy names something
// that is no address the call is refused.
func ClientIP(name string, from *caller.Addresses, missing caller.Missing) Key {
	return Key{Name: name, Missing: missing, Value: func(c Call) (string, error) {
		at := ""
		if p, ok := peer.FromContext(c.Context); ok && p.Addr != nil {
			at = p.Addr.String()
		}
		addr, err := from.Client(at, metadata.ValueFromIncomingContext(c.Context, from.Header()))
		switch {
		case errors.Is(err, caller.ErrNoAddress):
			return "", nil
		case err != nil:
			return "", err
		}
		return from.Value(addr), nil
	}}
}

// Method is the full name of the method, /package.Service/Method.
func Method(name string) Key {
	return Key{Name: name, Missing: caller.Share, Value: func(c Call) (string, error) { return c.Method, nil }}
}

// Service is the full name of the service, package.Service.
func Service(name string) Key {
	return Key{Name: name, Missing: caller.Share, Value: func(c Call) (string, error) {
		service, _, _ := strings.Cut(strings.TrimPrefix(c.Method, "/"), "/")
		return service, nil
	}}
}

// one returns the only value of a metadata key.
func one(c Call, key string) (string, error) {
	value, err := caller.One(metadata.ValueFromIncomingContext(c.Context, key))
	if err != nil {
		return "", fmt.Errorf("metadata %s: %w", key, err)
	}
	return value, nil
}
