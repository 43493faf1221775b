package headers

import (
	"strconv"
	"strings"

	"github.com/quorate/quorate/regional/enforce"
)

// Asked reports whether the value of a request's X-RateLimit-Explain asks for
// the same field in the reply: any value but 0 and false does.
func Asked(value string) bool {
	return value != "" && value != "0" && value != "false"
}

// Explanation says why every descriptor was answered as it was: a list of
// structured fields (RFC 9651), one item for each descriptor in the order of the
// request. The item is the id of the rule, empty without one; its parameters are
//
//	over          it denies; shadow: it would, were it no shadow rule
//	reason        of package enforce: lease_empty, global_exhausted, …
//	source        whose tokens: lease, standing_share, held_lease, fallback, policy, none
//	scope         who is out of them: region, world, or limit (no wait helps)
//	limit         the name of the limit that binds
//	r, t          what is left, and the seconds until it is full
//	delay_ms      the milliseconds for which a shaped limit holds it back
//	retry         the seconds until the same request may be served
func Explanation(d enforce.Decision) string {
	var b strings.Builder
	for i := range d.Statuses {
		s := &d.Statuses[i]
		if i > 0 {
			b.WriteString(", ")
		}
		id := ""
		if s.Rule != nil {
			id = s.Rule.ID
		}
		b.WriteString(quoted(id))
		if s.Over {
			b.WriteString(";over")
		}
		if s.Shadowed {
			b.WriteString(";shadow")
		}
		b.WriteString(";reason=" + string(s.Reason))
		if s.Source != "" {
			b.WriteString(";source=" + string(s.Source))
		}
		if scope := s.Reason.Scope(); s.Over && scope != "" {
			b.WriteString(";scope=" + scope)
		}
		if s.Limit == nil {
			continue
		}
		b.WriteString(";limit=" + quoted(PolicyName(s.Rule, s.Limit)) +
			";r=" + strconv.FormatUint(uint64(s.Remaining), 10) + ";t=" + strconv.FormatInt(Seconds(s.Reset), 10))
		if s.Delay > 0 {
			b.WriteString(";delay_ms=" + strconv.FormatInt(Milliseconds(s.Delay), 10))
		}
		if s.Over {
			b.WriteString(";retry=" + strconv.FormatInt(max(1, Seconds(wait(*s))), 10))
		}
	}
	return b.String()
}
