package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/check"
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/workload"
)

// timing is short, so that a session that ends costs seconds of a test.
func timing() quota.Timing {
	t := quota.DefaultTiming()
	t.TTL, t.Guard, t.Delta = 3*time.Second, 500*time.Millisecond, 100*time.Millisecond
	t.Answer, t.Tick = time.Second, 500*time.Millisecond
	return t
}

// election is the longest a follower waits for a leader before it stands itself.
const election = 2 * 500 * time.Millisecond

func raft(election time.Duration) coordinator.RaftTimeouts {
	return coordinator.RaftTimeouts{
		Heartbeat: election / 2, Election: election / 2, LeaderLease: election / 4,
		Commit: 10 * time.Millisecond, Apply: 2 * time.Second,
	}
}

// patience is the deadline of what has none of its own.
const patience = 30 * time.Second

// scene is a World with the assertions of these tests.
type scene struct {
	*live.World
	t *testing.T
}

// open starts a World with a redis-server per region. It fails the test, at its
// end, when a node died by itself or found a data race.
func open(t *testing.T, document string, opts live.Options) *scene {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a process per node and runs in real time")
	}
	opts.Timing, opts.Rules, opts.Dir = timing(), document, t.TempDir()
	if opts.Raft == (coordinator.RaftTimeouts{}) {
		opts.Raft = raft(election)
	}
	if opts.Regions == nil {
		opts.Regions = []live.RegionSpec{{Name: "ap"}, {Name: "eu"}, {Name: "us"}}
	}
	for i := range opts.Regions {
		opts.Regions[i].Store = live.StoreRedis
	}
	w, err := live.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Died(); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return &scene{w, t}
}

// rule is a key-only rule of the domain shop, of so many requests a second. The
// words are further keys of its quota block.
func rule(key string, rate int, words ...string) string {
	return fmt.Sprintf("- key: %s\n  rate_limit: {unit: second, requests_per_unit: %d, quota: {%s}}\n",
		key, rate, strings.Join(words, ", "))
}

func document(rules ...string) string {
	return "domain: shop\ndescriptors:\n" + strings.Join(rules, "")
}

// limit is the limit of a rule(…, rate).
func limit(rate uint64) quota.Capacity {
	return quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(rate), Per: quota.Second}, Burst: quota.Whole(rate)}
}

// audited begins the audit of one value of a rule against its limit.
func (s *scene) audited(key string, rate uint64) *live.Track {
	return s.Track(live.Identity{
		Domain: "shop", Entries: []rules.Entry{{Key: key, Value: "one"}},
	}, limit(rate))
}

// offer begins steady demand in some regions, the same in each.
func (s *scene) offer(tr *live.Track, rate float64, regions ...string) (loads []*live.Load) {
	s.t.Helper()
	for _, r := range regions {
		loads = append(loads, s.load(live.LoadSpec{Region: r, Track: tr, Demand: workload.Steady(rate)}))
	}
	return loads
}

func (s *scene) load(spec live.LoadSpec) *live.Load {
	s.t.Helper()
	l, err := s.Load(spec)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func stop(loads []*live.Load) {
	for _, l := range loads {
		l.Stop()
	}
}

// until waits for what must come true within a time, and returns how long that
// took.
func (s *scene) until(what string, within time.Duration, try func() error) time.Duration {
	s.t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return time.Since(began)
		}
		if died := s.Died(); died != nil {
			s.t.Fatalf("%s: %v", what, died)
		}
		if time.Since(began) > within {
			s.t.Fatalf("%s: not within %v: %v", what, within, err)
		}
		<-tick.C
	}
}

// span is what happened between two tallies.
type span struct{ from, to live.Tally }

// watch lets the load run for a time.
func (s *scene) watch(d time.Duration, tr *live.Track) span {
	from := tr.Tally()
	<-time.After(d)
	return span{from, tr.Tally()}
}

func (s span) seconds() float64 { return (s.to.At - s.from.At).Duration().Seconds() }

// admitted is the rate of a region, in requests a second.
func (s span) admitted(region string) float64 {
	n := s.to.Regions[region].Admitted - s.from.Regions[region].Admitted
	return float64(n) / float64(quota.Token) / s.seconds()
}

// lost is what a region denied, and what got no decision.
func (s span) lost(region string) (denied, failed quota.Tokens) {
	a, b := s.from.Regions[region], s.to.Regions[region]
	return b.Denied - a.Denied, b.Failed + b.Dropped - a.Failed - a.Dropped
}

// utilization is what was admitted of what one central bucket would have.
func (s span) utilization() float64 {
	return float64(s.to.Counts.Admitted-s.from.Counts.Admitted) / float64(s.to.Ideal-s.from.Ideal)
}

// serves fails the test unless at least that part of the ideal was admitted.
func (s *scene) serves(what string, sp span, least float64) {
	s.t.Helper()
	have := sp.utilization()
	s.t.Logf("%s: admitted %.3f of the ideal in %.1f s", what, have, sp.seconds())
	if measured && have < least {
		s.t.Errorf("%s: admitted %.3f of the ideal, want %.2f", what, have, least)
	}
}

