package fasttime

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator"
	"github.com/quorate/quorate/coordinator/quota"
)

// The cut is longer than a session: the other regions get what the region held.
func TestRegionCutOff(t *testing.T) {
	for _, c := range []struct {
		policy      string
		least, most float64 // what the region admits while it is cut off, of 100/s offered
	}{
		{"standing", 0.9 * share, 1.1 * share},
		{"hold", 28, 36},
		{"deny", 0, 0},
		{"allow", 95, 105},
	} {
		t.Run(c.policy, func(t *testing.T) {
			run(t, document(100, c.policy), func(w *world) {
				w.loads()
				time.Sleep(30 * time.Second)
				from := now()
				w.cut("eu", true)
				lease := w.regions["eu"].redis.lease(key)
				time.Sleep(2 * time.Minute)
				w.admits("cut off", "eu", from+12*quota.Second, now(), c.least, c.most)
				rest := w.rate("ap", from+15*quota.Second, now()) + w.rate("us", from+15*quota.Second, now())
				if rest < 0.9*(100-share) {
					t.Errorf("the other regions admitted %.1f/s, want %.1f", rest, 0.9*(100-share))
				}
				w.cut("eu", false)
				w.within(10*time.Second, "the region is connected again", w.connected)
				healed := now()
				time.Sleep(30 * time.Second)
				w.serves("after the return", healed+5*quota.Second, now(), 0.9)
				w.bound(limit, healed)
				switch c.policy {
				case "hold": // the Worst case: what the region held is spent twice
					if lease.Rate.Per != limit.Rate.Per {
						t.Fatalf("lease %+v", lease)
					}
					worst := limit
					worst.Rate.Tokens += lease.Rate.Tokens
					worst.Burst += lease.Burst
					w.bound(worst, 0)
				case "allow": // the Bound is given up; the other regions do not add to it
					w.forget("eu")
					w.bound(limit, 0)
				default:
					w.bound(limit, 0)
				}
			})
		})
	}
}

// forget leaves a region out of what follows.
func (w *world) forget(name string) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	for i := range w.log.all {
		if a := &w.log.all[i]; a.region == name {
			a.admitted = false
		}
	}
}

func TestShortCutIsNotNoticed(t *testing.T) {
	run(t, document(100, "standing"), func(w *world) {
		w.loads()
		time.Sleep(30 * time.Second)
		from := now()
		for range 5 {
			w.cut("eu", true)
			time.Sleep(3 * time.Second)
			w.cut("eu", false)
			time.Sleep(7 * time.Second)
		}
		w.serves("with five short cuts", from, now(), 0.95)
		w.bound(limit, 0)
	})
}

func TestK68AgentKilledWithoutGoodbye(t *testing.T) {
	timing := quota.DefaultTiming()
	run(t, document(100, "standing"), func(w *world) {
		w.load("eu", 300)
		w.load("us", 300)
		time.Sleep(30 * time.Second)
		w.killAgent(w.regions["eu"].agents[0])
		died := now()
		// Nobody can know that the region does not spend its leases any more.
		took := w.reaches(timing.TTL+timing.Guard+3*time.Second, "us", 85)
		t.Logf("the other region had the quota after %v", took)
		w.admits("while the session lives", "us", died, died+quota.MicrosOf(timing.TTL)/2, 40, 55)
		w.addAgent("eu")
		w.within(20*time.Second, "the region is back", w.connected)
		time.Sleep(5 * time.Second)
		from := now()
		time.Sleep(30 * time.Second)
		w.serves("after the return", from, now(), 0.9)
		w.bound(limit, 0)
	})
}

func TestOneOfTwoAgentsKilled(t *testing.T) {
	run(t, document(100, "standing"), func(w *world) {
		w.addAgent("eu")
		w.within(10*time.Second, "both agents are connected", w.connected)
		w.loads()
		time.Sleep(30 * time.Second)
		from := now()
		w.killAgent(w.regions["eu"].agents[0])
		time.Sleep(30 * time.Second)
		w.serves("with one agent less", from, now(), 0.9)
		w.bound(limit, 0)
	})
}

