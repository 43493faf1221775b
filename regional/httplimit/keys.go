package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"path"

	"github.com/quorate/quorate/regional/caller"
)

// Key is one entry of a descriptor. Name is its key in the rules; Value can be any
// function of the request, and the functions below make the usual ones.
type Key = caller.Key[*http.Request]

// Value is an entry that is the same for all requests.
func Value(name, value string) Key {
	return Key{Name: name, Missing: caller.Share, Value: func(*http.Request) (string, error) { return value, nil }}
}

// Header is the value of a header field. It is whatever the client says: a client that
// is not known by other means takes another value for each request. A field that is
// there more than once is refused.
func Header(name, header string, missing caller.Missing) Key {
	return Key{Name: name, Missing: missing, Value: func(r *http.Request) (string, error) { return one(r, header) }}
}

// APIKey is the caller.Digest of a secret in a header field. Keys should have been
// checked before: of made-up ones a client has as many as it likes.
func APIKey(name, header string, missing caller.Missing) Key {
	return caller.Secret(name, missing, func(r *http.Request) (string, error) { return one(r, header) })
}

// Bearer is the caller.Digest of the bearer token in the field Authorization, with the
// same advice as APIKey. A request of another scheme has none.
func Bearer(name string, missing caller.Missing) Key {
	return caller.Secret(name, missing, func(r *http.Request) (string, error) {
		value, err := one(r, "Authorization")
		return caller.BearerToken(value), err
	})
}

// ClientIP is what from counts of the client's address: itself, or its network. It is
// missing when a client of a Unix socket has none; when a trusted proxy names something
// that is no address the request is refused.
func ClientIP(name string, from *caller.Addresses, missing caller.Missing) Key {
	return Key{Name: name, Missing: missing, Value: func(r *http.Request) (string, error) {
		addr, err := from.Client(r.RemoteAddr, r.Header.Values(from.Header()))
		switch {
		case errors.Is(err, caller.ErrNoAddress):
			return "", nil
		case err != nil:
			return "", err
		}
		return from.Value(addr), nil
	}}
}

// Method is the request's method.
func Method(name string) Key {
	return Key{Name: name, Missing: caller.Share, Value: func(r *http.Request) (string, error) { return r.Method, nil }}
}

// Path is the path of the request's URL, without what means nothing in it (/a//b and
// /a/./b are /a/b). Where paths have identifiers in them, Pattern counts them together.
func Path(name string) Key {
	return Key{Name: name, Missing: caller.Share, Value: func(r *http.Request) (string, error) {
		return path.Clean("/" + r.URL.Path), nil
	}}
}

// Pattern is the pattern by which an http.ServeMux found the handler, as "GET
// /users/{id}". It is missing outside of one: wrap the handlers and not the mux.
func Pattern(name string, missing caller.Missing) Key {
	return Key{Name: name, Missing: missing, Value: func(r *http.Request) (string, error) { return r.Pattern, nil }}
}

// one returns the only value of a header field.
func one(r *http.Request, header string) (string, error) {
	value, err := caller.One(r.Header.Values(header))
	if err != nil {
		return "", fmt.Errorf("header field %s: %w", header, err)
	}
	return value, nil
}