// between fails the test unless a region admitted between least and most
// requests a second. The lower end is judged where the machine can keep up.
func (s *scene) between(what string, sp span, region string, least, most float64) {
	s.t.Helper()
	have := sp.admitted(region)
	s.t.Logf("%s: region %s admitted %.1f/s", what, region, have)
	if have > most || measured && have < least {
		s.t.Errorf("%s: region %s admitted %.1f/s, want %.1f … %.1f", what, region, have, least, most)
	}
}

// settles waits until each of some regions has admitted at least and at most so
// many requests a second over the last whole second, and returns how long that
// took, that second included.
func (s *scene) settles(what string, tr *live.Track, within time.Duration, least, most float64, regions ...string) time.Duration {
	s.t.Helper()
	return s.until(what, within, lately(tr, least, most, regions))
}

// lately says why a region did not admit so much over the last whole second,
// given that it is called all the time.
func lately(tr *live.Track, least, most float64, regions []string) func() error {
	tallies := []live.Tally{tr.Tally()}
	return func() error {
		now := tr.Tally()
		tallies = append(tallies, now)
		for len(tallies) > 1 && now.At-tallies[1].At >= quota.Second {
			tallies = tallies[1:]
		}
		sp := span{tallies[0], now}
		if sp.seconds() < 1 {
			return errors.New("less than a second has passed")
		}
		for _, r := range regions {
			if have := sp.admitted(r); have < least || have > most {
				return fmt.Errorf("%s: region %s admits %.1f/s, want %.1f … %.1f", tr.Identity.Entries[0].Key, r, have, least, most)
			}
		}
		return nil
	}
}

// recovers waits until each of some regions serves three quarters of its even
// part of the limit again.
func (s *scene) recovers(what string, tr *live.Track, within time.Duration, regions ...string) {
	s.t.Helper()
	s.allRecover(what, within, served{tr, regions})
}

// served is who should serve a limit.
type served struct {
	track   *live.Track
	regions []string
}

func (s *scene) allRecover(what string, within time.Duration, parts ...served) {
	s.t.Helper()
	if !measured {
		within *= 2
	}
	var tries []func() error
	for _, p := range parts {
		least := 0.75 * p.track.Limit.Rate.PerSecond() / float64(len(s.Regions()))
		if !measured {
			least *= 0.6
		}
		tries = append(tries, lately(p.track, least, math.Inf(1), p.regions))
	}
	took := s.until(what, within, func() (err error) {
		for _, try := range tries {
			err = errors.Join(err, try()) // each needs every sample
		}
		return err
	})
	s.t.Logf("%s: all serve after %v, the measured second included", what, took.Round(10*time.Millisecond))
}

// forgotten waits until no agent of some regions has a session that counts any
// more, so that each rule's on_disconnect decides.
func (s *scene) forgotten(what string, regions ...string) {
	s.t.Helper()
	took := s.until(what+": leases end", timing().TTL+5*time.Second, func() error {
		for _, r := range regions {
			for _, a := range s.Region(r).Agents {
				if left := s.metric(a, "quorate_lease_deadline_seconds"); left > 0 {
					return fmt.Errorf("%s may use its leases for %.1f s", a.Name, left)
				}
			}
		}
		return nil
	})
	s.t.Logf("%s: the leases of %v ended after %v", what, regions, took.Round(10*time.Millisecond))
}

// onShare lets regions without a session serve for a while, and fails the test
// unless each serves its standing share, and no token more.
func (s *scene) onShare(what string, tr *live.Track, share uint64, d time.Duration, regions ...string) {
	s.t.Helper()
	sp := s.watch(d, tr)
	for _, r := range regions {
		// The bucket is empty or, after a moment without requests, nearly so.
		s.between(what, sp, r, 0.8*float64(share), 2*float64(share))
		if over := tr.AuditRegion(r, sp.from.At, limit(share)).Certain; over != 0 {
			s.t.Errorf("%s: region %s admitted %v more than its standing share of %d", what, r, over, share)
		}
	}
}

// bound fails the test when the Bound was broken, by a track's own limit.
func (s *scene) bound(tr *live.Track) check.Report {
	s.t.Helper()
	return s.within(tr, tr.Limit)
}

func (s *scene) within(tr *live.Track, limit quota.Capacity) check.Report {
	s.t.Helper()
	r := tr.AuditWithin(limit)
	tally := tr.Tally()
	s.t.Logf("%s: admitted %v of the ideal %v, overshoot certain %v possible %v, headroom %v, failed %v dropped %v, p99 %v worst %v",
		tr.Identity.Entries[0].Key, r.Admitted, tally.Ideal, r.Certain, r.Possible, r.Headroom, tally.Counts.Failed, tally.Counts.Dropped,
		tally.P99.Duration(), tally.Worst.Duration())
	if ahead := s.WallClockAhead(); ahead > 0 {
		s.t.Logf("this machine's wall clock jumped %v ahead, which the audit allows for", ahead)
	}
	if r.Certain != 0 {
		s.t.Errorf("%s: %v tokens over the Bound of %v: %+v", tr.Identity.Entries[0].Key, r.Certain, limit, r)
	}
	return r
}

// leader waits for a leader that serves.
func (s *scene) leader() *live.Coordinator {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	c, err := s.AwaitLeader(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *scene) must(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}
