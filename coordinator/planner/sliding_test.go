package planner

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// logs are regions with a sliding log of 600 in 10 seconds, 50 ms from the coordinator.
type logs struct {
	*desk
	rand    *rand.Rand
	key     quota.Key
	regions []*logRegion
	all     []quota.Micros // admissions of all regions
}

type logRegion struct {
	name      string
	rate      float64 // requests a second
	held, aim quota.Tokens
	epoch     quota.Epoch
	log       []quota.Micros
	usage     quota.Usage
	reported  quota.Micros
	applied   []quota.Applied
	admitted  int
	offered   int
}

const slidingWindow = 10 * quota.Second

func newLogs(t *testing.T, rates ...float64) *logs {
	doc := []quota.Source{{Name: "shop.yaml", Text: "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: second, unit_multiplier: 10, requests_per_unit: 600, quota: {algorithm: sliding_window_log}}}\n"}}
	names := []string{"ap", "eu", "us"}
	w := &logs{desk: newDesk(t, doc, names...), rand: rand.New(rand.NewPCG(1, 2)), key: "shop|user=ann##log+10"}
	for i, n := range names {
		w.regions = append(w.regions, &logRegion{name: n, rate: rates[i], held: 20 * quota.Token, aim: 20 * quota.Token})
	}
	return w
}

func (r *logRegion) occupied(now quota.Micros) quota.Tokens {
	for len(r.log) > 0 && r.log[0] <= now-slidingWindow {
		r.log = r.log[1:]
	}
	return quota.Whole(uint64(len(r.log)))
}

// apply does what package bucket does.
func (r *logRegion) apply(now quota.Micros, a quota.Assignment) {
	if a.Epoch <= r.epoch {
		return
	}
	r.epoch = a.Epoch
	lease := max(a.Lease.Burst, min(r.occupied(now), r.held))
	r.applied = append(r.applied, quota.Applied{Key: a.Key, Session: a.Session, Epoch: a.Epoch, Surrendered: max(0, r.held-lease)})
	r.held, r.aim = lease, a.Lease.Burst
}

// run lets time pass: arrivals every millisecond, a sync of each region every 100 ms.
func (w *logs) run(d time.Duration) {
	for end := w.now + quota.MicrosOf(d); w.now < end; w.now += 1000 {
		for i, r := range w.regions {
			if w.rand.Float64() < r.rate/1000 {
				r.offered++
				u := &r.usage
				u.Largest = quota.Token
				if r.occupied(w.now)+quota.Token <= r.aim {
					r.log = append(r.log, w.now)
					w.all = append(w.all, w.now)
					r.admitted++
					u.Admitted += quota.Token
				} else {
					u.Denied += quota.Token
				}
				u.Level, u.Burst, u.Epoch = r.aim-r.occupied(w.now), r.aim, r.epoch
			}
			if (w.now/1000+quota.Micros(i)*33)%100 == 0 {
				w.exchange(r)
			}
		}
		if w.now%10_000 == 0 {
			w.round()
		}
	}
}

func (w *logs) exchange(r *logRegion) {
	u := r.usage
	u.Key, u.Window = w.key, (w.now - r.reported).Duration()
	if u.Admitted+u.Denied > 0 {
		r.reported = w.now
	}
	r.usage.Admitted, r.usage.Denied, r.usage.Largest = 0, 0, 0
	applied := r.applied
	r.applied = nil
	resp := w.sync(r.name, func(req *quota.SyncRequest) {
		if u.Admitted+u.Denied > 0 {
			req.Usage = []quota.Usage{u}
		}
		req.Applied = applied
	})
	for _, a := range resp.Assignments {
		r.apply(w.now, a)
	}
}

// reset begins the counts anew.
func (w *logs) reset() {
	for _, r := range w.regions {
		r.admitted, r.offered = 0, 0
	}
}

