package planner

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
)

// toy is a region with one agent and one bucket per key: enough of the real
// thing to close the loop. Its clock is the world's.
type toy struct {
	name        string
	incarnation string
	rand        *rand.Rand
	demand      map[quota.Key]func(s float64) float64 // requests a second
	cost        map[quota.Key]quota.Tokens            // of one request, a token by default
	share       func(quota.Key) quota.Capacity
	buckets     map[quota.Key]*bucket
	session     quota.SessionID
	deadline    quota.Micros
	config      uint64
	cut         bool // nothing gets in or out
	dead        bool // nothing happens at all

	seq     uint64
	sent    quota.Micros // the last sync
	waits   bool         // for its answer
	renew   quota.Micros
	urgent  bool
	applied []quota.Applied
}

// bucket is a key's bucket and what was seen of it since the last report.
type bucket struct {
	level       quota.Tokens
	at          quota.Micros
	lease       quota.Capacity
	epoch       quota.Epoch // of the last assignment applied
	leased      bool
	session     quota.SessionID
	surrendered quota.Tokens

	use           quota.Usage
	since         quota.Micros
	changed, told bool
	low, denying  bool
	debt          float64 // the part of a request that has not arrived yet
	asked, got    int     // requests, for the drawing
	gotAll        int
}

func (r *toy) bucket(k quota.Key, now quota.Micros) *bucket {
	b := r.buckets[k]
	if b == nil {
		b = &bucket{level: r.share(k).Burst, at: now, since: now, use: quota.Usage{Key: k}}
		r.buckets[k] = b
	}
	return b
}

func (r *toy) inForce(k quota.Key, b *bucket, now quota.Micros) (quota.Capacity, quota.Epoch) {
	if b.leased && b.session == r.session && now < r.deadline {
		return b.lease, b.epoch
	}
	return r.share(k), 0
}

func (r *toy) refill(k quota.Key, b *bucket, now quota.Micros) (quota.Capacity, quota.Epoch) {
	c, epoch := r.inForce(k, b, now)
	level, unspent := c.Refill(min(b.level, c.Burst), now-b.at)
	b.level, b.at = level, now-unspent
	return c, epoch
}

// serve lets the requests of the millisecond before now arrive. admit hears of
// every request and whether it was admitted.
func (r *toy) serve(now quota.Micros, admit func(quota.Key, quota.Tokens, bool)) {
	if r.dead {
		return
	}
	for _, k := range r.keys() {
		rate := r.demand[k](seconds(now))
		if rate <= 0 {
			continue
		}
		b := r.bucket(k, now)
		for n := r.poisson(b, rate/1000); n > 0; n-- {
			cost := max(r.cost[k], quota.Token)
			c, epoch := r.refill(k, b, now)
			ok := b.level >= cost
			b.asked++
			if ok {
				b.level -= cost
				b.got++
				b.use.Admitted += cost
			} else {
				b.use.Denied += cost
				r.urgent = r.urgent || !b.denying
				b.denying = true
			}
			switch {
			case b.level < c.Burst/2:
				r.urgent = r.urgent || !b.low
				b.low = true
			case b.level >= c.Burst/4*3:
				b.low = false
			}
			b.use.Level, b.use.Burst, b.use.Epoch = b.level, c.Burst, epoch
			b.use.Largest = max(b.use.Largest, cost)
			b.changed = true
			admit(k, cost, ok)
		}
	}
}

// poisson draws the number of arrivals; without a generator they are even.
func (r *toy) poisson(b *bucket, mean float64) int {
	if r.rand == nil {
		b.debt += mean
		n := int(b.debt + 1e-9)
		b.debt -= float64(n)
		return n
	}
	n, p := 0, r.rand.Float64()
	for limit := math.Exp(-mean); p > limit; n++ {
		p *= r.rand.Float64()
	}
	return n
}

func (r *toy) keys() []quota.Key {
	var keys []quota.Key
	for k := range r.demand {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// sync returns the next sync when one is due.
func (r *toy) sync(now quota.Micros) (req quota.SyncRequest, due bool) {
	if r.dead || r.waits && now-r.sent < 2*quota.Second {
		return req, false
	}
	gap := now - r.sent
	changed := false
	for _, b := range r.buckets {
		changed = changed || b.changed || b.told && now-b.since >= 2*quota.Second
	}
	if r.seq != 0 && now < r.renew && !(changed && gap >= 150_000) && !((r.urgent || len(r.applied) > 0) && gap >= 5_000) {
		return req, false
	}
	r.seq++
	req = quota.SyncRequest{
		Seq: r.seq, Region: r.name, Agent: r.name + "-1", Incarnation: quota.Incarnation{ID: r.incarnation},
		Session: r.session, Config: r.config, Applied: r.applied,
	}
	keys := make([]quota.Key, 0, len(r.buckets))
	for k := range r.buckets {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		b := r.buckets[k]
		if !b.changed && !(b.told && now-b.since >= 2*quota.Second) {
			continue
		}
		b.told = b.changed
		b.use.Window = (now - b.since).Duration()
		req.Usage = append(req.Usage, b.use)
		b.use.Admitted, b.use.Denied, b.use.Largest = 0, 0, 0
		b.since, b.changed, b.denying = now, false, false
	}
	r.sent, r.waits, r.urgent, r.applied = now, true, false, nil
	r.renew = now + 5*quota.Second
	return req, true
}

// take takes an answer or a push.
func (r *toy) take(now quota.Micros, sent quota.Micros, resp quota.SyncResponse, usable quota.Micros) {
	if r.dead {
		return
	}
	if resp.Seq == r.seq {
		r.waits = false
	}
	if resp.Refusal != nil {
		r.renew = now + 100_000
		return
	}
	if resp.Session != 0 && now-sent <= 2*quota.Second && resp.Session >= r.session {
		if resp.Session > r.session {
			r.deadline = 0
		}
		r.session, r.deadline = resp.Session, max(r.deadline, sent+usable)
	}
	if resp.Config != nil {
		r.config = resp.Config.Version
		r.renew = min(r.renew, now+10_000)
	}
	for _, a := range resp.Assignments {
		r.apply(now, a)
	}
}

func (r *toy) apply(now quota.Micros, a quota.Assignment) {
	b := r.bucket(a.Key, now)
	if a.Session != r.session || now >= r.deadline || b.session == a.Session && a.Epoch < b.epoch {
		return
	}
	if b.session != a.Session || a.Epoch > b.epoch {
		r.refill(a.Key, b, now)
		b.level += a.Credit
		c := a.Lease
		if a.Release {
			c = r.share(a.Key)
		}
		b.surrendered = max(0, b.level-c.Burst)
		b.level -= b.surrendered
		b.lease, b.leased, b.epoch, b.session = a.Lease, !a.Release, a.Epoch, a.Session
	}
	r.applied = append(r.applied, quota.Applied{Key: a.Key, Session: a.Session, Epoch: a.Epoch, Surrendered: b.surrendered})
}
