package caller

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Digest returns what stands for a secret in keys, Redis and logs: the first 128 bits
// of its SHA-256, as 32 hexadecimal digits. (In a shell: printf %s SECRET | sha256sum |
// cut -c1-32.) That many bits do not collide by accident or on purpose in practice. It
// hides only what cannot be guessed: an API key, not a name or a short number.
func Digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:16])
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
