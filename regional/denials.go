package regional

import (
	"log/slog"
	"strings"
	"time"

	"github.com/quorate/quorate/regional/enforce"
)

// denials tells of some denials why they were made: the rule, whose tokens were not
// enough, and whether the region or the world is out of them. It says no more than so
// many lines a second, evenly spaced, and counts what it leaves out.
type denials struct {
	log   *slog.Logger
	quiet quiet
}

// newDenials returns nil when no lines are wanted.
func newDenials(log *slog.Logger, linesPerSecond int) *denials {
	if linesPerSecond <= 0 {
		return nil
	}
	return &denials{log: log, quiet: quiet{every: time.Second / time.Duration(linesPerSecond)}}
}

// saw notes that descriptor i of req was denied, or would have been by a shadow
// rule, as status i of d says. The keys of its entries are those of the rule; the
// values come from the client, may be secrets, and are told only if the rule says so.
func (l *denials) saw(now time.Time, req *enforce.Request, i int, d *enforce.Decision) {
	more, ok := l.quiet.speak(now)
	if !ok {
		return
	}
	s := &d.Statuses[i]
	entries := req.Descriptors[i].Entries
	texts := make([]string, len(entries))
	for i, e := range entries {
		if texts[i] = e.Key; s.Rule.DenialLogValues {
			texts[i] += "=" + shortened(s.Rule.Shown(i, e.Value), maxLogged)
		}
	}
	decision := "over"
	if s.Shadowed {
		decision = "shadow"
	}
	args := []any{
		"rule", s.Rule.ID, "decision", decision, "request_denied", d.Over, "reason", string(s.Reason), "descriptor", texts,
	}
	if s.Source != "" {
		args = append(args, "source", string(s.Source))
	}
	if scope := s.Reason.Scope(); scope != "" {
		args = append(args, "scope", scope)
	}
	if s.Limit != nil && s.Limit.Name != "" {
		args = append(args, "limit", s.Limit.Name)
	}
	if s.Retry > 0 {
		args = append(args, "retry_after", s.Retry.String())
	}
	l.log.Info("denied", append(args, "more_since_last_line", more)...)
}

// maxLogged is how many bytes of one value are logged.
const maxLogged = 128

// shortened cuts what is longer than limit bytes, and makes text valid UTF-8.
func shortened(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
