package coordinator

import (
	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// headroom follows what the regions report as admitted against the Bound, per
// account: how far the worst one has been from B + R*W.
//
// It is a central bucket that is charged when reports arrive. A report says what
// was admitted in a window that ended up to reportDelay ago, so charges come
// later than the requests, and closer together: what is charged in an interval
// of length W was admitted in one of W + window + reportDelay. The bucket is
// therefore larger by the refill of that time, and never goes below zero while
// the Bound holds. The price is that an overshoot smaller than that refill is
// not seen; the simulator's auditor, which sees each request, has no such slack.
//
// Keys without an account are bounded by their standing shares and not followed; nor are
// sliding windows: a report does not tell in which of two windows something was admitted.
type headroom struct {
	worst   quota.Tokens
	seen    bool
	buckets map[quota.Key]*charged
	last    map[agentName]map[quota.Key]quota.Tokens // what was charged last, per agent
}

type agentName struct{ region, agent string }

// charged is the central bucket of one account.
type charged struct {
	limit quota.Capacity // what counts now: after a change the larger of old and new
	newer quota.Capacity // what will count from until on
	until quota.Micros
	slack quota.Micros
	level quota.Tokens
	at    quota.Micros
}

const (
	// reportDelay is how long a report may be on its way: agents give up after 2 s.
	reportDelay = 3 * quota.Second
	// changeDelay is how long the larger of two limits counts after a change:
	// leases under the old one are recalled meanwhile.
	changeDelay = 60 * quota.Second
)

// report charges the usage of a request. A fresh one may repeat what its agent has
// reported since the last one whose answer it got: in that one's successor and in
// the reports without an answer (Seq 0) that followed it.
func (h *headroom) report(now quota.Micros, l *ledger.Ledger, req quota.SyncRequest, fresh bool) {
	if h.buckets == nil {
		h.buckets, h.last = map[quota.Key]*charged{}, map[agentName]map[quota.Key]quota.Tokens{}
	}
	if len(h.buckets) > 2*l.Len()+1024 {
		for k := range h.buckets {
			if l.Account(k) == nil {
				delete(h.buckets, k)
			}
		}
	}
	id := agentName{req.Region, req.Agent}
	before := h.last[id]
	if req.Seq != 0 || before == nil {
		h.last[id] = make(map[quota.Key]quota.Tokens, len(req.Usage))
	}
	for _, u := range req.Usage {
		h.last[id][u.Key] += u.Admitted
		admitted := u.Admitted
		if fresh {
			admitted = max(0, admitted-before[u.Key])
		}
		a := l.Account(u.Key)
		if a == nil || a.Limit().Window > 0 {
			delete(h.buckets, u.Key)
			continue
		}
		b := h.buckets[u.Key]
		if b == nil {
			b = &charged{limit: a.Limit().Capacity, newer: a.Limit().Capacity, at: now}
			b.level = b.full()
			h.buckets[u.Key] = b
		}
		level := b.charge(now, a.Limit().Capacity, a.Pool(), admitted, quota.MicrosOf(u.Window))
		if admitted > 0 && (!h.seen || level < h.worst) {
			h.worst, h.seen = level, true
		}
	}
	if req.Leaving {
		delete(h.last, id)
	}
}

// charge takes tokens out of the bucket and returns what is left.
func (b *charged) charge(now quota.Micros, limit, pool quota.Capacity, admitted quota.Tokens, window quota.Micros) quota.Tokens {
	b.refill(now)
	if limit != b.newer {
		b.newer, b.until = limit, now+changeDelay
		b.change(b.limit.In(limit.Rate.Per).Max(limit))
	}
	if b.limit != b.newer && now >= b.until && pool.Burst >= 0 && pool.Rate.Tokens >= 0 {
		b.change(b.newer)
	}
	if b.level >= b.full() {
		b.slack = 0 // a long window is over
		b.level = b.full()
	}
	if slack := window + reportDelay; slack > b.slack {
		more := gained(b.limit, slack) - gained(b.limit, b.slack)
		b.slack, b.level = slack, b.level+more
	}
	b.level -= admitted
	return b.level
}

func (b *charged) refill(now quota.Micros) {
	level, unspent := quota.Capacity{Rate: b.limit.Rate, Burst: b.full()}.Refill(b.level, now-b.at)
	b.level, b.at = level, now-unspent
}

// change puts another limit in place of the present one: the spent part stays.
func (b *charged) change(to quota.Capacity) {
	spent := b.full() - b.level
	b.limit = to
	b.level = b.full() - spent
}

// full is the level of the full bucket.
func (b *charged) full() quota.Tokens {
	return min(b.limit.Burst+gained(b.limit, b.slack), quota.MaxTokens)
}

// gained is what a limit refills in a time.
func gained(limit quota.Capacity, d quota.Micros) quota.Tokens {
	g, _ := quota.Capacity{Rate: limit.Rate, Burst: quota.MaxTokens}.Refill(0, d)
	return g
}