func TestStoreRestartedEmpty(t *testing.T) {
	for _, c := range []struct {
		name string
		away time.Duration
	}{
		{"at once", 0},
		{"after three seconds", 3 * time.Second},
		{"after a minute", time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, document(100, "standing"), func(w *world) {
				w.loads()
				time.Sleep(30 * time.Second)
				eu := w.regions["eu"].redis
				if c.away > 0 {
					eu.stop()
					time.Sleep(c.away)
				}
				eu.restart()
				back := now()
				took := w.reaches(10*time.Second, "eu", 25)
				t.Logf("the region has its part again after %v", took)
				time.Sleep(30 * time.Second)
				w.serves("after the restart", back+5*quota.Second, now(), 0.9)
				w.bound(limit, 0)
			})
		})
	}
}

// Missing buckets are not full ones: with large standing shares, a store that
// forgets everything every few seconds would soon admit far too much.
func TestStoreEmptiedAgainAndAgain(t *testing.T) {
	doc := strings.Replace(document(100, "standing"), "standing_share: 0.12", "standing_share: 0.9", 1)
	run(t, doc, func(w *world) {
		w.loads()
		time.Sleep(10 * time.Second)
		for range 40 {
			w.regions["eu"].redis.restart()
			time.Sleep(3 * time.Second)
		}
		w.bound(limit, 0)
	})
}

// A region of the first share table whose first agent starts when the others have
// long used its part of the limit.
func TestRegionThatStartsLate(t *testing.T) {
	doc := strings.Replace(document(100, "standing"), "standing_share: 0.12", "standing_share: 0.9", 1)
	runWith(t, doc, coordinator.RaftTimeouts{}, []string{"eu", "us"}, func(w *world) {
		w.load("eu", 300)
		w.load("us", 300)
		time.Sleep(30 * time.Second)
		w.addAgent("ap")
		w.load("ap", 300)
		w.within(20*time.Second, "the late region is connected", w.connected)
		time.Sleep(10 * time.Second)
		from := now()
		time.Sleep(20 * time.Second)
		w.serves("with all regions", from, now(), 0.9)
		w.bound(limit, 0)
	})
}

// A region that reaches followers only is sent to a leader that it cannot reach.
func TestRegionThatReachesOnlyFollowers(t *testing.T) {
	run(t, document(100, "standing"), func(w *world) {
		w.loads()
		time.Sleep(30 * time.Second)
		leader, from := w.leader(), now()
		w.network.set("eu-1", leader.name, true)
		time.Sleep(time.Minute)
		w.admits("cut off from the leader", "eu", from+12*quota.Second, now(), 0.9*share, 1.1*share)
		w.serves("in all regions", from+15*quota.Second, now(), 0.95)
		w.network.heal()
		w.within(10*time.Second, "the region is connected again", w.connected)
		w.bound(limit, 0)
	})
}

// Answers arrive after 2.4 s, which is later than they are believed: the region
// lives as if it were cut off, and the many late ones do no harm.
func TestLateAnswersAreNotBelieved(t *testing.T) {
	run(t, document(100, "standing"), func(w *world) {
		w.loads()
		time.Sleep(30 * time.Second)
		from := now()
		w.network.slow("eu-1", 1200*time.Millisecond)
		time.Sleep(time.Minute)
		w.admits("on a slow line", "eu", from+15*quota.Second, now(), 0.9*share, 1.1*share)
		w.network.slow("eu-1", 400*time.Millisecond)
		w.within(20*time.Second, "the region is connected again", w.connected)
		time.Sleep(5 * time.Second)
		from = now()
		time.Sleep(30 * time.Second)
		w.serves("on a line of 0.4 s", from, now(), 0.9)
		w.bound(limit, 0)
	})
}
