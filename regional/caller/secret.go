package caller

import (
	"strings"

	"github.com/quorate/quorate/coordinator/rules"
)

// Digest is rules.Digest: what stands for a secret in keys, Redis and logs.
func Digest(secret string) string { return rules.Digest(secret) }

// Secret is an entry whose value is the Digest of what read returns.
func Secret[T any](name string, missing Missing, read func(call T) (string, error)) Key[T] {
	return Key[T]{Name: name, Missing: missing, Value: func(call T) (string, error) {
		value, err := read(call)
		if value == "" || err != nil {
			return "", err
		}
		return Digest(value), nil
	}}
}

// BearerToken returns the token in the value of an Authorization header, empty where it
// is of another scheme. The scheme's case does not matter, or a client would have many
// names.
func BearerToken(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.Trim(token, " ")
}
