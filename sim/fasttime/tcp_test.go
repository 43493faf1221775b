package fasttime

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/coordinator"
	"github.com/quorate/quorate/coordinator/quota"
)

// The same isolations in real time over real TCP, whose buffers and timing memory
// does not have; hashicorp/raft#695, say, shows over TCP alone. Everything is about
// ten times as fast as in production, so that a few seconds are worth something.
// Nothing is asked of this machine's speed: the Bound, one leader a term and equal
// states at equal indices hold always, and what is healed serves again.
//
// FASTTIME_TCP=2m chooses another length, and FASTTIME_SEED another plan.
func TestRandomLeaderIsolationOverTCP(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	lasts, p := length(t, "FASTTIME_TCP", 5*time.Second), newPlan(t)
	network := newNetwork()
	w := newWorld(t, network, newWires(network))
	w.timing = quota.Timing{
		TTL: 2 * time.Second, Guard: 300 * time.Millisecond, Delta: 50 * time.Millisecond, RhoPPM: 10_000,
		Answer: time.Second, Tick: 200 * time.Millisecond,
	}
	w.timeouts = coordinator.RaftTimeouts{
		Heartbeat: 200 * time.Millisecond, Commit: 10 * time.Millisecond, Apply: time.Second, Transfer: 2 * time.Second,
	}
	defer w.close()
	w.begin(document(100, "standing"), all)
	for _, name := range all {
		w.load(name, 60)
	}
	began, rounds := time.Now(), 0
	for ; time.Since(began) < lasts; rounds++ {
		time.Sleep(p.between(100*time.Millisecond, 700*time.Millisecond))
		how := p.way()
		w.episode(p, how, p.between(200*time.Millisecond, 2*time.Second), 300*time.Millisecond)
		w.within(30*time.Second, fmt.Sprintf("round %d: all agents are connected after %s", rounds, how), w.connected)
	}
	w.within(30*time.Second, "the limit is used again", func() error {
		if have := w.share(limit, now()-2*quota.Second, now()); have < 0.9 {
			return fmt.Errorf("admitted %.3f of the ideal", have)
		}
		return nil
	})
	admitted := w.share(limit, 0, now())
	for _, stop := range w.stops { // what is asked for no more changes no lease
		stop()
	}
	w.agree()
	w.bound(limit, 0)
	if w.witness.terms() == 0 || w.witness.compared == 0 {
		t.Error("too little has happened to show anything")
	}
	t.Logf("seed %d: %d isolations in %v; %d elections won, %d terms served, %d states compared; admitted %.3f of the ideal in all",
		p.seed, rounds, time.Since(began).Round(time.Millisecond), w.witness.elections(), w.witness.terms(), w.witness.compared, admitted)
}
