package uplink

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/demand"
	"github.com/quorate/quorate/regional/enforce"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; they run on real sockets.
const patience = 10 * time.Second

// coordinator is a Lease service that says what a test tells it to.
type coordinator struct {
	quoratev1.UnimplementedLeaseServer
	addr string
	// answer is called for each request; nil says nothing, an error ends the stream.
	answer func(quota.SyncRequest) (*quota.SyncResponse, error)
	heard  chan quota.SyncRequest
	push   chan quota.SyncResponse
}

func startCoordinator(t *testing.T, answer func(quota.SyncRequest) (*quota.SyncResponse, error)) *coordinator {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &coordinator{
		addr: l.Addr().String(), answer: answer,
		heard: make(chan quota.SyncRequest, 1000), push: make(chan quota.SyncResponse),
	}
	s := grpc.NewServer()
	quoratev1.RegisterLeaseServer(s, c)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *coordinator) Sync(stream grpc.BidiStreamingServer[quoratev1.SyncRequest, quoratev1.SyncResponse]) error {
	ended := make(chan struct{})
	defer close(ended)
	var sending sync.Mutex
	send := func(r quota.SyncResponse) error {
		sending.Lock()
		defer sending.Unlock()
		return stream.Send(quoratev1.FromResponse(r))
	}
	go func() { // ends with the stream
		for {
			select {
			case r := <-c.push:
				_ = send(r)
			case <-ended:
				return
			}
		}
	}()
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		req, err := quoratev1.ToRequest(m)
		if err != nil {
			return err
		}
		c.heard <- req
		resp, err := c.answer(req)
		if err != nil {
			return err
		}
		if resp == nil {
			continue
		}
		resp.Seq, resp.Cluster = req.Seq, "c1"
		if err := send(*resp); err != nil {
			return err
		}
	}
}

// next returns the first request that fits, skipping others.
func (c *coordinator) next(t *testing.T, what string, fits func(quota.SyncRequest) bool) quota.SyncRequest {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case r := <-c.heard:
			if fits(r) {
				return r
			}
		case <-deadline:
			t.Fatalf("no %s within %s", what, patience)
		}
	}
}

func any1(quota.SyncRequest) bool { return true }

// session answers everything with one live session.
func session(id quota.SessionID) *quota.SyncResponse {
	return &quota.SyncResponse{Session: id, TTL: 10 * time.Second, Agents: 1}
}

// memory is the reference store behind the port.
type memory struct {
	mu    sync.Mutex
	store *bucket.Store
	start time.Time
	down  bool
}

func newMemory() *memory {
	m := &memory{store: bucket.NewStore(), start: time.Now()}
	m.store.Incarnate(m.now(), "inc-1")
	return m
}

var errDown = errors.New("connection refused")

func (m *memory) now() quota.Micros { return 1_000_000 + quota.MicrosOf(time.Since(m.start)) }

func (m *memory) lock() (unlock func(), err error) {
	m.mu.Lock()
	if m.down {
		m.mu.Unlock()
		return nil, errors.Join(enforce.ErrStoreDown, errDown)
	}
	return m.mu.Unlock, nil
}

func (m *memory) State(context.Context) (bucket.State, error) {
	unlock, err := m.lock()
	if err != nil {
		return bucket.State{}, err
	}
	defer unlock()
	return m.store.State(m.now()), nil
}

func (m *memory) Replaced() string { return "" }

func (m *memory) Renew(_ context.Context, incarnation string, s quota.SessionID, deadline quota.Micros) error {
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return m.store.Renew(m.now(), incarnation, s, deadline)
}

func (m *memory) MarkFirst(_ context.Context, incarnation string) error {
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return m.store.MarkFirst(incarnation)
}

func (m *memory) Drop(_ context.Context, s quota.SessionID) error {
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	m.store.Drop(s)
	return nil
}

func (m *memory) Apply(_ context.Context, incarnation string, asks []bucket.ApplyAsk) ([]quota.Applied, error) {
	unlock, err := m.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var done []quota.Applied
	var problems []error
	for _, a := range asks {
		one, err := m.store.Apply(m.now(), incarnation, a)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		done = append(done, one)
	}
	return done, errors.Join(problems...)
}

func (m *memory) Lend(_ context.Context, incarnation string, lends []bucket.LendAsk, span quota.Micros) error {
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return m.store.Lend(m.now(), incarnation, lends, span)
}

func (m *memory) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

func (m *memory) state() bucket.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.store.State(m.now())
}

// local stands for the wiring.
type local struct {
	store   *memory
	mu      sync.Mutex
	region  bucket.Region
	agents  int
	adopted quota.Config
}

func (l *local) Adopt(_ context.Context, incarnation string, c quota.Config) error {
	unlock, err := l.store.lock()
	if err != nil {
		return err
	}
	defer unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.adopted = c
	return l.store.store.Adopt(l.store.now(), incarnation, c.Version, []byte("blob"))
}

func (l *local) Config() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.adopted.Version
}

func (l *local) Standing(string, quota.Key, quota.Micros) bucket.Standing { return bucket.Standing{} }

func (l *local) Saw(s bucket.State, agents int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.region, l.agents = s.Region, agents
}

// agent is an uplink with its surroundings.
type agent struct {
	*Uplink
	store  *memory
	local  *local
	demand *demand.Tracker
	cancel context.CancelFunc
	done   chan struct{}
}

func startAgent(t *testing.T, timing quota.Timing, coordinators ...string) *agent {
	t.Helper()
	store := newMemory()
	a := &agent{store: store, local: &local{store: store}, demand: demand.New(demand.Config{}), done: make(chan struct{})}
	a.Uplink = New(Config{
		Region: "eu", Agent: "eu-1", Coordinators: coordinators, Timing: timing,
		Store: a.store, Local: a.local, Demand: a.demand, Logger: testLog(t),
	})
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go func() {
		defer close(a.done)
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(a.stop)
	return a
}

// stop ends the agent and waits for it.
func (a *agent) stop() {
	a.cancel()
	<-a.done
}
