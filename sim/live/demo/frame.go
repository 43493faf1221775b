package demo

import (
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/live"
)

// frame is what there is to show at one moment.
type frame struct {
	elapsed, duration time.Duration
	limit             quota.Capacity
	sight             live.Sight
	rows              []row // one per region
	total             row
	tally             live.Tally
	// overshoot is what the auditor could prove at its last look.
	overshoot quota.Tokens
	events    []Event
}

// row is one region's figures, per second over the last second.
type row struct {
	name                            string
	demand, lease, admitted, denied float64
	failed                          float64
	cut, standing                   bool
}

// camera takes frames. It keeps the tallies of the last second, so that rates
// are over a second however often it is asked.
type camera struct {
	options Options
	world   *live.World
	track   *live.Track
	watch   *live.Watch
	script  *script
	past    []live.Tally
	// An audit looks at all admissions, so it is made now and then only.
	overshoot quota.Tokens
	nextAudit time.Time
}

// headroom is what could be admitted now. The meter takes the time of an answer
// for that of the admission, so that it is a little below zero at times when
// the limit is used up; only an audit can prove an overshoot.
func (f frame) headroom() quota.Tokens {
	if f.overshoot > 0 {
		return -f.overshoot
	}
	return max(0, f.tally.Headroom)
}

func (c *camera) audit() quota.Tokens {
	start := time.Now()
	if start.Before(c.nextAudit) {
		return c.overshoot
	}
	c.overshoot = c.track.Audit().Certain
	c.nextAudit = start.Add(max(5*time.Second, 50*time.Since(start)))
	return c.overshoot
}

// span is the time that rates are measured over.
const span = quota.Second

func (c *camera) take() frame {
	now := c.track.Tally()
	for len(c.past) > 1 && now.At-c.past[1].At >= span {
		c.past = c.past[1:]
	}
	before := live.Tally{At: now.At - span}
	if len(c.past) > 0 {
		before = c.past[0]
	}
	c.past = append(c.past, now)
	events, _ := c.script.history()
	f := frame{
		elapsed: min(time.Since(c.script.start), c.options.Duration), duration: c.options.Duration,
		limit: c.options.limit(), sight: c.watch.Sight(), tally: now, events: events,
		overshoot: c.audit(),
	}
	seconds := max((now.At - before.At).Duration().Seconds(), 0.001)
	for _, r := range c.world.Regions() {
		one := rates(r.Name, before.Regions[r.Name], now.Regions[r.Name], seconds)
		lease := f.sight.Leases[r.Name]
		one.lease, one.standing, one.cut = lease.Capacity.Rate.PerSecond(), lease.Standing, r.IsCut()
		f.rows = append(f.rows, one)
		f.total.lease += one.lease
	}
	lease := f.total.lease
	f.total = rates("all", before.Counts, now.Counts, seconds)
	f.total.lease = lease
	return f
}

func rates(name string, before, now live.Counts, seconds float64) row {
	per := func(before, now quota.Tokens) float64 {
		return float64(now-before) / float64(quota.Token) / seconds
	}
	return row{
		name: name, demand: per(before.Offered, now.Offered), admitted: per(before.Admitted, now.Admitted),
		denied: per(before.Denied, now.Denied), failed: per(before.Failed+before.Dropped, now.Failed+now.Dropped),
	}
}
