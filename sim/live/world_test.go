package live

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/workload"
)

// These tests start a whole World each, with real Redis and real Raft on disk.
// They prove that the World does what its methods say; what quorate promises
// under all faults is tested elsewhere with it.

func quick() (quota.Timing, coordinator.RaftTimeouts) {
	timing := quota.DefaultTiming()
	timing.TTL, timing.Guard, timing.Delta = 3*time.Second, 500*time.Millisecond, 100*time.Millisecond
	timing.Answer, timing.Tick = time.Second, 500*time.Millisecond
	return timing, coordinator.RaftTimeouts{
		Heartbeat: 500 * time.Millisecond, Election: 500 * time.Millisecond, LeaderLease: 250 * time.Millisecond,
		Commit: 10 * time.Millisecond, Apply: 2 * time.Second,
	}
}

const perSecond = 200

// orders is the identity that the tests limit to 200 a second, burst 200.
var orders = Identity{Domain: "shop", Entries: []rules.Entry{{Key: "api", Value: "orders"}}}

func document(rate int) string {
	return fmt.Sprintf("domain: shop\ndescriptors:\n- key: api\n  value: orders\n  rate_limit: {unit: second, requests_per_unit: %d}\n", rate)
}

func limitOf(rate uint64) quota.Capacity {
	return quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(rate), Per: quota.Second}, Burst: quota.Whole(rate)}
}

func start(t *testing.T, opts Options) *World {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a process per node")
	}
	opts.Timing, opts.Raft = quick()
	opts.Dir = t.TempDir()
	opts.Rules = document(perSecond)
	w, err := Start(t.Context(), opts)
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
	return w
}

func load(t *testing.T, w *World, tr *Track, region string, rate float64) *Load {
	t.Helper()
	l, err := w.Load(LoadSpec{Region: region, Track: tr, Demand: workload.Steady(rate)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// admits waits until a region admits n more requests.
func admits(t *testing.T, tr *Track, region string, n uint64) {
	t.Helper()
	goal := tr.Tally().Regions[region].Admitted + quota.Whole(n)
	until(t, fmt.Sprintf("%s admits %d more", region, n), func() bool { return tr.Tally().Regions[region].Admitted >= goal })
}

func kept(t *testing.T, tr *Track) {
	t.Helper()
	if report := tr.Audit(); report.Broken() {
		t.Errorf("the Bound was broken by %v tokens: %+v", report.Certain, report)
	}
}

func TestWorldSurvivesItsFaults(t *testing.T) {
	w := start(t, Options{Regions: []RegionSpec{{Name: "eu"}, {Name: "us", Agents: 2}}})
	tr := w.Track(orders, limitOf(perSecond))
	watch := w.Watch(tr)
	load(t, w, tr, "eu", 150)
	load(t, w, tr, "us", 250)
	admits(t, tr, "eu", 200)
	admits(t, tr, "us", 200)

	leader, err := w.AwaitLeader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leader.Kill()
	if leader.Running() {
		t.Error("a killed node runs")
	}
	next, err := w.AwaitLeader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Restart(); err != nil {
		t.Fatal(err)
	}
	admits(t, tr, "eu", 200)
	until(t, "the watch has seen the change", func() bool { return watch.Sight().Changes > 0 })

	us := w.Region("us")
	us.Agent(0).Kill()
	if err := us.Agent(0).Restart(); err != nil {
		t.Fatal(err)
	}
	if err := w.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	admits(t, tr, "us", 100)

	w.Isolate(next, true)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	until(t, "another leader", func() bool {
		status, err := w.Leader(ctx)
		return err == nil && status != next
	})
	w.Rejoin(next)
	admits(t, tr, "eu", 200)
	kept(t, tr)
}

func TestRegionThatIsCutOffServesItsStandingShare(t *testing.T) {
	w := start(t, Options{Regions: []RegionSpec{{Name: "eu"}, {Name: "us"}}})
	tr := w.Track(orders, limitOf(perSecond))
	load(t, w, tr, "eu", 300)
	eu := w.Region("eu")
	admits(t, tr, "eu", 400)
	eu.Cut()
	if !eu.IsCut() {
		t.Error("the region does not know that it is cut off")
	}
	// Half of a tenth of 200 is 10 a second; with a lease it was nearly 200.
	until(t, "the lease has run out", func() bool {
		before := tr.Tally()
		pause := time.NewTimer(time.Second)
		<-pause.C
		after := tr.Tally()
		n := (after.Regions["eu"].Admitted - before.Regions["eu"].Admitted).Floor()
		return n > 3 && n < 30
	})
	load(t, w, tr, "us", 300)
	admits(t, tr, "us", 300) // the lease went to the other region
	eu.Heal()
	admits(t, tr, "eu", 200)
	kept(t, tr)
}

func TestStoreThatIsPausedOrEmptied(t *testing.T) {
	w := start(t, Options{Regions: []RegionSpec{{Name: "eu", Store: StoreRedis}}, Coordinators: 1})
	tr := w.Track(orders, limitOf(perSecond))
	load(t, w, tr, "eu", 300)
	admits(t, tr, "eu", 400)
	redis := w.Region("eu").Redis()
	if err := redis.Pause(); err != nil {
		t.Fatal(err)
	}
	admits(t, tr, "eu", 30) // from the agent's own bucket
	if err := redis.Resume(); err != nil {
		t.Fatal(err)
	}
	admits(t, tr, "eu", 300)
	if err := redis.Restart(false); err != nil {
		t.Fatal(err)
	}
	admits(t, tr, "eu", 300)
	kept(t, tr)
}

func TestEmbeddedStoresNeedNoRedis(t *testing.T) {
	w := start(t, Options{
		Regions: []RegionSpec{{Name: "eu", Agents: 2, Store: StoreEmbedded}, {Name: "us", Store: StoreEmbedded}}, Coordinators: 1,
	})
	if n := len(w.Region("eu").Agents); n != 1 || w.Region("eu").Redis() != nil {
		t.Errorf("have %d agents on an embedded store, want 1", n)
	}
	tr := w.Track(orders, limitOf(perSecond))
	load(t, w, tr, "eu", 200)
	load(t, w, tr, "us", 200)
	admits(t, tr, "eu", 100)
	admits(t, tr, "us", 100)
	kept(t, tr)
}

func TestRulesAreReplacedWhileServing(t *testing.T) {
	w := start(t, Options{Regions: []RegionSpec{{Name: "eu"}, {Name: "us"}}, Coordinators: 1})
	tr := w.Track(orders, limitOf(perSecond))
	l := load(t, w, tr, "eu", 300)
	admits(t, tr, "eu", 300)
	l.Stop()
	kept(t, tr)
	if err := w.ApplyRules(t.Context(), document(2*perSecond)); err != nil {
		t.Fatal(err)
	}
	wider := w.Track(orders, limitOf(2*perSecond))
	load(t, w, wider, "eu", 600)
	// More than the old limit admits within the time.
	until(t, "the new limit shows", func() bool {
		tally := wider.Tally()
		return tally.Counts.Admitted > quota.Whole(perSecond*2) && tally.Utilization() > 0.6
	})
	kept(t, wider)
}
