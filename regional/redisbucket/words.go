package redisbucket

import (
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// call is one call of the take script, for groups that name the same incarnation
// and configuration. The words of the command point into the other slices, because
// a number in an interface would be an allocation each.
type call struct {
	groups      []*group
	requests    int
	buckets     int
	incarnation string
	config      uint64
	to          target

	shares []share
	keys   []string
	table  []int64 // the shares, as the script reads them
	nums   []int64 // the groups
	args   []any
}

// target is where a call goes: the server, or a partition of a cluster.
type target struct {
	state       string // the name of the region's state
	head, tail  string // what is around a key in the name of its bucket
	incarnation string
	// In a cluster, how much later it is there than on the region's clock, at most,
	// and the region's incarnation.
	later  quota.Micros
	region string
}

// share is what the script has to know of a bucket beside its key. All buckets of
// a rule have the same, so a call says it once.
type share struct {
	mode     bucket.Mode
	standing bucket.Standing
	debt     quota.Tokens
	settle   bool
}

// floor is the word for how low a take may get the level: the debt, or -1 less it for
// what settles.
func (sh *share) floor() int64 {
	if sh.settle {
		return -1 - int64(sh.debt)
	}
	return int64(sh.debt)
}

// begin makes a call for g only.
func (c *call) begin(g *group) {
	clear(c.groups)
	c.groups = append(c.groups[:0], g)
	c.requests, c.buckets = len(g.waiters), len(g.asks)
	c.incarnation, c.config = g.incarnation, g.config
}

// add adds g to the call, if it fits.
func (c *call) add(g *group) bool {
	if c.config != g.config || c.incarnation != g.incarnation || c.buckets+len(g.asks) > maxCallBuckets {
		return false
	}
	c.groups = append(c.groups, g)
	c.requests += len(g.waiters)
	c.buckets += len(g.asks)
	return true
}

// compose writes the words of the call.
func (c *call) compose(s *Store) {
	c.shares, c.keys, c.nums = c.shares[:0], c.keys[:0], c.nums[:0]
	for _, g := range c.groups {
		g.draws(c.to.region == "")
		c.nums = append(c.nums, int64(len(g.asks)), 0, int64(flag(len(g.ahead) > 0)))
		runs := len(c.nums) - 2
		for i := range g.asks {
			a := &g.asks[i]
			c.keys = append(c.keys, c.to.head+string(a.Key)+c.to.tail)
			c.nums = append(c.nums, c.share(share{a.Mode, a.Standing, a.Debt, a.Settle}))
		}
		for _, ahead := range g.ahead {
			c.nums = append(c.nums, int64(ahead))
		}
		for from := 0; from < len(g.waiters); {
			to := g.run(from)
			c.nums[runs]++
			c.nums = append(c.nums, int64(to-from))
			for i := range g.waiters[from].asks {
				c.nums = append(c.nums, int64(g.waiters[from].asks[i].Cost))
			}
			from = to
		}
	}
	c.table = append(c.table[:0], int64(len(c.shares)))
	for i := range c.shares {
		sh := &c.shares[i]
		st := &sh.standing
		c.table = append(c.table, int64(sh.mode), int64(st.Rate.Tokens), int64(st.Rate.Per), int64(st.Burst), int64(st.Base), int64(st.Since+c.to.later), int64(st.Began()+c.to.later), sh.floor(), int64(st.Lasts), int64(st.Window))
	}

	c.args = append(c.args[:0], "evalsha", &s.scripts.take.sha, len(c.keys)+1, &c.to.state)
	for i := range c.keys {
		c.args = append(c.args, &c.keys[i])
	}
	c.args = append(c.args, &c.to.incarnation, &c.config)
	for i := range c.table {
		c.args = append(c.args, &c.table[i])
	}
	for i := range c.nums {
		c.args = append(c.args, &c.nums[i])
	}
	if c.to.region != "" {
		c.args = append(c.args, &c.to.region)
	}
}

// searched is how many shares are compared before one is said again.
const searched = 8

// share returns the number under which the script knows sh, from 1.
func (c *call) share(sh share) int64 {
	for i := len(c.shares) - 1; i >= max(0, len(c.shares)-searched); i-- {
		if c.shares[i] == sh {
			return int64(i) + 1
		}
	}
	c.shares = append(c.shares, sh)
	return int64(len(c.shares))
}

// run returns the end of the run of waiters that begins at from: those who ask
// for the same.
func (g *group) run(from int) (to int) {
	to = from + 1
	for to < len(g.waiters) && sameCosts(g.waiters[from].asks, g.waiters[to].asks) {
		to++
	}
	return to
}

func sameCosts(a, b []bucket.Ask) bool {
	for i := range a {
		if a[i].Cost != b[i].Cost {
			return false
		}
	}
	return true
}

// answer reads the reply of the script and tells everyone who waits. It tells
// nobody, and returns false, when the reply does not fit.
func (c *call) answer(reply []int64) bool {
	if len(reply) < 2 || reply[0] != 1 {
		return false
	}
	now, reply := quota.Micros(reply[1]), reply[2:]
	for _, g := range c.groups {
		left := make([]bucket.Balance, len(g.asks))
		var ok bool
		for i := range left {
			if left[i], reply, ok = balance(reply, &g.asks[i].Standing); !ok {
				return false
			}
		}
		for from := 0; from < len(g.waiters); {
			if len(reply) == 0 {
				return false
			}
			to, n := g.run(from), int(reply[0])
			reply = reply[1:]
			if reply, ok = waits(reply, left); !ok {
				return false
			}
			for i, w := range g.waiters[from:to] {
				w.answer = answer{now: now, start: left, place: i, n: n}
			}
			if to < len(g.waiters) {
				left = charged(left, g.waiters[from].asks, n)
			}
			from = to
		}
		if reply, ok = g.grant(reply); !ok {
			return false
		}
	}
	if len(reply) != 0 {
		return false
	}
	c.tell()
	return true
}

// charged returns the buckets after n requests like asks.
func charged(buckets []bucket.Balance, asks []bucket.Ask, n int) []bucket.Balance {
	r := bucket.Run{Count: n, Costs: make([]quota.Tokens, len(asks))}
	for i := range asks {
		r.Costs[i] = asks[i].Cost
	}
	after := append([]bucket.Balance(nil), buckets...)
	r.Charge(asks, after, n)
	return after
}

// drawn is added to the holding in a reply where tokens are drawn ahead.
const drawn = 8

// balance reads one bucket of the reply.
func balance(reply []int64, st *bucket.Standing) (b bucket.Balance, rest []int64, ok bool) {
	if len(reply) < 3 {
		return b, nil, false
	}
	holding := max(reply[0], -reply[0])
	b = bucket.Balance{
		Holding: bucket.Holding(holding &^ drawn), Missing: reply[0] < 0,
		Level: quota.Tokens(reply[1]), Unspent: quota.Micros(reply[2]), Capacity: st.Capacity,
	}
	reply = reply[3:]
	if holding&drawn != 0 {
		if len(reply) == 0 || reply[0] <= 0 {
			return b, nil, false
		}
		b.Held, reply = quota.Tokens(reply[0]), reply[1:]
	}
	if b.Holding == bucket.OnNothing {
		b.Capacity.Rate.Tokens, b.Capacity.Burst = 0, 0
	}
	if b.Holding == bucket.OnLease || b.Holding == bucket.OnHold {
		if len(reply) < 4 {
			return b, nil, false
		}
		b.Capacity = quota.Capacity{
			Rate: quota.Rate{Tokens: quota.Tokens(reply[0]), Per: quota.Micros(reply[1])}, Burst: quota.Tokens(reply[2]),
		}
		b.Epoch = quota.Epoch(reply[3])
		reply = reply[4:]
	}
	if st.Window == bucket.NoWindow {
		return b, reply, true
	}
	if len(reply) < 3 || reply[1] <= 0 {
		return b, nil, false
	}
	b.Reset, b.Fresh, b.Back = quota.Micros(reply[0]), quota.Micros(reply[1]), quota.Tokens(reply[2])
	return b, reply[3:], true
}

// waits reads how long those wait for each sliding window whom a run has denied.
func waits(reply []int64, buckets []bucket.Balance) (rest []int64, ok bool) {
	for i := range buckets {
		if b := &buckets[i]; b.Fresh > 0 {
			if len(reply) == 0 {
				return nil, false
			}
			b.Wait, reply = quota.Micros(reply[0]), reply[1:]
		}
	}
	return reply, true
}

// fail tells everyone the same error.
func (c *call) fail(err error) {
	for _, g := range c.groups {
		for _, w := range g.waiters {
			w.answer = answer{err: err}
		}
	}
	c.tell()
}

func (c *call) tell() {
	for _, g := range c.groups {
		for _, w := range g.waiters {
			w.done <- struct{}{}
		}
	}
}
