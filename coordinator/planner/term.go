package planner

import (
	"slices"
	"strconv"

	"github.com/quorate/quorate/coordinator/fairshare"
	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// Term is the leader's memory for one term. It is not safe for concurrent use.
type Term struct {
	cfg       Config
	number    uint64
	regions   map[string]*region
	book      book
	ticked    quota.Micros // the last proposal
	version   uint64       // of the configuration seen last
	lendsFrom quota.Micros // from when on lends are saved up
	versions  uint64       // a sum over what the regions may be using
}

// NewTerm starts a term. It is called after the barrier: the ledger has every
// entry of older terms. Every session gets a full lifetime from now, because a
// former leader may have renewed it just before; one that is marked silent was
// not renewed since the mark, and gets what it had left then. number is Raft's.
func NewTerm(now quota.Micros, number uint64, l *ledger.Ledger, cfg Config) *Term {
	t := &Term{
		cfg: cfg.withDefaults(), number: number, regions: map[string]*region{},
		book: book{entries: map[quota.Key]*entry{}}, ticked: now,
	}
	t.observe(now, l)
	for _, lr := range l.Regions() {
		if s := lr.Session; s != nil && s.Silent {
			r := t.regions[lr.Name]
			r.until = max(now, r.until-(l.Clock()-s.SilentSince))
		}
	}
	l.Accounts(func(a *ledger.Account) bool {
		// Nobody waits for these: what is asked for in the new term goes first.
		e := t.book.add(a.Key, now+quota.Second+quota.Micros(fairshare.Rank(string(a.Key), "")%4e6))
		e.scale, e.since, e.heard = scaleOf(a.Limit(), t.cfg), now, now
		for _, h := range a.Holdings() {
			t.regions[h.Region].track(a.Key, h, true)
			if h.Leased {
				e.of(h.Region).assume(now, a.Limit().Steady(h.Lease))
			}
		}
		return true
	})
	return t
}

// observe brings the memory in step with the ledger's regions, sessions and
// configurations. What changes there changes every plan.
func (t *Term) observe(now quota.Micros, l *ledger.Ledger) {
	var versions uint64
	for _, lr := range l.Regions() {
		versions += 3*lr.Confirmed + 5*lr.Offered
		r := t.regions[lr.Name]
		var id quota.SessionID
		if lr.Session != nil {
			id = lr.Session.ID
		}
		if r == nil {
			r = &region{name: lr.Name, heard: now}
			if lr.Confirmed > 0 {
				r.complete = now + t.cfg.returning()
			}
			t.regions[lr.Name] = r
			r.adopt(lr.Session, now+t.cfg.session())
		} else if id != r.session {
			r.adopt(lr.Session, now+t.cfg.session())
			t.book.hurryAll(now)
		}
		r.expire(now, t.cfg.session())
	}
	if len(t.regions) > len(l.Regions()) {
		for name := range t.regions {
			if l.Region(name) == nil {
				delete(t.regions, name)
			}
		}
	}
	if l.Current().Version != t.version || versions != t.versions {
		t.version, t.versions = l.Current().Version, versions
		t.book.hurryAll(now)
	}
}

// table seats all regions at a key's table. It returns nil when nothing is
// counted under the key.
func (t *Term) table(now quota.Micros, l *ledger.Ledger, e *entry) *table {
	a, opened := l.Account(e.key), true
	if a == nil {
		a, opened = l.Opening(e.key), false
	}
	if a == nil {
		return nil
	}
	limit, cur := a.Limit(), l.Current()
	tb := &table{key: e.key, limit: limit, scale: scaleOf(limit, t.cfg), seats: make([]seat, 0, len(l.Regions()))}
	e.scale = tb.scale
	tb.turn = fairshare.Rank(string(e.key), strconv.FormatInt(int64(now/turnOf(tb.scale)), 10))
	tb.opened, tb.orphaned, tb.windowed, tb.level = opened, a.Orphaned(), a.Windowed(), a.Level(l.Clock())
	for _, n := range a.Loans() {
		counted := n.Capacity.Max(a.Share(n.Lender))
		if !tb.orphaned {
			// There must be room for what the lender is to own before it is offered that.
			counted = counted.Max(limit.StandingShare(n.Lender, cur.Shares))
		}
		tb.loans = append(tb.loans, loan{Loan: n, left: t.left(now, &n), known: n.Term == t.number, counted: counted})
	}
	for _, lr := range l.Regions() {
		r := t.regions[lr.Name]
		s := seat{
			region: lr.Name, rank: fairshare.Rank(string(e.key), lr.Name),
			session: r.session, reachable: r.reachable(now),
			next:  quota.Capacity{Rate: quota.Rate{Per: limit.Rate.Per}},
			share: a.Share(lr.Name), borrowed: a.Borrowed(lr.Name),
		}
		if !tb.orphaned {
			s.next = limit.StandingShare(lr.Name, cur.Shares)
			s.weight, _ = limit.WeightOf(lr.Name, cur.Shares)
		}
		if a.Lent(lr.Name) {
			// The loan has it, and the region is as one that never had a share.
			s.share, s.next = tb.none(), tb.none()
		}
		s.holding, s.held = a.Holding(lr.Name)
		r.track(e.key, s.holding, s.held)
		tb.seats = append(tb.seats, s)
	}
	return tb
}

// wishes sets what each seat wants.
func (t *Term) wishes(now quota.Micros, tb *table, e *entry) {
	if tb.windowed {
		t.sips(now, tb, e)
		return
	}
	for i := range tb.seats {
		s := &tb.seats[i]
		d := e.demand(s.region)
		s.quiet = now - e.since
		s.unseen = d == nil || d.last == -never
		if d == nil {
			if tb.limit.Window > 0 {
				tb.places(now, s, nil, nil)
			}
			continue
		}
		s.quiet = min(s.quiet, now-d.last)
		s.active = now-d.last < tb.scale.idle && (s.held || d.presses(now, s.share.Burst))
		s.wish = d.wish(now, t.regions[s.region], s.lease(), s.leased(), tb.scale)
		s.forgot = s.leased() && d.forgot(s.holding.Epoch, s.holding.Lease)
		s.without = !s.leased() && tb.loan(s.region) == nil && slices.Contains(e.early, s.region) && d.without()
		s.misses = s.leased() && !s.inFlight() && !s.borrowed.IsZero() && d.lacks(s.holding.Epoch, s.lease())
		if tb.limit.Window > 0 {
			tb.places(now, s, d, t.regions[s.region])
		}
	}
}
