package rules

import "strings"

// fits reports whether value matches a pattern given as the literal pieces
// around its stars; each star stands for any run of bytes, also for none. The
// leftmost place of each middle piece is as good as any other, so there is
// nothing to try twice.
func fits(pieces []string, value string) bool {
	first, last := pieces[0], pieces[len(pieces)-1]
	if len(value) < len(first)+len(last) || !strings.HasPrefix(value, first) || !strings.HasSuffix(value, last) {
		return false
	}
	rest := value[len(first) : len(value)-len(last)]
	for _, piece := range pieces[1 : len(pieces)-1] {
		i := strings.Index(rest, piece)
		if i < 0 {
			return false
		}
		rest = rest[i+len(piece):]
	}
	return true
}

// overlap reports whether some value matches both patterns. Only then does the
// order of the two matter.
func overlap(a, b string) bool {
	// meets[j] says whether a[i:] and b[j:] have a common value, computed from
	// the ends of both patterns.
	meets := make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		next := make([]bool, len(b)+1)
		for j := len(b); j >= 0; j-- {
			switch {
			case i == len(a) && j == len(b):
				next[j] = true
			case i < len(a) && a[i] == '*':
				next[j] = meets[j] || j < len(b) && next[j+1]
			case j < len(b) && b[j] == '*':
				next[j] = next[j+1] || i < len(a) && meets[j]
			default:
				next[j] = i < len(a) && j < len(b) && a[i] == b[j] && meets[j+1]
			}
		}
		meets = next
	}
	return meets[0]
}
