package fasttime

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator"
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
// see its session expire: silent time counts across terms. It counts while
// somebody leads, so the time it takes depends on how long elections are.
func TestK70RepeatedElectionsDoNotKeepADeadRegionsQuota(t *testing.T) {
	timing := quota.DefaultTiming()
	for _, c := range []struct {
		name     string
		timeouts coordinator.RaftTimeouts
		within   time.Duration
	}{
		{"short elections", coordinator.RaftTimeouts{Heartbeat: 400 * time.Millisecond}, 2 * (timing.TTL + timing.Guard)},
		{"elections of half the time", coordinator.RaftTimeouts{}, 3 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			runWith(t, document(100, "standing"), c.timeouts, all, func(w *world) {
				w.load("eu", 300)
				time.Sleep(30 * time.Second)
				w.killAgent(w.regions["eu"].agents[0])
				died := time.Now()
				stop := w.elect(6 * time.Second)
				w.load("us", 300)
				w.within(c.within, "the dead region holds nothing", func() error {
					if c := w.held("eu"); c != (quota.Capacity{}) {
						return fmt.Errorf("it holds %v", c)
					}
					return nil
				})
				took := time.Since(died)
				t.Logf("reclaimed after %v and %d leader changes", took, stop())
				t.Logf("the other region had it %v after the last one", w.reaches(15*time.Second, "us", 85))
				w.bound(limit, 0)
			})
		})
	}
}

// elect isolates whoever leads every so often, until stop, which returns how
// often that was.
func (w *world) elect(every time.Duration) (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() {
		changes := 0
		for ctx.Err() == nil {
			next := time.Now().Add(every)
			leader := w.serving()
			if leader == nil {
				_ = sleep(ctx, 50*time.Millisecond)
				continue
			}
			w.isolate(leader, true)
			changes++
			_ = sleep(ctx, time.Until(next))
			w.isolate(leader, false)
		}
		done <- changes
	}()
	stop = sync.OnceValue(func() int { cancel(); return <-done })
	w.stops = append(w.stops, func() { stop() })
	return stop
}
