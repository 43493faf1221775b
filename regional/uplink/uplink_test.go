package uplink

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
	"github.com/quorate/quorate/regional/demand"
)

func testLog(*testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func assignment(key quota.Key, s quota.SessionID, e quota.Epoch) quota.Assignment {
	return quota.Assignment{
		Key: key, Session: s, Epoch: e, Credit: quota.Whole(2),
		Lease: quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(5), Per: quota.Second}, Burst: quota.Whole(5)},
	}
}

func TestAnswerBecomesSessionConfigurationAndLease(t *testing.T) {
	c := startCoordinator(t, func(r quota.SyncRequest) (*quota.SyncResponse, error) {
		resp := session(3)
		resp.First, resp.Agents = true, 2
		if r.Config == 0 {
			resp.Config = &quota.Config{Version: 7}
		}
		if len(r.Applied) == 0 {
			resp.Assignments = []quota.Assignment{assignment("k", 3, 1)}
		}
		return resp, nil
	})
	a := startAgent(t, quota.DefaultTiming(), c.addr)
	first := c.next(t, "first sync", any1)
	if first.Session != 0 || first.Incarnation.ID != "inc-1" || first.Region != "eu" || first.Agent != "eu-1" {
		t.Errorf("first sync: have %+v", first)
	}
	confirmed := c.next(t, "confirmation", func(r quota.SyncRequest) bool { return len(r.Applied) == 1 })
	if want := (quota.Applied{Key: "k", Session: 3, Epoch: 1}); confirmed.Applied[0] != want || confirmed.Session != 3 || confirmed.Config != 7 {
		t.Errorf("confirmation: have %+v", confirmed)
	}
	s := a.store.state()
	if usable := quota.MicrosOf(quota.DefaultTiming().Usable()); s.Session != 3 || !s.First || s.Config != 7 ||
		s.Deadline > s.Now+usable || s.Deadline < s.Now+usable-quota.MicrosOf(patience) {
		t.Errorf("store: have %+v", s)
	}
	a.stop()
	a.local.mu.Lock()
	defer a.local.mu.Unlock()
	if a.local.agents != 2 || a.local.adopted.Version != 7 || a.local.region.Session != 3 {
		t.Errorf("local view: have %d agents, configuration %d, %+v", a.local.agents, a.local.adopted.Version, a.local.region)
	}
}

func TestPushIsAppliedWakesWaitersAndIsConfirmedAtOnce(t *testing.T) {
	c := startCoordinator(t, func(quota.SyncRequest) (*quota.SyncResponse, error) { return session(1), nil })
	a := startAgent(t, quota.DefaultTiming(), c.addr)
	c.next(t, "first sync", any1)
	waited := make(chan error, 1)
	go func() { waited <- a.Await(t.Context(), "k", patience) }()
	for range 3 { // a push that overtakes the waiter or repeats is harmless
		c.push <- quota.SyncResponse{Cluster: "c1", Assignments: []quota.Assignment{assignment("k", 1, 1)}}
		r := c.next(t, "confirmation", func(r quota.SyncRequest) bool { return len(r.Applied) > 0 })
		if r.Applied[0].Epoch != 1 {
			t.Errorf("have %+v", r.Applied)
		}
	}
	if err := <-waited; err != nil {
		t.Errorf("waiter: %v", err)
	}
}

func TestFollowerNamesTheLeader(t *testing.T) {
	leader := startCoordinator(t, func(quota.SyncRequest) (*quota.SyncResponse, error) { return session(1), nil })
	st, err := status.New(codes.FailedPrecondition, "not the leader").WithDetails(&quoratev1.LeaderHint{Node: "n2", Address: leader.addr})
	if err != nil {
		t.Fatal(err)
	}
	follower := startCoordinator(t, func(quota.SyncRequest) (*quota.SyncResponse, error) { return nil, st.Err() })
	startAgent(t, quota.DefaultTiming(), follower.addr) // the leader is not configured
	follower.next(t, "sync at the follower", any1)
	leader.next(t, "sync at the leader", any1)
}

func TestK72RenewalsGoOnThroughAnElection(t *testing.T) {
	var election atomic.Bool
	c := startCoordinator(t, func(quota.SyncRequest) (*quota.SyncResponse, error) {
		if election.Load() {
			return nil, status.Error(codes.FailedPrecondition, "no leader")
		}
		return session(1), nil
	})
	a := startAgent(t, quota.DefaultTiming(), c.addr)
	c.next(t, "renewal", func(r quota.SyncRequest) bool { a.Urgent(); return r.Session == 1 })
	election.Store(true)
	for range 3 {
		a.Urgent()
		c.next(t, "attempt in the election", any1)
	}
	election.Store(false)
	r := c.next(t, "renewal after the election", any1)
	if r.Session != 1 || r.Drop {
		t.Errorf("the session did not survive: have %+v", r)
	}
}

