package redisbucket

import (
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// draws computes what the group draws ahead, where it may: of each bucket as much as the
// one who asks for the most.
func (g *group) draws(may bool) {
	g.ahead = g.ahead[:0]
	if !may {
		return
	}
	for _, w := range g.waiters {
		for i := range w.asks {
			ahead := w.asks[i].Ahead
			if ahead == 0 {
				continue
			}
			if len(g.ahead) == 0 {
				g.ahead = append(g.ahead, make([]quota.Tokens, len(g.asks))...)
			}
			g.ahead[i] = max(g.ahead[i], ahead)
		}
	}
}

// grant reads what the group has drawn ahead. Of each bucket all of it is for the first
// one who asked for any.
func (g *group) grant(reply []int64) (rest []int64, ok bool) {
	if len(reply) < 2*len(g.ahead) {
		return nil, false
	}
	for i, ahead := range g.ahead {
		grant := bucket.Grant{Tokens: quota.Tokens(reply[0]), Span: quota.Micros(reply[1])}
		reply = reply[2:]
		if grant == (bucket.Grant{}) {
			continue
		}
		if grant.Tokens <= 0 || grant.Tokens > ahead || grant.Span <= 0 || grant.Span > bucket.DrawSpan {
			return nil, false
		}
		w := g.waiters[slices.IndexFunc(g.waiters, func(w *waiter) bool { return w.asks[i].Ahead > 0 })]
		if w.grants == nil {
			w.grants = make([]bucket.Grant, len(g.asks))
		}
		w.grants[i] = grant
	}
	return reply, true
}
