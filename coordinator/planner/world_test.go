package planner

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// world runs a leader with a real ledger and toy regions in virtual time.
type world struct {
	now     quota.Micros
	l       *ledger.Ledger
	term    *Term
	number  uint64 // of the term
	began   quota.Micros
	cfg     Config
	regions []*toy
	delay   quota.Micros // one way, region to leader
	commit  quota.Micros // of a log entry
	limits  map[quota.Key]quota.Limit
	central map[quota.Key]*central

	later    []event // sorted by time
	open     bool    // a round is being committed
	wake     quota.Micros
	leading  bool
	entries  int
	ops      map[string]int
	refusals []string
}

type event struct {
	at quota.Micros
	do func()
}

// central is one ideal bucket that sees all requests, and the bound: a bucket
// that is charged with what was really admitted, and must never be overdrawn.
type central struct {
	level, bound     quota.Tokens
	at, boundAt      quota.Micros
	ideal, admitted  quota.Tokens
	worst            quota.Tokens
	idealNow, gotNow quota.Tokens
}

const shop = quota.Key("shop|user=alice")

// document writes a rule document with one rule for every user.
func document(requests int, unit string, burst int, share string) []quota.Source {
	return []quota.Source{{Name: "shop.yaml", Text: fmt.Sprintf(`domain: shop
descriptors:
  - key: user
    rate_limit:
      unit: %s
      requests_per_unit: %d
      quota:
        burst: %d
        standing_share: %s
`, unit, requests, burst, share)}}
}

func newWorld(seed uint64, sources []quota.Source, names ...string) *world {
	w := &world{
		l: ledger.New(), cfg: Config{Timing: quota.DefaultTiming()},
		delay: 40_000, commit: 5_000, ops: map[string]int{},
		limits: map[quota.Key]quota.Limit{}, central: map[quota.Key]*central{},
	}
	w.cfg.Timing.Loan = 0 // the toys cannot lend
	var shares quota.Shares
	for i, n := range names {
		shares = append(shares, quota.Share{Region: n, Weight: 1})
		r := &toy{
			name: n, incarnation: n + "-store", demand: map[quota.Key]func(float64) float64{}, cost: map[quota.Key]quota.Tokens{},
			buckets: map[quota.Key]*bucket{},
		}
		if seed != 0 {
			r.rand = rand.New(rand.NewPCG(seed, uint64(i)))
		}
		r.share = func(k quota.Key) quota.Capacity {
			cfg := w.l.Config(r.config)
			if cfg == nil {
				return quota.Capacity{}
			}
			if _, limit := cfg.Rules().LimitOf(k); limit != nil {
				return limit.StandingShare(n, cfg.Shares)
			}
			return quota.Capacity{}
		}
		w.regions = append(w.regions, r)
	}
	w.number = 1
	w.apply(ledger.Found{Cluster: "test", Shares: shares}, ledger.SetRules{Sources: sources})
	w.elect()
	w.run(2 * quota.Second) // sessions open, configurations are adopted
	w.entries, w.ops = 0, map[string]int{}
	return w
}

func (w *world) region(name string) *toy {
	return w.regions[slices.IndexFunc(w.regions, func(r *toy) bool { return r.name == name })]
}

// apply commits operations at once and returns their errors.
func (w *world) apply(ops ...ledger.Op) []error {
	res := w.l.Apply(w.l.Index()+1, ledger.Batch{Term: w.number, At: w.now - w.began, Ops: ops})
	w.entries++
	errs := make([]error, len(ops))
	for i, op := range ops {
		name := strings.TrimPrefix(fmt.Sprintf("%T", op), "ledger.")
		w.ops[name]++
		if errs[i] = res.Err(i); errs[i] != nil {
			w.refusals = append(w.refusals, fmt.Sprintf("%v %+v: %v", w.now.Duration(), op, errs[i]))
		}
	}
	return errs
}

