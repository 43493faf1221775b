package coordinator

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/quorate/quorate/coordinator/rpc"
)

// shift is how long operators work on one cluster.
const shift = 6 * time.Second

// Whatever operators are told by the Admin service, through whichever node, is
// what one server would have told them that never fails, while leaders are killed,
// cut off from the others (but not from operators) and made to hand over. A call
// whose outcome is unknown may be done at any later time, or never.
//
// LINEARIZABLE_FOR=10m repeats it, with other seeds and new clusters.
func TestAdminServiceIsLinearizable(t *testing.T) {
	length := shift
	if text := os.Getenv("LINEARIZABLE_FOR"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("LINEARIZABLE_FOR: %v", err)
		}
	}
	for seed, began := uint64(1), time.Now(); seed == 1 || time.Since(began) < length; seed++ {
		t.Run("", func(t *testing.T) { linearizable(t, seed) })
	}
}

func linearizable(t *testing.T, seed uint64) {
	c := newCluster(t, 3)
	h := newHistory()
	watcher := h.operator(t, c.endpoints()...)
	first := watcher.look(t)

	ctx, cancel := context.WithTimeout(t.Context(), shift)
	defer cancel()
	var working sync.WaitGroup
	for i := range uint64(6) {
		o := h.operator(t, c.endpoints()...)
		working.Go(func() { o.work(ctx, rand.New(rand.NewPCG(seed, i))) })
	}
	random := rand.New(rand.NewPCG(seed, 99))
	faults := map[string]int{}
	for ctx.Err() == nil {
		pause(ctx, time.Duration(200+random.IntN(500))*time.Millisecond)
		l := c.leader()
		switch random.IntN(3) {
		case 0:
			faults["killed"]++
			c.kill(l)
			pause(ctx, time.Duration(random.IntN(800))*time.Millisecond)
			c.start(l)
		case 1:
			faults["cut off"]++
			c.network.set(l.cfg.RaftAddr, true)
			pause(ctx, time.Duration(random.IntN(1500))*time.Millisecond)
			c.network.set(l.cfg.RaftAddr, false)
		case 2:
			faults["handed over"]++
			if err := c.stop(l); err != nil {
				t.Errorf("stop %s: %v", l.cfg.Node, err)
			}
			c.start(l)
		}
	}
	working.Wait()
	c.leader()
	watcher.look(t)
	c.agree()
	t.Logf("leaders: %v", faults)
	h.check(t, first)
	for _, needed := range []string{"apply OK", "apply Aborted", "get OK", "add OK", "drain OK", "rm OK", "rm FailedPrecondition", "ls OK"} {
		if h.heard[needed] == 0 {
			t.Errorf("no call was answered %q, so the test shows little", needed)
		}
	}
}

// unchecked is a node that answers reads without proving that it leads.
type unchecked struct{ *Node }

func (u unchecked) Read(_ context.Context, read func(rpc.View)) error {
	t := newTerm(u.Node, 0)
	t.remember()
	t.view(read)
	return nil
}

// The test of the test: a leader that is cut off and deposed, and answers reads
// all the same, is found out. The node itself refuses.
func TestReadsOfADeposedLeaderAreFound(t *testing.T) {
	c := newCluster(t, 3)
	h := newHistory()
	o := h.operator(t, c.endpoints()...)
	first := o.look(t)
	old := c.leader()
	server := rpc.New(rpc.Config{}, rpc.Ports{Leader: old.node, State: unchecked{old.node}, Self: old.node})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Stop(time.Second)
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	o.until(t, call{op: applyRules, document: domain("a")})
	c.network.set(old.cfg.RaftAddr, true)
	c.leader(old)
	o.until(t, call{op: applyRules, document: domain("b")})
	for i, m := range c.members {
		if m != old {
			continue
		}
		if a, answered := o.do(t.Context(), i, call{op: getRules}); answered {
			t.Errorf("the deposed leader answers %v", a)
		}
	}
	h.check(t, first)
	h.operator(t, l.Addr().String()).until(t, call{op: getRules})
	if have := porcupine.CheckOperationsTimeout(modelFrom(first), h.list, 0); have != porcupine.Illegal {
		t.Errorf("with a read of the deposed leader the history is %v, want %v", have, porcupine.Illegal)
	}
}
