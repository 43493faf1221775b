package regional

import (
	"context"
	"time"

	"github.com/quorate/quorate/regional/enforce"
)

// decide makes one decision for a front end, counts it, and is loud about what
// is admitted outside the bound.
func (a *Agent) decide(ctx context.Context, req enforce.Request) (enforce.Decision, error) {
	var d enforce.Decision
	err := a.decideInto(ctx, req, &d)
	return d, err
}

// decideInto is decide in the memory of a decision that was there before.
func (a *Agent) decideInto(ctx context.Context, req enforce.Request, d *enforce.Decision) error {
	began := time.Since(a.start) // cheaper than time.Now
	err := a.enforcer.DecideInto(ctx, began, req, d)
	took := time.Duration(0)
	if !d.FromAllowance { // whose time is about that of reading a clock
		took = time.Since(a.start) - began
	}
	a.metrics.decided(&req, d, err, took)
	for i := range d.Statuses {
		s := &d.Statuses[i]
		if s.Reason == enforce.NoRule {
			a.unmatched.saw(req.Domain, req.Descriptors[i].Entries, d.UnknownDomain)
		}
		if a.denials != nil && (s.Over || s.Shadowed) {
			a.denials.saw(time.Now(), &req, i, d)
		}
		p := policy(s)
		if p == "" {
			continue
		}
		a.metrics.unbounded.WithLabelValues(s.Rule.ID, p).Inc()
		if more, ok := a.loud.speak(time.Now()); ok {
			a.log.Warn("admitting outside the global bound, as the rule's policy asks", "rule", s.Rule.ID, "policy", p, "more_since_last_line", more)
		}
	}
	return err
}
