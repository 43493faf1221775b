package rules

import (
	"strconv"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
)

// MaxLogRequests is the largest requests_per_unit of a sliding_window_log: a region's
// store keeps the time and the cost of each request in the window, some 25 bytes.
const MaxLogRequests = 10_000

// Sliding is the sliding window that a key is counted in. It is a part of the key's
// identity: after an edit of the algorithm or of the window's length a new count
// begins, under another key. The zero Sliding is none.
type Sliding struct {
	Algorithm Algorithm // SlidingWindowLog or SlidingWindowCounter
	Length    quota.Micros
}

// Slides reports whether a limit counts in a sliding window.
func (a Algorithm) Slides() bool { return a == SlidingWindowLog || a == SlidingWindowCounter }

// sliding returns the window of a limit.
func (l *Limit) sliding() Sliding {
	if !l.Algorithm.Slides() {
		return Sliding{}
	}
	return Sliding{l.Algorithm, l.Window}
}

// slidingNames stand for the algorithms in keys.
var slidingNames = map[Algorithm]string{SlidingWindowLog: "log", SlidingWindowCounter: "counter"}

// appendSliding writes a window as keys have it.
func appendSliding(dst []byte, s Sliding) []byte {
	dst = append(dst, slidingNames[s.Algorithm]...)
	return strconv.AppendInt(append(dst, '+'), int64(s.Length/quota.Second), 10)
}

// parseSliding undoes appendSliding, and accepts no other spelling.
func parseSliding(text string) (s Sliding, ok bool) {
	name, length, ok := strings.Cut(text, "+")
	n, err := strconv.ParseInt(length, 10, 64)
	if !ok || err != nil || n <= 0 || n > int64(quota.MicrosOf(MaxPeriod)/quota.Second) || strconv.FormatInt(n, 10) != length {
		return Sliding{}, false
	}
	for a, known := range slidingNames {
		if known == name {
			return Sliding{a, quota.Micros(n) * quota.Second}, true
		}
	}
	return Sliding{}, false
}

// slides makes the limit of a sliding window of what was read: no rate, and what the
// window admits as burst.
func (w *walk) slides(x extras, requests field, l *Limit) {
	if !l.Algorithm.Slides() {
		return
	}
	l.Window, l.Rate.Tokens, l.Burst = l.Rate.Per, 0, quota.Whole(uint64(l.RequestsPerUnit))
	if x.burst.value != nil {
		w.problem(x.burst.key, x.burst.trail, "`burst` has no meaning with `algorithm: %s`: `requests_per_unit` is what any window admits; leave it out", l.Algorithm)
	}
	if x.debt.value != nil {
		w.problem(x.debt.key, x.debt.trail, "`max_debt` has no meaning with `algorithm: %s`: nothing is refilled that could pay a debt", l.Algorithm)
	}
	if l.Algorithm == SlidingWindowLog && l.RequestsPerUnit > MaxLogRequests {
		w.problem(requests.value, requests.trail, "`requests_per_unit` may be at most %d with `algorithm: %s`, which remembers each request; use %s for more", MaxLogRequests, l.Algorithm, SlidingWindowCounter)
	}
}
