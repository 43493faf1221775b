package enforce

import (
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// key returns the key of one limit of a rule, and the window of it that the agent's
// clock is in. All windows of a plan are of one reading of that clock: a request
// belongs to the windows of the moment in which it came, however long it waits.
func (p *plan) key(domain string, entries []rules.Entry, rule *rules.Rule, limit int) (quota.Key, rules.Window) {
	l := &rule.Limits[limit]
	if !l.Windowed() {
		return rule.Key(domain, entries, limit), rules.Window{}
	}
	if !p.read {
		p.wall, p.read = p.clock(), true
	}
	w := l.WindowAt(p.wall)
	return rule.WindowKey(domain, entries, limit, w), w
}

// longest is the longest time that the item can ask anyone to wait: to the end of its
// window, or what its limit needs.
func (it *item) longest() time.Duration {
	if it.window.IsZero() {
		return window(it.limit)
	}
	return it.left.Duration()
}
