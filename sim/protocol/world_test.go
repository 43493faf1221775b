package protocol

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/check"
)

// world is one run: an event queue in true time, the log, its leaders, the
// regions, and the auditor.
type world struct {
	rand   *rand.Rand
	params params
	now    quota.Micros
	queue  queue
	count  int // of events ever queued: the tie-break

	log     []ledger.Batch // committed, in order; index = position + 1
	leaders []*leader      // every leader there ever was; the last is the real one
	regions []*region
	keys    []quota.Key
	meters  map[quota.Key]*check.Meter
	limit   quota.Capacity

	admitted, denied, applied, elections, resets, ended int
	storms                                              int
	busy                                                bool
	trace                                               func(format string, args ...any)
}

// params are the faults of one run, drawn from its seed.
type params struct {
	loss, duplicate  float64
	maxDelay         quota.Micros // of a message
	commit           quota.Micros // of a log entry, at most
	lost             float64      // proposals
	elections        quota.Micros // mean time between leader changes, 0 for none
	partitions       quota.Micros
	resets           quota.Micros
	edits            quota.Micros
	nonsense         float64 // share of rounds with arbitrary assignments
	drift            bool
	idle, burst      quota.Micros // longest quiet and busy times, the same everywhere
	rate             int          // of the limit, a second: slow ones show a token too many for longest
	regions, perSite int
}

func (w *world) draw() params {
	pick := func(values ...quota.Micros) quota.Micros { return values[w.rand.IntN(len(values))] }
	return params{
		loss:       w.rand.Float64() * 0.3 * float64(w.rand.IntN(2)),
		duplicate:  w.rand.Float64() * 0.3 * float64(w.rand.IntN(2)),
		maxDelay:   pick(2, 80, 400, 1500, 2500) * quota.Second / 1000,
		commit:     pick(1, 40, 300) * quota.Second / 1000,
		lost:       w.rand.Float64() * 0.2 * float64(w.rand.IntN(2)),
		elections:  pick(0, 3, 8, 30) * quota.Second,
		partitions: pick(0, 5, 15) * quota.Second,
		resets:     pick(0, 0, 10, 20) * quota.Second,
		edits:      pick(0, 0, 5, 15) * quota.Second,
		nonsense:   float64(w.rand.IntN(3)) / 2,
		drift:      w.rand.IntN(2) == 0,
		idle:       pick(1, 5, 15) * quota.Second,
		rate:       int(pick(1, 4, 20)),
		burst:      pick(1, 4) * quota.Second / 2,
		regions:    2 + w.rand.IntN(3), perSite: 1 + w.rand.IntN(2),
	}
}

type event struct {
	at    quota.Micros
	order int
	do    func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), cmp.Compare(q[i].order, q[j].order)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

func (w *world) after(d quota.Micros, do func()) {
	w.count++
	heap.Push(&w.queue, event{w.now + max(d, 0), w.count, do})
}

// every runs do at random times with the given mean distance; 0 is never.
func (w *world) every(mean quota.Micros, do func()) {
	if mean == 0 {
		return
	}
	w.after(quota.Micros(w.rand.ExpFloat64()*float64(mean)), func() {
		do()
		w.every(mean, do)
	})
}

func (w *world) between(lo, hi quota.Micros) quota.Micros {
	return lo + quota.Micros(w.rand.Int64N(int64(hi-lo)+1))
}

// clock is one machine's clock: true time at its own rate, from its own origin.
type clock struct {
	origin quota.Micros
	ppm    int64 // how much faster than true time
}

// driftPPM keeps any two clocks within rho = 1 % of each other.
const driftPPM = 4_900

func (w *world) clock() clock {
	c := clock{origin: w.between(0, 1000*quota.Second)}
	if w.params.drift {
		c.ppm = w.rand.Int64N(2*driftPPM+1) - driftPPM
	}
	return c
}

func (c clock) read(now quota.Micros) quota.Micros {
	return c.origin + now + now/1_000_000*quota.Micros(c.ppm) + now%1_000_000*quota.Micros(c.ppm)/1_000_000
}