func (w *logs) check() {
	w.t.Helper()
	first := 0
	for i, at := range w.all {
		for w.all[first] <= at-slidingWindow {
			first++
		}
		if n := i - first + 1; n > 600 {
			w.t.Fatalf("%d admitted in one window", n)
		}
	}
}

// The level with which an account opens may be lower than the planner thought, when a
// standing share has shrunk meanwhile. Then the ledger refuses the first lease, and the
// account has to be opened before anybody knows what there is.
func TestAWindowOpensAfterARefusal(t *testing.T) {
	w := newLogs(t, 90, 0, 0)
	w.sync("ap", uses(asks(w.key, 20, 20, 0)))
	w.term.Done(w.at(), w.l, []ledger.Op{ledger.Assign{Region: "ap", Key: w.key}}, []error{ledger.ErrCredit})
	w.run(8 * time.Second)
	if have := w.regions[0]; have.held < quota.Whole(500) {
		t.Errorf("the region that asks for all has %v", have.held)
	}
	w.check()
}

// At 1.5 times the limit, 80/15/5, nearly all of it is used, and whoever asks for less
// than its fair part gets it.
func TestASlidingWindowIsUsedAtASteadySkew(t *testing.T) {
	w := newLogs(t, 72, 13.5, 4.5)
	w.run(30 * time.Second)
	w.reset()
	w.ops = nil
	w.run(60 * time.Second)
	w.check()
	admitted := 0
	for _, r := range w.regions {
		admitted += r.admitted
		if part := float64(r.admitted) / float64(r.offered); r.rate < 20 && part < 0.9 {
			t.Errorf("%s has %.3f of what it asks for", r.name, part)
		}
	}
	if used := float64(admitted) / 3600; used < 0.95 {
		t.Errorf("%.3f of the limit is used", used)
	}
	if perSecond := len(w.ops) / 60; perSecond > 15 {
		t.Errorf("%d operations a second", perSecond)
	}
}

// Demand that moves finds its places in the course of one window.
func TestPlacesFollowDemand(t *testing.T) {
	w := newLogs(t, 80, 5, 5)
	w.run(30 * time.Second)
	w.regions[0].rate, w.regions[2].rate = 5, 80
	w.run(15 * time.Second)
	w.reset()
	w.run(20 * time.Second)
	w.check()
	if us := w.regions[2]; float64(us.admitted) < 0.9*(1200-10*20) {
		t.Errorf("us has %d admitted in two windows", us.admitted)
	}
}

// At saturation every region comes down to its fair part, though it would use each
// place again at once.
func TestAFullWindowIsDividedFairly(t *testing.T) {
	w := newLogs(t, 200, 0, 0)
	w.run(15 * time.Second)
	w.regions[1].rate, w.regions[2].rate = 200, 200
	w.run(25 * time.Second)
	w.reset()
	w.run(20 * time.Second)
	w.check()
	for _, r := range w.regions {
		if r.admitted < 350 || r.admitted > 450 {
			t.Errorf("%s has %d admitted in two windows, want about 400", r.name, r.admitted)
		}
	}
}

// A lease that nobody uses goes back when its places are free, and the account with it.
func TestAnIdleWindowIsForgotten(t *testing.T) {
	w := newLogs(t, 50, 0, 0)
	w.run(15 * time.Second)
	if w.l.Account(w.key) == nil {
		t.Fatal("no account")
	}
	w.regions[0].rate = 0
	w.run(40 * time.Second)
	w.check()
	if a := w.l.Account(w.key); a != nil {
		t.Errorf("have %+v, returns %v", a.Holdings(), a.Returns())
	}
}

// A new leader takes what the regions hold for what they use.
func TestANewLeaderKeepsTheDivision(t *testing.T) {
	w := newLogs(t, 72, 13.5, 4.5)
	w.run(30 * time.Second)
	w.elect()
	w.reset()
	w.run(20 * time.Second)
	w.check()
	admitted := 0
	for _, r := range w.regions {
		admitted += r.admitted
	}
	if admitted < 1100 {
		t.Errorf("%d of 1200 admitted", admitted)
	}
}