func TestUnansweredSyncIsAbandonedAndItsUsageReportedAgain(t *testing.T) {
	var mute atomic.Bool
	mute.Store(true)
	c := startCoordinator(t, func(quota.SyncRequest) (*quota.SyncResponse, error) {
		if mute.Load() {
			return nil, nil
		}
		return session(1), nil
	})
	timing := quota.DefaultTiming()
	timing.Answer = 50 * time.Millisecond
	a := startAgent(t, timing, c.addr)
	a.demand.Observe(demand.Observation{Key: "k", Cost: quota.Token, Admitted: true})
	c.next(t, "sync with usage", func(r quota.SyncRequest) bool { return len(r.Usage) == 1 })
	again := c.next(t, "usage again", func(r quota.SyncRequest) bool { return len(r.Usage) == 1 })
	if again.Usage[0].Admitted != quota.Token {
		t.Errorf("have %+v", again.Usage)
	}
	if s := a.store.state(); s.Session != 0 {
		t.Errorf("a session without an answer: %+v", s)
	}
	mute.Store(false)
	c.next(t, "renewal", func(r quota.SyncRequest) bool { a.Urgent(); return r.Session == 1 })
}

// While a sync waits for its answer, what is urgent is said beside it. What no
// answer acknowledged is said again, so that nothing that was admitted is lost.
func TestUsageIsReportedBesideASyncThatWaits(t *testing.T) {
	var answering atomic.Bool
	c := startCoordinator(t, func(r quota.SyncRequest) (*quota.SyncResponse, error) {
		if r.Seq == 0 || len(r.Usage) > 0 && !answering.Load() {
			return nil, nil
		}
		return session(1), nil
	})
	a := startAgent(t, quota.DefaultTiming(), c.addr)
	c.next(t, "sync in the session", func(r quota.SyncRequest) bool { a.Urgent(); return r.Session == 1 })
	observe := func(n quota.Tokens) quota.SyncRequest {
		a.demand.Observe(demand.Observation{Key: "k", Cost: n * quota.Token, Admitted: true})
		a.Urgent()
		return c.next(t, "usage", func(r quota.SyncRequest) bool { return len(r.Usage) == 1 })
	}
	waits := observe(1)
	for waits.Seq == 0 { // beside a sync that was open by chance, and is answered
		waits = observe(1)
	}
	if beside := observe(2); beside.Seq != 0 || beside.Usage[0].Admitted != 2*quota.Token || beside.Session != 1 || beside.Incarnation.ID != "inc-1" {
		t.Errorf("report: have %+v", beside)
	}
	c.push <- quota.SyncResponse{Cluster: "c1", Assignments: []quota.Assignment{assignment("k", 1, 1)}}
	if confirmed := c.next(t, "confirmation", func(r quota.SyncRequest) bool { return len(r.Applied) == 1 }); confirmed.Seq != 0 {
		t.Errorf("confirmation: have %+v, want it beside the sync", confirmed)
	}
	answering.Store(true)
	again := c.next(t, "usage again", func(r quota.SyncRequest) bool { return r.Seq > waits.Seq && len(r.Usage) == 1 })
	if want := waits.Usage[0].Admitted + 2*quota.Token; again.Usage[0].Admitted < want || len(again.Applied) != 1 {
		t.Errorf("have %+v, want %v admitted and the confirmation", again, want)
	}
}

func TestUsageIsReportedWithoutWaitingForTheRenewal(t *testing.T) {
	c := startCoordinator(t, func(quota.SyncRequest) (*quota.SyncResponse, error) { return session(1), nil })
	a := startAgent(t, quota.DefaultTiming(), c.addr)
	c.next(t, "first sync", any1)
	began := time.Now()
	a.demand.Observe(demand.Observation{Key: "k", Cost: quota.Token, Admitted: true})
	c.next(t, "report", func(r quota.SyncRequest) bool { return len(r.Usage) == 1 })
	if took := time.Since(began); took > 2*time.Second { // a renewal comes after 4 s at the earliest
		t.Errorf("reported after %s", took)
	}
}

