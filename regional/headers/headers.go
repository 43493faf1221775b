// Package headers renders one decision as HTTP header fields, for every front
// end alike: an Envoy that copies them from the reply and a client that asks
// over HTTP must read the same numbers.
//
// Three conventions exist side by side and each has its readers:
//
//   - X-RateLimit-Limit, -Remaining, -Reset (and -Retry-After on a denial)
//     describe the one limit that binds: the one to wait longest for when the
//     request is denied, else the one with the least left. Reset is in seconds
//     from now, or a Unix time (Style.Epoch).
//   - RateLimit-Policy and RateLimit, of the IETF draft "RateLimit header fields
//     for HTTP", describe every limit that counted the request.
//   - Retry-After (RFC 9110, section 10.2.3) appears on denials only.
//
// X-RateLimit-Delay-Ms is our own, on admissions by shaped limits only: for how many
// milliseconds, rounded up, whoever serves the request is to hold it back. It is absent
// where there is nothing to wait for, and the one field that is not in seconds.
//
// X-RateLimit-Explain is our own: why every descriptor was answered as it was.
//
// Every number is a whole one, never negative; times are rounded up, so that a
// client that waits exactly as long as it was told is served, and a denial
// never says less than 1.
package headers

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
)

// The names of the header fields.
const (
	Limit      = "X-RateLimit-Limit"
	Remaining  = "X-RateLimit-Remaining"
	Reset      = "X-RateLimit-Reset"
	XRetry     = "X-RateLimit-Retry-After"
	Rule       = "X-RateLimit-Rule"
	Reason     = "X-RateLimit-Reason"
	RetryAfter = "Retry-After"
	RateLimit  = "RateLimit"
	Policy     = "RateLimit-Policy"
	Delay      = "X-RateLimit-Delay-Ms"
	Explain    = "X-RateLimit-Explain" // of requests too: see Asked
)

// Header is one header field.
type Header struct{ Name, Value string }

// Style says which conventions to render.
type Style struct {
	// Legacy renders the X-RateLimit fields.
	Legacy bool
	// IETF renders RateLimit and RateLimit-Policy.
	IETF bool
	// RetryAfter renders Retry-After on denials.
	RetryAfter bool
	// Reason renders X-RateLimit-Rule and X-RateLimit-Reason on denials.
	Reason bool
	// Delay renders X-RateLimit-Delay-Ms on admissions that are to be delayed.
	Delay bool
	// Explain renders X-RateLimit-Explain, on admissions too.
	Explain bool
	// Epoch makes X-RateLimit-Reset a Unix time in seconds, as GitHub has it,
	// instead of seconds from now. The other fields are never times of day.
	Epoch bool
}

// Full renders everything but Explain, which is for whoever asks why.
func Full() Style {
	return Style{Legacy: true, IETF: true, RetryAfter: true, Reason: true, Delay: true}
}

// None reports whether the style renders nothing.
func (s Style) None() bool { return s == Style{Epoch: s.Epoch} }

// Render returns the header fields of d, in a fixed order. now is the time of
// day, read only for Style.Epoch.
func Render(d enforce.Decision, style Style, now time.Time) []Header {
	if style.None() {
		return nil
	}
	var out []Header
	bind := Binding(d)
	if style.Legacy && bind != nil {
		reset := Seconds(bind.Reset)
		if style.Epoch {
			reset = epoch(now.Add(bind.Reset))
		}
		out = append(out,
			Header{Limit, strconv.FormatUint(uint64(bind.Limit.RequestsPerUnit), 10)},
			Header{Remaining, strconv.FormatUint(uint64(bind.Remaining), 10)},
			Header{Reset, strconv.FormatInt(reset, 10)})
		if d.Over {
			out = append(out, Header{XRetry, strconv.FormatInt(RetrySeconds(d), 10)})
		}
	}
	if style.IETF {
		if limits, policies := structured(d); limits != "" {
			out = append(out, Header{RateLimit, limits}, Header{Policy, policies})
		}
	}
	if style.Delay && d.Delay > 0 && !d.Over {
		out = append(out, Header{Delay, strconv.FormatInt(Milliseconds(d.Delay), 10)})
	}
	if style.Explain && len(d.Statuses) > 0 {
		out = append(out, Header{Explain, Explanation(d)})
	}
	if !d.Over {
		return out
	}
	if style.RetryAfter {
		out = append(out, Header{RetryAfter, strconv.FormatInt(RetrySeconds(d), 10)})
	}
	if style.Reason && bind != nil {
		out = append(out, Header{Rule, printable(bind.Rule.ID)}, Header{Reason, string(bind.Reason)})
	}
	return out
}

