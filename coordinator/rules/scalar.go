package rules

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// text reads a scalar as text. YAML takes an unquoted 007, yes or 2026-01-01
// for something else than text, but what was written is what is meant. A number
// with a point or an exponent is refused, as envoyproxy/ratelimit does: it may
// have several spellings. An empty value is the empty text.
func (w *walk) text(f field) (string, bool) {
	n := f.value
	if n.Kind == yaml.ScalarNode {
		switch n.ShortTag() {
		case "!!str", "!!int", "!!bool", "!!timestamp":
			return n.Value, true
		case "!!null":
			if n.Value == "" {
				return "", true
			}
			w.problem(n, f.trail, "%s is %s, which is nothing to YAML; put it in quotes if it is meant as text, or leave it out", f.trail.what(), quoted(n.Value))
			return "", false
		case "!!float":
			w.problem(n, f.trail, "%s is the number %s; put it in quotes if it is meant as text", f.trail.what(), quoted(n.Value))
			return "", false
		}
	}
	w.problem(n, f.trail, "%s must be text, not %s", f.trail.what(), describe(n))
	return "", false
}

// isText reports whether n is an empty or a textual scalar.
func isText(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && (isNull(n) || n.ShortTag() == "!!str")
}

// boolean reads true or false, and the other words for it of YAML 1.1 that
// envoyproxy/ratelimit takes.
func (w *walk) boolean(f field) bool {
	n := f.value
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		switch n.Value {
		case "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y":
			return true
		case "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N":
			return false
		}
	}
	w.problem(n, f.trail, "%s must be true or false, not %s", f.trail.what(), describe(n))
	return false
}

// integer reads a whole number in decimal, from low to high. Every other
// spelling is refused: 010 is eight to some readers and ten to others.
func (w *walk) integer(f field, low, high uint64) (uint64, bool) {
	n := f.value
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" {
		hint := ""
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && wholeNumber.MatchString(n.Value) {
			hint = "; remove the quotes"
		}
		w.problem(n, f.trail, "%s must be a whole number from %d to %d, not %s%s", f.trail.what(), low, high, describe(n), hint)
		return 0, false
	}
	if !wholeNumber.MatchString(n.Value) && !strings.HasPrefix(n.Value, "-") {
		w.problem(n, f.trail, "%s is %s; write it as a plain decimal number", f.trail.what(), quoted(n.Value))
		return 0, false
	}
	v, err := strconv.ParseUint(strings.ReplaceAll(n.Value, "_", ""), 10, 64)
	if err != nil || v < low || v > high {
		w.problem(n, f.trail, "%s must be a whole number from %d to %d, not %s", f.trail.what(), low, high, describe(n))
		return 0, false
	}
	return v, true
}

var (
	wholeNumber = regexp.MustCompile(`^(0|[1-9][0-9_]*)$`)
	fraction    = regexp.MustCompile(`^(0|1|0?\.[0-9]+|[01]\.[0-9]*)$`)
)

// millionths reads a fraction from 0 to 1 exactly, in parts per million.
func (w *walk) millionths(f field) (int64, bool) {
	n := f.value
	tag := n.ShortTag()
	if n.Kind != yaml.ScalarNode || tag != "!!float" && tag != "!!int" || !fraction.MatchString(n.Value) {
		w.problem(n, f.trail, "%s must be a fraction from 0 to 1 like 0.1, not %s", f.trail.what(), describe(n))
		return 0, false
	}
	whole, decimals, _ := strings.Cut(n.Value, ".")
	decimals = strings.TrimRight(decimals, "0")
	if len(decimals) > 6 {
		w.problem(n, f.trail, "%s is %s; at most 6 decimals count", f.trail.what(), quoted(n.Value))
		return 0, false
	}
	digits := whole + decimals + strings.Repeat("0", 6-len(decimals))
	ppm, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || ppm > 1_000_000 {
		w.problem(n, f.trail, "%s must be a fraction from 0 to 1 like 0.1, not %s", f.trail.what(), describe(n))
		return 0, false
	}
	return ppm, true
}

// choice reads one of several words and returns its index.
func (w *walk) choice(f field, names []string, fold bool) (int, bool) {
	n := f.value
	if n.Kind != yaml.ScalarNode || isNull(n) || n.Value == "" {
		w.problem(n, f.trail, "%s must be one of %s, not %s", f.trail.what(), strings.Join(names, ", "), describe(n))
		return 0, false
	}
	if i := indexOf(names, n.Value, fold); i >= 0 {
		return i, true
	}
	w.problem(n, f.trail, "%s must be one of %s, not %s%s", f.trail.what(), strings.Join(names, ", "), describe(n), didYouMean(n.Value, names))
	return 0, false
}
