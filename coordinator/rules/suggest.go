package rules

import (
	"slices"
	"strings"
)

// level is where in a document a key stands.
type level uint8

const (
	levelDocument level = iota
	levelDescriptor
	levelLimit
	levelListedLimit
	levelReplaces
	levelQuota
	levelWeights
	levelMetadata
)

// home says where each key of the grammar belongs.
var home = []struct {
	keys   []string
	levels []level
	text   string
}{
	{documentKeys, []level{levelDocument}, "at the top of the document"},
	{descriptorKeys, []level{levelDescriptor}, "in the descriptor, beside `key`"},
	{limitKeys, []level{levelLimit, levelListedLimit}, "under `rate_limit`"},
	{quotaKeys, []level{levelQuota}, "under `quota` of a `rate_limit`"},
}

func contains(names []string, name string) bool { return slices.Contains(names, name) }

// unknownKey says what is wrong with a key that does not belong where it is,
// and what would be right: the key that was probably meant, or its place.
func unknownKey(name string, at level, known []string) string {
	msg := "unknown key " + quoted(name)
	var places []string
	for _, h := range home {
		if !contains(h.keys, name) {
			continue
		}
		if slices.Contains(h.levels, at) { // unlimited, in a list of limits
			return msg + " here; it is for `rate_limit` only"
		}
		places = append(places, h.text)
	}
	if len(places) > 0 {
		return msg + " here; it belongs " + strings.Join(places, ", or ")
	}
	if hint := didYouMean(name, known); hint != "" {
		return msg + hint
	}
	for _, h := range home {
		if near := nearest(name, h.keys); near != "" {
			return msg + "; did you mean " + quoted(near) + "? It belongs " + h.text
		}
	}
	return msg + "; known here: " + strings.Join(known, ", ")
}

// didYouMean returns "; did you mean `x`?" for the known name nearest to name,
// or nothing when none is near.
func didYouMean(name string, known []string) string {
	if near := nearest(name, known); near != "" {
		return "; did you mean " + quoted(near) + "?"
	}
	return ""
}

// nearest returns the known name that differs least, if a slip of the hand can
// explain the difference; case and separators count for nothing.
func nearest(name string, known []string) string {
	const longest = 64 // nobody mistypes more than that, and distance is quadratic
	if len(name) > longest {
		return ""
	}
	best, least := "", 0
	folded := fold(name)
	for _, k := range known {
		target := fold(k)
		d := distance(folded, target)
		if d > max(1, min(len(folded), len(target))/3) {
			continue
		}
		if best == "" || d < least {
			best, least = k, d
		}
	}
	return best
}

func fold(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func distance(a, b string) int {
	before := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
