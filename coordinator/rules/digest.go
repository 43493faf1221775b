package rules

import (
	"crypto/sha256"
	"encoding/hex"
)

// digestBytes is how much of a SHA-256 a digest keeps.
const digestBytes = 16

// Digest returns what stands for a secret in keys, Redis and logs: the first 128 bits
// of its SHA-256, as 32 hexadecimal digits. (In a shell: printf %s SECRET | sha256sum |
// cut -c1-32.) That many bits do not collide by accident or on purpose in practice. It
// hides only what cannot be guessed: an API key, not a name or a short number.
func Digest(secret string) string { return string(appendDigest(nil, secret)) }

func appendDigest(dst []byte, secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return hex.AppendEncode(dst, sum[:digestBytes])
}

// isDigest reports whether Digest may have returned text.
func isDigest(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(text) == 2*digestBytes
}

// indexDigests prepares hidden: it notes under its digest every value of a child
// whose key has a child that hashes.
func (n *node) indexDigests() {
	hashing := map[string]bool{}
	for _, c := range n.children {
		if c.hash {
			hashing[c.key] = true
		}
	}
	for _, c := range n.children {
		if c.value == "" || !hashing[c.key] {
			continue
		}
		if n.digests == nil {
			n.digests = map[Entry]*node{}
		}
		n.digests[Entry{c.key, Digest(c.value)}] = c
	}
}

// hidden returns the child under which requests are counted with a part that has
// a digest. A digest cannot be tried against patterns, so the part names its own,
// and it may be that no request leads to it.
func (n *node) hidden(p Part) *node {
	c, pattern := n.digests[Entry{p.Key, p.Digest}], ""
	if c == nil {
		c = n.exact[Entry{p.Key, p.Value}]
	}
	if c != nil && c.pieces != nil {
		pattern = c.value
	}
	// A value of its own descriptor is counted there only.
	if c == nil || !c.hash || p.Value != pattern {
		return nil
	}
	return c
}

// hiddenKeys are the keys whose values a descriptor at or below n hides, nil for none.
func (n *node) hiddenKeys() (keys map[string]bool) {
	n.walk(func(c *node) {
		if c.hash {
			if keys == nil {
				keys = map[string]bool{}
			}
			keys[c.key] = true
		}
	})
	return keys
}
