package live

import (
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/check"
)

// Identity is what a load asks for: one descriptor of a domain.
type Identity struct {
	Domain  string
	Entries []rules.Entry
}

// Track is the audit of one identity: what was asked for and admitted in all
// regions together, against the limit it should have. All its times are read
// under one lock, so they are in order.
type Track struct {
	Identity Identity
	Limit    quota.Capacity

	world      *World
	descriptor *ratelimitv3.RateLimitDescriptor // the identity, as it is asked for

	mu         sync.Mutex
	ideal      *check.Ideal
	meter      *check.Meter
	spare      *check.Spare
	admissions []check.Admission
	admittedIn []string                // the region of each admission
	latency    *hdrhistogram.Histogram // microseconds
	counts     Counts
	regions    map[string]*Counts
}

// Counts is what became of requests, in their costs.
type Counts struct {
	// Offered is all that arrived; the other four are what became of it, and
	// what is left of it is still on the way.
	Offered, Admitted, Denied quota.Tokens
	// Failed got no decision: an error or no answer in time.
	Failed quota.Tokens
	// Dropped was never sent, as too many requests were waiting for answers.
	Dropped quota.Tokens
}

// Track begins the audit of an identity against a limit. It should exist before
// the first request for the identity.
func (w *World) Track(id Identity, limit quota.Capacity) *Track {
	t := &Track{
		Identity: id, Limit: limit, world: w,
		ideal: check.NewIdeal(limit), meter: check.NewMeter(limit), spare: check.NewSpare(limit),
		latency: hdrhistogram.New(1, 60_000_000, 2),
		regions: map[string]*Counts{},
	}
	t.descriptor = &ratelimitv3.RateLimitDescriptor{}
	for _, e := range id.Entries {
		t.descriptor.Entries = append(t.descriptor.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
	}
	return t
}

func (t *Track) region(name string) *Counts {
	c, ok := t.regions[name]
	if !ok {
		c = &Counts{}
		t.regions[name] = c
	}
	return c
}

// arrive counts a request that is about to be sent and returns when that is.
func (t *Track) arrive(region string, cost quota.Tokens) quota.Micros {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.world.Now()
	t.ideal.Offer(now, cost)
	t.counts.Offered += cost
	t.region(region).Offered += cost
	return now
}

// outcome is what became of a request.
type outcome int

const (
	admitted outcome = iota
	denied
	failed
	dropped
)

// settle counts what became of a request that was sent at sent.
func (t *Track) settle(region string, cost quota.Tokens, sent quota.Micros, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.world.Now()
	for _, c := range []*Counts{&t.counts, t.region(region)} {
		switch o {
		case admitted:
			c.Admitted += cost
		case denied:
			c.Denied += cost
		case failed:
			c.Failed += cost
		case dropped:
			c.Dropped += cost
		}
	}
	if o == denied {
		t.spare.Deny(now, cost)
	}
	if o == admitted {
		t.meter.Admit(now, cost)
		t.spare.Admit(now, cost)
		t.admissions = append(t.admissions, check.Admission{Cost: cost, Sent: sent, Answered: now})
		t.admittedIn = append(t.admittedIn, region)
	}
	if o == admitted || o == denied {
		// Beyond the histogram's range counts as its end, a minute.
		_ = t.latency.RecordValue(min(max(1, int64(now-sent)), t.latency.HighestTrackableValue()))
	}
}

// Tally is what a track has seen so far.
type Tally struct {
	At     quota.Micros
	Counts Counts
	// Regions are the counts by region.
	Regions map[string]Counts
	// Ideal is what one central bucket would have admitted.
	Ideal quota.Tokens
	// DeniedWhileThere is what was denied although one central bucket had it.
	DeniedWhileThere quota.Tokens
	// Headroom is what could be admitted now inside the Bound, by the times of
	// the answers.
	Headroom quota.Tokens
	// Latencies of the decisions, from sending to the answer.
	P50, P99, Worst quota.Micros
}

// Utilization is what was admitted of what one central bucket would have
// admitted; 1 when that is nothing.
func (t Tally) Utilization() float64 {
	if t.Ideal == 0 {
		return 1
	}
	return float64(t.Counts.Admitted) / float64(t.Ideal)
}

// AddTo adds what was offered and admitted in each region so far to sums.
func (t *Track) AddTo(sums map[string]Counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, c := range t.regions {
		sum := sums[name]
		sum.Offered += c.Offered
		sum.Admitted += c.Admitted
		sums[name] = sum
	}
}

// Tally returns what the track has seen so far.
func (t *Track) Tally() Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.world.Now()
	regions := make(map[string]Counts, len(t.regions))
	for name, c := range t.regions {
		regions[name] = *c
	}
	return Tally{
		At: now, Counts: t.counts, Regions: regions,
		Ideal: t.ideal.Admitted(), DeniedWhileThere: t.spare.Denied(), Headroom: t.meter.Headroom(now),
		P50: quota.Micros(t.latency.ValueAtQuantile(50)), P99: quota.Micros(t.latency.ValueAtQuantile(99)),
		Worst: quota.Micros(t.latency.Max()),
	}
}

// Audit measures all admissions so far against the limit.
func (t *Track) Audit() check.Report { return t.AuditWithin(t.Limit) }

// AuditWithin measures all admissions so far against another limit than the
// track's, such as the Worst case of `on_disconnect: hold`.
func (t *Track) AuditWithin(limit quota.Capacity) check.Report {
	t.mu.Lock()
	list := t.admissions[:len(t.admissions):len(t.admissions)]
	t.mu.Unlock()
	// What was appended is never changed, so the audit needs no lock.
	return t.audit(limit, list)
}

// audit measures admissions. All nodes share this machine's clock: no allowance
// for its rate, only for jumps that it was seen to make.
func (t *Track) audit(limit quota.Capacity, list []check.Admission) check.Report {
	limit.Burst += slack(limit, t.world.WallClockAhead())
	return check.Audit(limit, 0, list)
}

// AuditRegion measures what one region admitted of the requests that were sent
// at from or later, against what it may spend alone, such as its standing share.
func (t *Track) AuditRegion(region string, from quota.Micros, limit quota.Capacity) check.Report {
	t.mu.Lock()
	list, in := t.admissions[:len(t.admissions):len(t.admissions)], t.admittedIn[:len(t.admissions)]
	t.mu.Unlock()
	var own []check.Admission
	for i, a := range list {
		if in[i] == region && a.Sent >= from {
			own = append(own, a)
		}
	}
	return t.audit(limit, own)
}