// document is the rule under test. Its limit never changes; the standing share does.
func (w *world) document(standing float64) []quota.Source {
	return []quota.Source{{Name: "api.yaml", Text: fmt.Sprintf(`domain: api
descriptors:
  - key: user
    rate_limit:
      requests_per_unit: %d
      unit: second
      quota: {burst: 40, standing_share: %g}
`, w.params.rate, standing)}}
}

func newWorld(seed uint64) *world {
	w := &world{rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), meters: map[quota.Key]*check.Meter{}}
	w.params = w.draw()
	w.trace = func(string, ...any) {}
	set, err := rules.Parse(w.document(0.3))
	if err != nil {
		panic(err)
	}
	w.limit = set.Rules()[0].Limits[0].Capacity
	// The auditor's clock is true time; the regions' may be faster.
	audited := w.limit
	audited.Rate.Tokens += audited.Rate.Tokens / quota.PPM * driftPPM * 2
	for _, user := range []string{"ann", "bob"} {
		entries := []rules.Entry{{Key: "user", Value: user}}
		k := set.Match("api", entries).Key("api", entries, 0)
		w.keys = append(w.keys, k)
		w.meters[k] = check.NewMeter(audited)
	}
	var shares quota.Shares
	for i := range w.params.regions {
		name := string(rune('a' + i))
		shares = append(shares, quota.Share{Region: name, Weight: int64(1 + w.rand.IntN(3))})
		w.regions = append(w.regions, w.newRegion(name))
	}
	w.log = append(w.log, ledger.Batch{Term: 1, Ops: []ledger.Op{
		ledger.Found{Cluster: "c1", Shares: shares},
		ledger.SetRules{Sources: w.document(0.3)},
	}})
	w.elect()
	w.every(w.params.elections, w.elect)
	w.every(w.params.partitions, w.partition)
	w.every(w.params.resets, func() { w.regions[w.rand.IntN(len(w.regions))].reset() })
	w.quiet()
	w.every(w.params.edits, w.edit)
	return w
}

// quiet and storm alternate: buckets fill up everywhere, then all regions take
// what they can at once. Only then does a token too many show.
func (w *world) quiet() {
	w.busy = false
	w.after(w.between(0, w.params.idle), w.storm)
}

func (w *world) storm() {
	w.busy = true
	w.storms++
	for _, r := range w.regions {
		r.hammer(w.storms)
	}
	w.after(w.between(0, w.params.burst), w.quiet)
}

// run lets the world go on until the true time end.
func (w *world) run(end time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= quota.MicrosOf(end) {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
}

// send delivers a message: late, in any order, twice, or never.
func (w *world) send(r *region, deliver func()) {
	copies := 1
	if w.rand.Float64() < w.params.duplicate {
		copies = 2
	}
	for range copies {
		if r.cut || w.rand.Float64() < w.params.loss {
			continue
		}
		w.after(w.between(0, w.params.maxDelay), func() {
			if !r.cut {
				deliver()
			}
		})
	}
}

func (w *world) partition() {
	r := w.regions[w.rand.IntN(len(w.regions))]
	r.cut = true
	w.after(w.between(0, 25*quota.Second), func() { r.cut = false })
}

// edit changes the standing share or a weight; the limit stays what it is.
func (w *world) edit() {
	l := w.leaders[len(w.leaders)-1]
	var op ledger.Op = ledger.SetRules{Sources: w.document(float64(w.rand.IntN(9)) / 10)}
	if w.rand.IntN(2) == 0 {
		op = ledger.AddRegion{Region: w.regions[w.rand.IntN(len(w.regions))].name, Weight: int64(w.rand.IntN(4))}
	}
	l.propose([]ledger.Op{op}, func([]error) {})
}

// worst returns the largest overshoot of any key.
func (w *world) worst() (over quota.Tokens) {
	for _, m := range w.meters {
		over = max(over, -m.Worst())
	}
	return over
}