func TestStoreThatIsAwayCostsOnlyTime(t *testing.T) {
	c := startCoordinator(t, func(quota.SyncRequest) (*quota.SyncResponse, error) { return session(1), nil })
	a := startAgent(t, quota.DefaultTiming(), c.addr)
	c.next(t, "first sync", any1)
	a.store.setDown(true)
	a.Urgent()
	deadline := time.Now().Add(patience)
	for a.Status().Problem == "" {
		if time.Now().After(deadline) {
			t.Fatal("the store's failure is not visible")
		}
		a.Urgent()
		time.Sleep(time.Millisecond)
	}
	a.store.setDown(false)
	for len(c.heard) > 0 {
		<-c.heard
	}
	c.next(t, "sync with the store back", any1)
}

func TestK93LastReportSaysLeaving(t *testing.T) {
	c := startCoordinator(t, func(quota.SyncRequest) (*quota.SyncResponse, error) { return session(1), nil })
	a := startAgent(t, quota.DefaultTiming(), c.addr)
	c.next(t, "renewal", func(r quota.SyncRequest) bool { a.Urgent(); return r.Session == 1 })
	a.demand.Observe(demand.Observation{Key: "last", Cost: quota.Token, Admitted: true})
	a.stop()
	r := c.next(t, "last report", func(r quota.SyncRequest) bool { return r.Leaving })
	if len(r.Usage) > 1 {
		t.Errorf("have %+v", r)
	}
}

func TestStopsThoughNobodyAnswers(t *testing.T) {
	timing := quota.DefaultTiming()
	timing.Answer = 50 * time.Millisecond
	c := startCoordinator(t, func(quota.SyncRequest) (*quota.SyncResponse, error) { return nil, nil })
	a := startAgent(t, timing, c.addr, "127.0.0.1:1")
	c.next(t, "first sync", any1)
	began := time.Now()
	a.stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopped after %s", took)
	}
}

func TestRefusalIsToldToPeople(t *testing.T) {
	c := startCoordinator(t, func(quota.SyncRequest) (*quota.SyncResponse, error) {
		return &quota.SyncResponse{Refusal: &quota.Refusal{Code: quota.RefusedUnknownRegion, Message: "no region eu"}}, nil
	})
	a := startAgent(t, quota.DefaultTiming(), c.addr)
	c.next(t, "first sync", any1)
	c.next(t, "another, on a schedule", any1)
	if p := a.Status().Problem; p == "" {
		t.Error("no problem in the status")
	}
}

func TestSlowReaderLosesTheOldestAndAsksAgain(t *testing.T) {
	l := &link{done: make(chan struct{}), wake: make(chan struct{}, 1)}
	for i := range queueLen + 3 {
		l.enqueue(received{resp: quota.SyncResponse{Session: quota.SessionID(i)}}, nil)
	}
	m, lost, err := l.take()
	if err != nil || !lost || m.resp.Session != 3 {
		t.Fatalf("want the fourth answer and a loss, have %+v, %v, %v", m, lost, err)
	}
	count := 1
	for {
		m, lost, _ := l.take()
		if m == nil {
			break
		}
		if lost {
			t.Error("the loss is reported twice")
		}
		count++
	}
	if count != queueLen {
		t.Errorf("want %d answers, have %d", queueLen, count)
	}
}

func TestWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Waiters
		w.Notify("nobody waits")
		results := make(chan error, 3)
		for range 2 {
			go func() { results <- w.Await(t.Context(), "k", time.Minute) }()
		}
		go func() { results <- w.Await(t.Context(), "other", 250*time.Millisecond) }()
		synctest.Wait()
		w.Notify("k")
		for range 2 {
			if err := <-results; err != nil {
				t.Errorf("notified: %v", err)
			}
		}
		if err := <-results; !errors.Is(err, ErrNoLease) {
			t.Errorf("want ErrNoLease, have %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Await(ctx, "k", time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("want Canceled, have %v", err)
		}
		if len(w.byKey) != 0 || w.waiting != 0 {
			t.Errorf("left behind: %v, %d", w.byKey, w.waiting)
		}
		w.waiting = maxWaiting
		if err := w.Await(t.Context(), "k", time.Minute); !errors.Is(err, ErrTooManyWaiting) {
			t.Errorf("want ErrTooManyWaiting, have %v", err)
		}
	})
}

func TestClocksAdvance(t *testing.T) {
	u := &Uplink{cfg: Config{Clocks: ReadClocks}}
	a, b := u.readNow().clock, u.readNow().clock
	if b.Mono < a.Mono || b.Boot < a.Boot || a.Real < 1_600_000_000_000_000 {
		t.Errorf("have %+v then %+v", a, b)
	}
}
