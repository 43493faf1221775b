package model

import (
	"fmt"
	"strings"
)

var kindNames = [kinds]string{
	"admit", "apply", "apply late", "confirm", "receive answer", "receive old answer", "assign", "open session",
	"open session of the gone", "replace session", "end session", "mark silent", "clear silence", "answer sync",
	"answer sync deposed", "reset store", "tick", "elect",
}

// draw writes a state in three lines: the level of the Bound's bucket and the
// pool, and each region.
func (c *Config) draw(s *state) string {
	var b strings.Builder
	fmt.Fprintf(&b, "bound %d, pool %v with %d\n", s.audit, s.pool, s.level)
	for i := range s.side {
		r := &s.side[i]
		fmt.Fprintf(&b, "%s: ledger %s; store %s\n", name(i), r.ledgerWords(), r.storeWords())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (r *side) ledgerWords() string {
	if !r.open {
		return "no session"
	}
	w := fmt.Sprintf("%v, %d ticks left", r.lease, r.timer)
	if r.gone {
		w += ", of an incarnation that is gone"
	}
	if r.silent {
		w += fmt.Sprintf(", silent for %d", r.silence)
	}
	if r.flying {
		w += fmt.Sprintf(", in flight %v", r.flight)
	}
	return w
}

func (r *side) storeWords() string {
	switch {
	case r.bond == unbound:
		return fmt.Sprintf("standing %v with %d", r.held, r.tokens)
	case !r.inForce():
		return fmt.Sprintf("standing with %d, lease %v is over", r.spare, r.held)
	}
	w := fmt.Sprintf("leased %v with %d, %d ticks left", r.held, r.tokens, r.deadline)
	if r.bond == before {
		w += ", of a session that has ended"
	}
	return w
}
