package fasttime

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// isolate cuts a node off from everybody, or joins it again.
func (w *world) isolate(n *node, cut bool) { w.network.set(n.name, "", cut) }

// agree waits until all nodes have applied the same entries, and fails the test
// when that left them in different states.
func (w *world) agree() {
	w.t.Helper()
	w.within(time.Minute, "all nodes agree", func() error {
		var first *quoratev1.NodeStatusResponse
		for _, n := range w.nodes {
			s, err := ask(w, n, func(ctx context.Context, c quoratev1.AdminClient) (*quoratev1.NodeStatusResponse, error) {
				return c.NodeStatus(ctx, &quoratev1.NodeStatusRequest{})
			})
			switch {
			case err != nil:
				return err
			case first == nil:
				first = s
			case s.AppliedIndex != first.AppliedIndex:
				return fmt.Errorf("%s has applied %d, %s %d", first.Node, first.AppliedIndex, s.Node, s.AppliedIndex)
			case s.StateHash != first.StateHash:
				w.t.Fatalf("%s and %s differ at index %d", first.Node, s.Node, s.AppliedIndex)
			}
		}
		return nil
	})
}

func TestK79LeaderIsolationCostsNoLease(t *testing.T) {
	run(t, document(100, "standing"), func(w *world) {
		w.loads()
		time.Sleep(20 * time.Second)
		old := w.leader()
		from := now()
		w.isolate(old, true)
		time.Sleep(30 * time.Second)
		if w.leader() == old {
			t.Fatal("the isolated node still leads")
		}
		w.serves("while the old leader is isolated", from, now(), 0.9)
		from = now()
		w.isolate(old, false)
		time.Sleep(30 * time.Second)
		w.serves("after its return", from, now(), 0.9)
		w.bound(limit, 0)
		w.agree()
	})
}

func TestFollowerKillIsNotNoticed(t *testing.T) {
	run(t, document(100, "standing"), func(w *world) {
		w.loads()
		time.Sleep(20 * time.Second)
		from, leader := now(), w.leader()
		for _, n := range w.nodes {
			if n != leader {
				w.kill(n)
				time.Sleep(20 * time.Second)
				w.start(n)
				break
			}
		}
		time.Sleep(20 * time.Second)
		if w.leader() != leader {
			t.Error("the leader changed")
		}
		w.serves("while a follower is dead, and back", from, now(), 0.95)
		w.bound(limit, 0)
		w.agree()
	})
}

func TestMajorityLossLeavesStandingSharesAndRecovers(t *testing.T) {
	run(t, document(100, "standing"), func(w *world) {
		w.loads()
		time.Sleep(20 * time.Second)
		w.kill(w.nodes[0])
		w.kill(w.nodes[1])
		lost := now()
		time.Sleep(time.Minute)
		for _, name := range all {
			w.admits("without a majority", name, lost+12*quota.Second, now(), 0.9*share, 1.1*share)
		}
		w.start(w.nodes[0])
		w.start(w.nodes[1])
		w.within(30*time.Second, "all agents are connected again", w.connected)
		time.Sleep(5 * time.Second)
		from := now()
		time.Sleep(30 * time.Second)
		w.serves("after the return of the majority", from, now(), 0.9)
		w.bound(limit, 0)
		w.agree()
	})
}

// A dead region's quota must come back although no leader stays long enough to
// see its session expire: silent time counts across terms.
func TestK70RepeatedElectionsDoNotKeepADeadRegionsQuota(t *testing.T) {
	run(t, document(100, "standing"), func(w *world) {
		w.load("eu", 300)
		time.Sleep(30 * time.Second)
		w.killAgent(w.regions["eu"].agents[0])
		died := time.Now()
		stop := make(chan struct{})
		done := make(chan int)
		go func() { // a new leader every 6 s
			changes := 0
			for {
				leader := w.leader()
				w.isolate(leader, true)
				changes++
				for range 6 {
					select {
					case <-stop:
						w.isolate(leader, false)
						done <- changes
						return
					case <-time.After(time.Second):
					}
				}
				w.isolate(leader, false)
			}
		}()
		w.load("us", 300)
		w.reaches(90*time.Second, "us", 85)
		took := time.Since(died)
		close(stop)
		t.Logf("reclaimed after %v and %d leader changes", took, <-done)
		w.bound(limit, 0)
	})
}

func TestOneHourOfRandomLeaderIsolation(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	run(t, document(20, "standing"), func(w *world) {
		for _, name := range all {
			w.load(name, 20)
		}
		random := rand.New(rand.NewPCG(1, 2))
		between := func(least, most time.Duration) time.Duration {
			return least + time.Duration(random.Int64N(int64(most-least)))
		}
		from, changes := time.Now(), 0
		for time.Since(from) < time.Hour {
			time.Sleep(between(time.Second, 40*time.Second))
			n := w.leader()
			if changes%3 == 2 { // sometimes it is not the leader
				n = w.nodes[random.IntN(3)]
			}
			w.isolate(n, true)
			time.Sleep(between(time.Second, 20*time.Second))
			w.isolate(n, false)
			changes++
		}
		w.bound(capacity(20, 20), 0)
		have := w.share(capacity(20, 20), quota.Micros(from.UnixMicro()), now())
		t.Logf("%d isolations: admitted %.3f of the ideal", changes, have)
		if have < 0.9 {
			t.Errorf("admitted %.3f of the ideal, want 0.9", have)
		}
		w.agree()
	})
}
