package regional

import (
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/coordinator/rules"
)

// maxShapes bounds how many shapes are remembered and logged. Keys come from
// requests, so there may be any number of them.
const maxShapes = 100

// unmatched warns once about each shape of descriptor that no rule matches: a
// rule that never applies looks like a limit that does not work.
type unmatched struct {
	log  *slog.Logger
	full atomic.Bool
	mu   sync.Mutex
	seen map[string]bool
}

// saw notes a descriptor without a rule. Its values are not logged: they may be
// secrets, and without them a shape is a shape.
func (u *unmatched) saw(domain string, entries []rules.Entry, unknownDomain bool) {
	if u.full.Load() {
		return
	}
	var b strings.Builder
	b.WriteString(strconv.Quote(domain))
	if !unknownDomain {
		for _, e := range entries {
			b.WriteString(" " + strconv.Quote(e.Key))
		}
	}
	shape := b.String()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen[shape] || len(u.seen) >= maxShapes {
		return
	}
	if u.seen == nil {
		u.seen = make(map[string]bool)
	}
	u.seen[shape] = true
	u.full.Store(len(u.seen) >= maxShapes)
	if unknownDomain {
		u.log.Warn("no rule document has this domain; its requests are admitted", "domain", domain)
		return
	}
	u.log.Warn("no rule matches descriptors with these keys; they are admitted. Ask /v1/explain on the admin port why", "domain_and_keys", shape)
}
