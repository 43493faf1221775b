package enforce

import (
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// key returns the key of one limit of a rule, and the window of it that the agent's
// clock was in when the request came: it belongs to the windows of that moment, however
// long it waits and however often it is planned. A key that has an allowance comes with it.
func (p *plan) key(domain string, entries []rules.Entry, rule *rules.Rule, limit int) (quota.Key, rules.Window, *allowance) {
	l := &rule.Limits[limit]
	if !l.Windowed() {
		if p.allowances == nil || l.Shape || l.Window > 0 {
			return rule.Key(domain, entries, limit), rules.Window{}, nil
		}
		p.name = rule.AppendKey(p.name[:0], domain, entries, limit)
		if a := p.allowances.find(p.now, p.name); a != nil {
			return a.key, rules.Window{}, a
		}
		return quota.Key(p.name), rules.Window{}, nil
	}
	if p.wall == 0 {
		p.wall = p.clock()
	}
	if p.came == 0 {
		p.came = p.wall
	}
	w := l.WindowAt(p.came)
	return rule.WindowKey(domain, entries, limit, w), w, nil
}

// longest is the longest time that the item can ask anyone to wait: to the end of its
// window, or what its limit needs.
func (it *item) longest() time.Duration {
	if it.window.IsZero() {
		return window(it.limit)
	}
	return it.left.Duration()
}
