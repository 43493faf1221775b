package rules

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
)

// Identity is what a key says: which identity of which domain is counted, and
// under which limit of its rule.
type Identity struct {
	Domain string
	Parts  []Part
	Limit  string // name of the limit, empty where the rule has a single one
	Span          // what the limit counts in, where that is no bucket, or whose it is
}

// Span is the end of the key of a limit that counts in windows, or that the request has
// brought. At most one of them is there, and a rule's own bucket has none:
//
//	start+length  a fixed window, in seconds of Unix time
//	log+length    a sliding window, its length in seconds
//	counter+length
//	override+length+requests  a request's limit: so many in so many seconds
type Span struct {
	Window   Window
	Sliding  Sliding
	Override Override
}

// Part is one entry of an Identity. With Pattern, Value is the pattern of a
// `share_threshold` descriptor, whose values all share one bucket. With Digest,
// a `hash_value` descriptor hides the value: Digest stands for it, and Value is
// the descriptor's pattern (then Pattern is true, too) or empty.
type Part struct {
	Key, Value string
	Pattern    bool
	Digest     string
}

// ErrKey says that a text is not the key of any identity.
var ErrKey = errors.New("not a key")

// Key returns the key of r.Limits[limit] for the entries of a request that
// matched r. It depends on the domain, the entries, the limit's name and its sliding
// window only, not on the rule, so that adding or moving rules never resets a bucket.
// For a limit that counts in fixed windows it is what the keys of all of them begin with.
func (r *Rule) Key(domain string, entries []Entry, limit int) quota.Key {
	var buf [256]byte // most keys fit, so the string is the only allocation
	return quota.Key(r.AppendKey(buf[:0], domain, entries, limit))
}

// AppendKey appends to dst what Key returns.
func (r *Rule) AppendKey(dst []byte, domain string, entries []Entry, limit int) []byte {
	dst = appendEntries(dst, domain, entries, r.counting)
	if limit < len(r.Limits) {
		l := &r.Limits[limit]
		dst = appendSpan(appendLimit(dst, l.Name), Span{Sliding: l.sliding()}, l.Name != "")
	}
	return dst
}

// appendEntries appends what a key begins with, up to the limit.
func appendEntries(dst []byte, domain string, entries []Entry, all []counting) []byte {
	dst = appendEscaped(dst, domain)
	for i, e := range entries {
		var c counting
		if i < len(all) {
			c = all[i]
		}
		// An empty value has nothing to hide.
		if c.hash && e.Value != "" {
			dst = appendPart(dst, e.Key, "", c.pattern)
			dst = appendDigest(appendHidden(dst, c.pattern), e.Value)
			continue
		}
		if c.hash {
			c.pattern = ""
		}
		dst = appendPart(dst, e.Key, e.Value, c.pattern)
	}
	return dst
}

// WindowKey returns the key of one window of r.Limits[limit], which counts in fixed ones.
func (r *Rule) WindowKey(domain string, entries []Entry, limit int, w Window) quota.Key {
	var buf [256]byte
	return quota.Key(appendSpan(r.AppendKey(buf[:0], domain, entries, limit), Span{Window: w}, r.Limits[limit].Name != ""))
}

// Key returns the encoding of d:
//
//	domain|key=value|key2=value2#limit#span
//
// The span is there only where the limit counts in windows or is the request's; before
// it the `#` of the limit stands also where that has no name.
//
// Every byte that could be taken for a separator, for a hash tag of Redis, or
// that does not print is %XX. A part with an empty value has no `=`; the stars
// of a pattern are bare, all other stars are escaped. A hidden value is its
// digest after a second `=`, before which its pattern stands, if it has one:
//
//	domain|key==2bb80d537b1da3e38bd30361aa855686|key2=a*=fb8e20fc2e4c3f248c60c39bd652f3c1
//
// Different identities have different keys.
func (d Identity) Key() quota.Key {
	dst := appendEscaped(nil, d.Domain)
	for _, p := range d.Parts {
		if p.Pattern {
			dst = appendPart(dst, p.Key, "", p.Value)
		} else {
			dst = appendPart(dst, p.Key, p.Value, "")
		}
		if p.Digest != "" {
			dst = append(appendHidden(dst, p.Value), p.Digest...)
		}
	}
	return quota.Key(appendSpan(appendLimit(dst, d.Limit), d.Span, d.Limit != ""))
}

func appendPart(dst []byte, key, value, pattern string) []byte {
	dst = append(dst, '|')
	dst = appendEscaped(dst, key)
	switch {
	case pattern != "":
		dst = append(dst, '=')
		for i := range len(pattern) {
			if c := pattern[i]; c == '*' || plain(c) {
				dst = append(dst, c)
			} else {
				dst = appendEscape(dst, c)
			}
		}
	case value != "":
		dst = append(dst, '=')
		dst = appendEscaped(dst, value)
	}
	return dst
}

