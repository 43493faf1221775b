package rules

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxMetricValue is how many bytes of one value AppendMetricValue takes.
const MaxMetricValue = 64

// metricLevels returns at which depths metrics tell values apart: where
// detailed_metric or value_to_metric asks for it and requests with different values
// come to the same rule. A pattern of share_threshold counts its values as one, so
// metrics do, too. It is nil for most rules. Source: envoyproxy/ratelimit,
// config_impl.go, GetLimit.
func (r *Rule) metricLevels() (levels []bool) {
	path := r.node.path()
	for i, step := range path {
		varies := step.value == "" || strings.Contains(step.value, "*") && !step.share
		if !varies || !r.DetailedMetric && !step.valued {
			continue
		}
		if levels == nil {
			levels = make([]bool, len(path))
		}
		levels[i] = true
	}
	return levels
}

// MetricValues reports whether metrics tell values of r apart.
func (r *Rule) MetricValues() bool { return r.metric != nil }

// SameMetric reports whether r and other, rules with one ID, tell the same entries
// apart in metrics.
func (r *Rule) SameMetric(other *Rule) bool { return slices.Equal(r.metric, other.metric) }

// AppendMetricValue appends to dst what metrics call the values of entries that
// matched r: "key=value|key2=value2" of those that are told apart, so nothing for
// most rules. It is UTF-8 that prints on one line: every other byte, and those that
// would be ambiguous, are %XX. Values longer than MaxMetricValue are cut and end in
// "…".
func (r *Rule) AppendMetricValue(dst []byte, entries []Entry) []byte {
	first := true
	for i, e := range entries[:min(len(entries), len(r.metric))] {
		if !r.metric[i] {
			continue
		}
		if !first {
			dst = append(dst, '|')
		}
		first = false
		dst = append(appendPrinting(dst, e.Key), '=')
		value := r.Shown(i, e.Value)
		long := len(value) > MaxMetricValue
		if long {
			end := MaxMetricValue
			for end > MaxMetricValue-utf8.UTFMax && !utf8.RuneStart(value[end]) {
				end--
			}
			value = value[:end]
		}
		if dst = appendPrinting(dst, value); long {
			dst = append(dst, "…"...)
		}
	}
	return dst
}

// Shown returns what may be said of the value of the entry at a depth: the value, or
// its digest where hash_value asks for that.
func (r *Rule) Shown(depth int, value string) string {
	if depth < len(r.counting) && r.counting[depth].hash && value != "" {
		return Digest(value)
	}
	return value
}

func appendPrinting(dst []byte, text string) []byte {
	for i := 0; i < len(text); {
		c, n := utf8.DecodeRuneInString(text[i:])
		bad := c == utf8.RuneError && n == 1
		if bad || !unicode.IsPrint(c) || c == '%' || c == '|' || c == '=' || c == '…' {
			for _, b := range []byte(text[i : i+n]) {
				dst = appendEscape(dst, b)
			}
		} else {
			dst = append(dst, text[i:i+n]...)
		}
		i += n
	}
	return dst
}