// Binding returns the status that a client has to respect: on a denial the one
// to wait longest for, else the one with the least remaining. Shadow rules do
// not bind. It returns nil when no limit counted the request.
func Binding(d enforce.Decision) *enforce.Status {
	var bind *enforce.Status
	for i := range d.Statuses {
		s := &d.Statuses[i]
		if s.Limit == nil || s.Shadowed || s.Over != d.Over {
			continue
		}
		if bind == nil || d.Over && wait(*s) > wait(*bind) || !d.Over && s.Remaining < bind.Remaining {
			bind = s
		}
	}
	if bind == nil && d.Over {
		// A request may be over although each status that has a limit is not.
		return Binding(enforce.Decision{Statuses: d.Statuses})
	}
	return bind
}

// RetrySeconds returns the Retry-After of a denial in whole seconds, at least 1:
// the longest of the statuses that deny, as the request is served only when
// none of them does.
func RetrySeconds(d enforce.Decision) int64 {
	var longest time.Duration
	for _, s := range d.Statuses {
		if s.Over && !s.Shadowed {
			longest = max(longest, wait(s))
		}
	}
	if longest == 0 {
		longest = d.Retry
	}
	return max(1, Seconds(longest))
}

// wait returns how long to wait for s: what the decision says, which bounds it.
// A request that can never be served, or nobody knows when, is told the longest
// time that its limit can ask for: a small number would invite a loop (case K11).
func wait(s enforce.Status) time.Duration {
	if s.Limit == nil || s.Retry > 0 && !s.Never {
		return s.Retry
	}
	longest := Window(s.Limit)
	if full, ok := s.Limit.TimeTo(0, s.Limit.Burst); ok {
		longest = max(longest, full.Duration())
	}
	return longest
}

// Window returns the period of a limit, unit times multiplier.
func Window(l *rules.Limit) time.Duration { return l.Rate.Per.Duration() }

// Seconds rounds d up to whole seconds, never negative.
func Seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// Milliseconds rounds d up to whole milliseconds, never negative.
func Milliseconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}

// epoch rounds t up to a Unix time in whole seconds, never negative.
func epoch(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return max(0, s)
}

// PolicyName returns the name under which clients see a limit: the name the
// rule document gives it, else the rule's id.
func PolicyName(r *rules.Rule, l *rules.Limit) string {
	switch {
	case l != nil && l.Name != "":
		return l.Name
	case r.Name != "":
		return r.Name
	}
	return r.ID
}

// structured renders the values of RateLimit and RateLimit-Policy: one item for
// each limit that counted the request, the tightest where one limit counted
// several descriptors.
func structured(d enforce.Decision) (limits, policies string) {
	type item struct {
		name   string
		status *enforce.Status
	}
	var items []item
next:
	for i := range d.Statuses {
		s := &d.Statuses[i]
		if s.Limit == nil || s.Shadowed {
			continue
		}
		name := PolicyName(s.Rule, s.Limit)
		for j := range items {
			if items[j].name == name && same(items[j].status.Limit, s.Limit) {
				if s.Remaining < items[j].status.Remaining {
					items[j].status = s
				}
				continue next
			}
		}
		items = append(items, item{name, s})
	}
	var r, p strings.Builder
	for i, it := range items {
		if i > 0 {
			r.WriteString(", ")
			p.WriteString(", ")
		}
		name := quoted(it.name)
		r.WriteString(name + ";r=" + strconv.FormatUint(uint64(it.status.Remaining), 10) +
			";t=" + strconv.FormatInt(Seconds(it.status.Reset), 10))
		p.WriteString(name + ";q=" + strconv.FormatUint(uint64(it.status.Limit.RequestsPerUnit), 10) +
			";w=" + strconv.FormatInt(cmp.Or(int64(it.status.WindowSeconds), max(1, Seconds(Window(it.status.Limit)))), 10))
	}
	return r.String(), p.String()
}

// same reports whether two statuses of one rule are about one limit. Those of requests
// are told apart by what they say: each has been made for its descriptor.
func same(a, b *rules.Limit) bool {
	return a == b || a.Override && b.Override && a.Capacity == b.Capacity
}

// quoted renders a String of RFC 8941: printable ASCII in quotes.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(printable(s)) + `"`
}

// printable percent-encodes what may not stand in a header field. Names come
// from the rule document, where any text is allowed.
func printable(s string) string {
	clean := true
	for i := range len(s) {
		clean = clean && s[i] >= 0x20 && s[i] < 0x7f
	}
	if clean {
		return s
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= 0x20 && c < 0x7f {
			b.WriteByte(c)
		} else {
			b.WriteString(string([]byte{'%', hex[c>>4], hex[c&15]}))
		}
	}
	return b.String()
}