// appendHidden appends what stands between a part with this pattern and the
// digest.
func appendHidden(dst []byte, pattern string) []byte {
	if pattern == "" {
		dst = append(dst, '=') // appendPart has put none
	}
	return append(dst, '=')
}

func appendLimit(dst []byte, name string) []byte {
	if name == "" {
		return dst
	}
	return appendEscaped(append(dst, '#'), name)
}

// appendSpan appends a span to a key that ends with the limit's name, or that has none.
func appendSpan(dst []byte, s Span, named bool) []byte {
	if s == (Span{}) {
		return dst
	}
	if !named {
		dst = append(dst, '#')
	}
	dst = append(dst, '#')
	switch {
	case !s.Override.IsZero():
		return appendOverride(dst, s.Override)
	case !s.Window.IsZero():
		return appendWindow(dst, s.Window)
	}
	return appendSliding(dst, s.Sliding)
}

// parseSpan undoes appendSpan, and accepts no other spelling.
func parseSpan(text string) (s Span, ok bool) {
	if s.Window, ok = parseWindow(text); ok {
		return s, true
	}
	if s.Sliding, ok = parseSliding(text); ok {
		return s, true
	}
	s.Override, ok = parseOverride(text)
	return s, ok
}

func appendEscaped(dst []byte, text string) []byte {
	from := 0
	for i := range len(text) {
		if !plain(text[i]) {
			dst = append(dst, text[from:i]...)
			dst = appendEscape(dst, text[i])
			from = i + 1
		}
	}
	return append(dst, text[from:]...)
}

func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789ABCDEF"
	return append(dst, '%', hex[c>>4], hex[c&15])
}

// plain reports whether a byte stands for itself in a key.
func plain(c byte) bool { return plainBytes[c] }

var plainBytes = func() (table [256]bool) {
	for c := '!'; c <= '~'; c++ {
		table[c] = !strings.ContainsRune("%|=#{}*", c)
	}
	return table
}()

// DecodeKey undoes Identity.Key. It accepts only what Key returns: a second
// spelling of an identity would be a second bucket.
func DecodeKey(k quota.Key) (Identity, error) {
	var d Identity
	var buf [8]Part
	domain, parts, limit, span, ok := decodeKey(string(k), buf[:0])
	if !ok {
		return d, fmt.Errorf("decode key %.80q: %w", string(k), ErrKey)
	}
	d.Domain, d.Limit, d.Span = domain, limit, span
	if len(parts) > 0 {
		d.Parts = append(d.Parts, parts...)
	}
	return d, nil
}

func decodeKey(text string, dst []Part) (domain string, parts []Part, limit string, span Span, ok bool) {
	text, limit, named := strings.Cut(text, "#")
	limit, end, spanned := strings.Cut(limit, "#")
	if limit, ok = unescape(limit); !ok || named && limit == "" && !spanned {
		return "", nil, "", Span{}, false
	}
	if spanned {
		if span, ok = parseSpan(end); !ok {
			return "", nil, "", Span{}, false
		}
	}
	head, rest, more := strings.Cut(text, "|")
	if domain, ok = unescape(head); !ok {
		return "", nil, "", Span{}, false
	}
	for more {
		head, rest, more = strings.Cut(rest, "|")
		key, value, valued := strings.Cut(head, "=")
		value, digest, hidden := strings.Cut(value, "=")
		p := Part{Digest: digest}
		if p.Key, ok = unescape(key); !ok {
			return "", nil, "", Span{}, false
		}
		if p.Pattern = strings.Contains(value, "*"); p.Pattern {
			p.Value, ok = unescapePattern(value)
		} else {
			p.Value, ok = unescape(value)
		}
		if hidden && (!isDigest(digest) || p.Value != "" && !p.Pattern) {
			return "", nil, "", Span{}, false
		}
		if !ok || valued && !hidden && p.Value == "" {
			return "", nil, "", Span{}, false
		}
		dst = append(dst, p)
	}
	return domain, dst, limit, span, true
}

func unescape(text string) (string, bool) { return unescapeBut(text, false) }

func unescapePattern(text string) (string, bool) { return unescapeBut(text, true) }

// unescapeBut allocates only where there is something to unescape.
func unescapeBut(text string, stars bool) (string, bool) {
	var b []byte
	from := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if plain(c) || stars && c == '*' {
			continue
		}
		if c != '%' || i+2 >= len(text) {
			return "", false
		}
		hi, lo := unhex(text[i+1]), unhex(text[i+2])
		if hi < 0 || lo < 0 {
			return "", false
		}
		decoded := byte(hi<<4 | lo)
		// A star of a pattern is never escaped, and nothing is that need not be.
		if plain(decoded) || stars && decoded == '*' {
			return "", false
		}
		b = append(append(b, text[from:i]...), decoded)
		i += 2
		from = i + 1
	}
	if b == nil {
		return text, true
	}
	return string(append(b, text[from:]...)), true
}

func unhex(c byte) int { return strings.IndexByte("0123456789ABCDEF", c) }