// elect makes a new leader that knows only the ledger.
func (w *world) elect() {
	w.number++
	w.began = w.now
	w.apply(ledger.Lead{Node: fmt.Sprint("n", w.number)})
	w.term, w.wake, w.leading, w.open = NewTerm(0, w.number, w.l, w.cfg), w.now, true, false
}

// depose leaves the cluster without a leader; what was under way is lost.
func (w *world) depose() { w.leading = false }

func (w *world) after(d quota.Micros, do func()) {
	e := event{w.now + d, do}
	i, _ := slices.BinarySearchFunc(w.later, e.at+1, func(e event, at quota.Micros) int { return cmp.Compare(e.at, at) })
	w.later = slices.Insert(w.later, i, e)
}

// at is the leader's clock.
func (w *world) at() quota.Micros { return w.now - w.began }

func (w *world) run(d quota.Micros) {
	for end := w.now + d; w.now < end; {
		w.now += 1000
		for len(w.later) > 0 && w.later[0].at <= w.now {
			do := w.later[0].do
			w.later = w.later[1:]
			do()
		}
		for _, r := range w.regions {
			r.serve(w.now, w.count)
			if req, due := r.sync(w.now); due && !r.cut {
				w.send(r, req)
			}
		}
		w.round()
	}
}

func (w *world) round() {
	if !w.leading || w.open || w.now < w.wake {
		return
	}
	ops, wake, propose := w.term.Next(w.at(), w.l)
	w.wake = w.began + wake
	if !propose {
		return
	}
	w.open = true
	term := w.term
	w.after(w.commit, func() {
		if w.term != term || !w.leading {
			return
		}
		errs := w.apply(ops...)
		term.Done(w.at(), w.l, ops, errs)
		w.open, w.wake = false, w.now
		for _, p := range term.Push(w.at(), w.l) {
			w.deliver(w.region(p.Region), 0, quota.SyncResponse{Cluster: w.l.Cluster(), Assignments: p.Assignments})
		}
	})
}

// send carries a sync to the leader and its answer back.
func (w *world) send(r *toy, req quota.SyncRequest) {
	sent := w.now
	w.after(w.delay, func() {
		if !w.leading || r.cut {
			return
		}
		term, arrived := w.term, w.at()
		before := term.Receive(arrived, w.l, req)
		w.wake = w.now
		answer := func() {
			if w.term == term && w.leading {
				w.deliver(r, sent, term.Answer(w.at(), arrived, w.l, req))
			}
		}
		if len(before) == 0 {
			answer()
			return
		}
		w.after(w.commit, func() {
			if w.term == term && w.leading {
				w.apply(before...)
				w.wake = w.now
				answer()
			}
		})
	})
}

func (w *world) deliver(r *toy, sent quota.Micros, resp quota.SyncResponse) {
	w.after(w.delay, func() {
		if !r.cut {
			r.take(w.now, sent, resp, quota.MicrosOf(w.cfg.Timing.Usable()))
		}
	})
}

// count compares with the ideal and with the bound.
func (w *world) count(k quota.Key, cost quota.Tokens, ok bool) {
	limit, known := w.limits[k]
	if !known {
		_, rule := w.l.Current().Rules().LimitOf(k)
		limit = rule.Limit
		w.limits[k] = limit
	}
	c := w.central[k]
	if c == nil {
		c = &central{level: limit.Burst, bound: limit.Burst, worst: limit.Burst, at: w.now, boundAt: w.now}
		w.central[k] = c
	}
	level, unspent := limit.Refill(c.level, w.now-c.at)
	c.level, c.at = level, w.now-unspent
	if c.level >= cost {
		c.level -= cost
		c.ideal += cost
		c.idealNow += cost
	}
	bound, unspent := limit.Refill(c.bound, w.now-c.boundAt)
	c.bound, c.boundAt = bound, w.now-unspent
	if ok {
		c.bound -= cost
		c.admitted += cost
		c.gotNow += cost
		c.worst = min(c.worst, c.bound)
	}
}

// efficiency is what was admitted of what one central bucket would have, in percent.
func (c *central) efficiency() float64 { return 100 * float64(c.admitted) / float64(c.ideal) }
