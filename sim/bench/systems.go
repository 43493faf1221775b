package bench

import (
	"container/heap"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/check"
)

// request is one request of a workload.
type request struct {
	at     quota.Micros
	region int
	key    int
	cost   quota.Tokens
}

// stream is the requests of one load, with the next one drawn.
type stream struct {
	request
	order int
	from  *sim.Requests
}

type streams []*stream

func (s streams) Len() int { return len(s) }
func (s streams) Less(i, j int) bool {
	return s[i].at < s[j].at || s[i].at == s[j].at && s[i].order < s[j].order
}
func (s streams) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *streams) Push(x any)   { *s = append(*s, x.(*stream)) }
func (s *streams) Pop() any {
	old := *s
	x := old[len(old)-1]
	*s = old[:len(old)-1]
	return x
}

func (s *stream) next() bool {
	at, key, cost, ok := s.from.Next()
	s.at, s.key, s.cost = at, key, quota.Whole(uint64(cost))
	return ok
}

// each calls f with the requests of a plan in the order of time: the very ones
// that sim.Run sends.
func each(p sim.Plan, seed uint64, f func(request)) {
	var all streams
	for i, l := range p.Load {
		s := &stream{order: i, from: sim.NewRequests(l, seed, uint64(i+1))}
		for r := range p.Regions {
			if p.Regions[r].Name == l.Region {
				s.region = r
			}
		}
		if s.next() {
			all = append(all, s)
		}
	}
	heap.Init(&all)
	for len(all) > 0 && p.Start+all[0].at <= p.Duration {
		f(all[0].request)
		if all[0].next() {
			heap.Fix(&all, 0)
		} else {
			heap.Pop(&all)
		}
	}
}

// system is a limiter in several regions. Its clocks are right and its stores
// never fail.
type system interface {
	// offer asks for one request of a key and reports whether it is admitted.
	offer(r request) bool
}

// level is a token bucket that starts full.
type level struct {
	tokens quota.Tokens
	at     quota.Micros
}

func (l *level) refill(c quota.Capacity, now quota.Micros) {
	filled, unspent := c.Refill(l.tokens, now-l.at)
	l.tokens, l.at = filled, now-unspent
}

// buckets are independent buckets per region and key, each of one capacity.
type buckets struct {
	capacity quota.Capacity
	levels   map[[2]int]*level
}

func newBuckets(c quota.Capacity) *buckets { return &buckets{c, map[[2]int]*level{}} }

func (b *buckets) offer(r request) bool {
	id := [2]int{r.region, r.key}
	l := b.levels[id]
	if l == nil {
		l = &level{b.capacity.Burst, r.at}
		b.levels[id] = l
	}
	l.refill(b.capacity, r.at)
	if l.tokens < r.cost {
		return false
	}
	l.tokens -= r.cost
	return true
}

// gossip counts in every region: each admits by its own bucket, and what the
// others have admitted is taken from it when their message arrives.
type gossip struct {
	*buckets
	regions int
	since   map[[2]int]quota.Tokens // admitted and not yet told
	next    quota.Micros
	posts   []post
}

type post struct {
	at     quota.Micros
	from   int
	counts map[int]quota.Tokens // by key
}

const gossipEvery = quota.Second / 10

func newGossip(c quota.Capacity, regions int) *gossip {
	return &gossip{buckets: newBuckets(c), regions: regions, since: map[[2]int]quota.Tokens{}, next: gossipEvery}
}

func (g *gossip) offer(r request) bool {
	for g.next <= r.at {
		for from := range g.regions {
			p := post{at: g.next + oneWay, from: from, counts: map[int]quota.Tokens{}}
			for id, n := range g.since {
				if id[0] == from {
					p.counts[id[1]] = n
				}
			}
			g.posts = append(g.posts, p)
		}
		clear(g.since)
		g.next += gossipEvery
	}
	for len(g.posts) > 0 && g.posts[0].at <= r.at {
		p := g.posts[0]
		g.posts = g.posts[1:]
		for key, n := range p.counts {
			for to := range g.regions {
				if to == p.from {
					continue
				}
				id := [2]int{to, key}
				l := g.levels[id]
				if l == nil {
					l = &level{g.capacity.Burst, p.at}
					g.levels[id] = l
				}
				l.refill(g.capacity, p.at)
				l.tokens -= n
			}
		}
	}
	if !g.buckets.offer(r) {
		return false
	}
	g.since[[2]int{r.region, r.key}] += r.cost
	return true
}

// limitOf returns the limit that all keys of a plan have.
func limitOf(p sim.Plan) (quota.Capacity, error) {
	set, err := rules.Parse(p.Rules)
	if err != nil {
		return quota.Capacity{}, err
	}
	return set.Match(p.Keys[0].Domain, p.Keys[0].Entries).Limits[0].Capacity, nil
}

// measure asks a system everything and audits what it admits.
func measure(p sim.Plan, seed uint64, limit quota.Capacity, s system) Result {
	var out Result
	meters, ideals, spares := map[int]*check.Meter{}, map[int]*check.Ideal{}, map[int]*check.Spare{}
	var admitted, ideal, denied quota.Tokens
	each(p, seed, func(r request) {
		m := meters[r.key]
		if m == nil {
			m = check.NewMeter(limit)
			meters[r.key], ideals[r.key], spares[r.key] = m, check.NewIdeal(limit), check.NewSpare(limit)
		}
		if ideals[r.key].Offer(r.at, r.cost) {
			ideal += r.cost
		}
		switch {
		case s.offer(r):
			m.Admit(r.at, r.cost)
			spares[r.key].Admit(r.at, r.cost)
			admitted += r.cost
		case spares[r.key].Deny(r.at, r.cost):
			denied += r.cost
		}
	})
	for _, m := range meters {
		out.OvershootTokens = max(out.OvershootTokens, inTokens(max(0, -m.Worst())))
	}
	out.Utilization = 1
	if ideal > 0 {
		out.Utilization = float64(admitted) / float64(ideal)
	}
	out.DeniedWhileAvailable = inTokens(denied)
	return out
}

func inTokens(t quota.Tokens) float64 { return float64(t) / float64(quota.Token) }
