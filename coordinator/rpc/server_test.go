package rpc

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/planner"
	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is all ports of a Server, with answers set by the test.
type node struct {
	mu     sync.Mutex
	sync   func(context.Context, quota.SyncRequest, bool) (quota.SyncResponse, error)
	gone   []string
	told   []quota.SyncRequest // reports
	err    error               // of Read and Edit
	ledger *ledger.Ledger
	hint   Hint
	// before and after are what happens just before and after an edit is applied.
	before, after func()
}

func (n *node) Sync(ctx context.Context, req quota.SyncRequest, fresh bool) (quota.SyncResponse, error) {
	n.mu.Lock()
	f := n.sync
	n.mu.Unlock()
	return f(ctx, req, fresh)
}

func (n *node) Report(req quota.SyncRequest) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, req)
	return nil
}

func (n *node) Gone(region, agent string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = append(n.gone, region+"/"+agent)
}

func (n *node) Read(_ context.Context, read func(View)) error {
	if n.err != nil {
		return n.err
	}
	read(n.view())
	return nil
}

func (n *node) Edit(_ context.Context, op ledger.Op, read func(View, ledger.Result)) error {
	if n.err != nil {
		return n.err
	}
	n.before()
	res := n.apply(op)
	n.after()
	if err := res.Err(0); err != nil {
		return err
	}
	read(n.view(), res)
	return nil
}

func (n *node) apply(op ledger.Op) ledger.Result {
	return n.ledger.Apply(n.ledger.Index()+1, ledger.Batch{Term: 1, Ops: []ledger.Op{op}})
}

func (n *node) view() View {
	return View{Ledger: n.ledger, Term: planner.NewTerm(0, n.ledger.Term(), n.ledger, planner.Config{}), Timing: quota.DefaultTiming()}
}

func (n *node) Status() Status { return Status{Node: "n1", Role: "follower"} }
func (n *node) Hint() Hint     { return n.hint }

func (n *node) answer(f func(context.Context, quota.SyncRequest, bool) (quota.SyncResponse, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sync = f
}

func echo(_ context.Context, req quota.SyncRequest, _ bool) (quota.SyncResponse, error) {
	return quota.SyncResponse{Seq: req.Seq, Session: 1, TTL: time.Second, Agents: 1}, nil
}

func serve(t *testing.T, change ...func(*Config)) (*node, *Server, *grpc.ClientConn) {
	t.Helper()
	n := &node{ledger: ledger.New(), sync: echo, hint: Hint{"n2", "n2:7600"}, before: func() {}, after: func() {}}
	cfg := Config{AnswerTimeout: 200 * time.Millisecond, SendTimeout: 200 * time.Millisecond}
	for _, f := range change {
		f(&cfg)
	}
	s := New(cfg, Ports{n, n, n})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Stop(time.Second)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return n, s, conn
}

type client = grpc.BidiStreamingClient[quoratev1.SyncRequest, quoratev1.SyncResponse]

func open(t *testing.T, conn *grpc.ClientConn) client {
	t.Helper()
	stream, err := quoratev1.NewLeaseClient(conn).Sync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func request(seq uint64, agent string) *quoratev1.SyncRequest {
	return quoratev1.FromRequest(quota.SyncRequest{Seq: seq, Region: "eu", Agent: agent, Incarnation: quota.Incarnation{ID: "i"}})
}

func leaving(m *quoratev1.SyncRequest) *quoratev1.SyncRequest {
	m.Leaving = true
	return m
}

// A report is taken, in its order, and not answered.
func TestReportsWantNoAnswer(t *testing.T) {
	n, _, conn := serve(t)
	stream := open(t, conn)
	exchange(t, stream, request(1, "a1"))
	report := quota.SyncRequest{Region: "eu", Agent: "a1", Incarnation: quota.Incarnation{ID: "i"}, Usage: []quota.Usage{{Key: "k", Denied: 7}}}
	if err := stream.Send(quoratev1.FromRequest(report)); err != nil {
		t.Fatal(err)
	}
	if have := exchange(t, stream, request(2, "a1")); have.GetSeq() != 2 {
		t.Errorf("have an answer to %d, want to 2", have.GetSeq())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.told) != 1 || len(n.told[0].Usage) != 1 || n.told[0].Usage[0].Denied != 7 {
		t.Errorf("the leader was told %+v", n.told)
	}
}

func exchange(t *testing.T, stream client, m *quoratev1.SyncRequest) *quoratev1.SyncResponse {
	t.Helper()
	if err := stream.Send(m); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestSyncsAreAnsweredAndPushesComeBetween(t *testing.T) {
	n, s, conn := serve(t)
	var fresh []bool
	n.answer(func(ctx context.Context, req quota.SyncRequest, f bool) (quota.SyncResponse, error) {
		fresh = append(fresh, f)
		return echo(ctx, req, f)
	})
	stream := open(t, conn)
	for seq := uint64(1); seq <= 3; seq++ {
		if resp := exchange(t, stream, request(seq, "a")); resp.GetSeq() != seq || resp.GetSession() != 1 {
			t.Errorf("have %v", resp)
		}
	}
	if fmt.Sprint(fresh) != "[true false false]" {
		t.Errorf("have fresh %v", fresh)
	}
	s.Push("eu", "b", quota.SyncResponse{Cluster: "c1", Assignments: []quota.Assignment{{Key: "k", Session: 1, Epoch: 1}}}) // nobody
	s.Push("eu", "a", quota.SyncResponse{Cluster: "c1", Assignments: []quota.Assignment{{Key: "k", Session: 1, Epoch: 2}, {Key: "j", Session: 1, Epoch: 1}}})
	push, err := stream.Recv()
	if err != nil || push.GetSeq() != 0 || push.GetCluster() != "c1" || len(push.GetAssignments()) != 2 || push.GetAssignments()[0].GetEpoch() != 1 {
		t.Errorf("have %v, %v", push, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil || status.Code(err) != codes.Unknown && err.Error() != "EOF" {
		t.Errorf("after closing: have %v, want the end", err)
	}
	wait(t, "the agent is gone", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return fmt.Sprint(n.gone) == "[eu/a]"
	})
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// An agent that comes back on a new stream is not gone when its old one ends,
// and pushes go to the new one.
func TestNewerStreamOfAnAgentCounts(t *testing.T) {
	n, s, conn := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	old, err := quoratev1.NewLeaseClient(conn).Sync(ctx)
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, old, request(1, "a"))
	fresh := open(t, conn)
	exchange(t, fresh, request(2, "a"))
	cancel()
	wait(t, "the old stream ends", func() bool { return s.streams.count() == 1 })
	s.Push("eu", "a", quota.SyncResponse{Cluster: "c1", Assignments: []quota.Assignment{{Key: "k", Session: 1, Epoch: 1}}})
	if push, err := fresh.Recv(); err != nil || len(push.GetAssignments()) != 1 {
		t.Errorf("have %v, %v", push, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.gone) != 0 {
		t.Errorf("have %v gone, want nobody", n.gone)
	}
}

func TestErrorsEndTheStreamWithTheirCode(t *testing.T) {
	n, _, conn := serve(t)
	for _, tt := range []struct {
		reason string
		err    error
		send   []*quoratev1.SyncRequest
		code   codes.Code
		text   string
	}{
		{"a follower", ErrNotLeader, []*quoratev1.SyncRequest{request(1, "a")}, codes.FailedPrecondition, "does not lead"},
		{"a leader that is not ready", ErrNotReady, []*quoratev1.SyncRequest{request(1, "a")}, codes.Unavailable, "catching up"},
		{"a report that wants an answer", nil, []*quoratev1.SyncRequest{leaving(request(0, "a"))}, codes.InvalidArgument, "wants an answer"},
		{"an amount out of range", nil, []*quoratev1.SyncRequest{{Seq: 1, Region: "eu", Agent: "a", Usage: []*quoratev1.Usage{{Key: []byte("k"), AdmittedMicrotokens: -1}}}}, codes.InvalidArgument, "admitted_microtokens"},
		{"another agent on the same stream", nil, []*quoratev1.SyncRequest{request(1, "a"), request(2, "b")}, codes.InvalidArgument, "carries a request of agent b"},
	} {
		n.answer(func(ctx context.Context, req quota.SyncRequest, f bool) (quota.SyncResponse, error) {
			if tt.err != nil {
				return quota.SyncResponse{}, fmt.Errorf("sync: %w", tt.err)
			}
			return echo(ctx, req, f)
		})
		stream := open(t, conn)
		var err error
		for _, m := range tt.send {
			if err = stream.Send(m); err != nil {
				break
			}
			if _, err = stream.Recv(); err != nil {
				break
			}
		}
		if status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: have %v, want %v with %q", tt.reason, err, tt.code, tt.text)
		}
		if tt.code == codes.FailedPrecondition {
			if h := hintOf(err); h.GetNode() != "n2" || h.GetAddress() != "n2:7600" {
				t.Errorf("%s: have hint %v", tt.reason, h)
			}
		}
	}
}

func hintOf(err error) *quoratev1.LeaderHint {
	for _, d := range status.Convert(err).Details() {
		if h, ok := d.(*quoratev1.LeaderHint); ok {
			return h
		}
	}
	return nil
}

func TestLateAnswersBecomeRefusals(t *testing.T) {
	n, _, conn := serve(t)
	n.answer(func(ctx context.Context, _ quota.SyncRequest, _ bool) (quota.SyncResponse, error) {
		<-ctx.Done()
		return quota.SyncResponse{}, fmt.Errorf("verify: %w: %w", ErrNotLeader, ctx.Err())
	})
	resp := exchange(t, open(t, conn), request(7, "a"))
	if resp.GetSeq() != 7 || resp.GetRefusal().GetCode() != quoratev1.RefusalCode_REFUSAL_CODE_BUSY || resp.GetSession() != 0 {
		t.Errorf("have %v, want busy", resp)
	}
}

func TestLostLeadershipEndsAllStreams(t *testing.T) {
	_, s, conn := serve(t)
	stream := open(t, conn)
	exchange(t, stream, request(1, "a"))
	s.EndStreams(ErrNotLeader)
	if _, err := stream.Recv(); status.Code(err) != codes.FailedPrecondition || hintOf(err).GetAddress() != "n2:7600" {
		t.Errorf("have %v, want FAILED_PRECONDITION with a hint", err)
	}
	wait(t, "no stream is open", func() bool { return s.streams.count() == 0 })
}

// An agent that does not read loses its stream; nothing waits for it for ever.
func TestAgentThatDoesNotReadLosesItsStream(t *testing.T) {
	_, s, conn := serve(t)
	stream := open(t, conn)
	exchange(t, stream, request(1, "a"))
	long := strings.Repeat("k", 4096)
	wait(t, "the stream is given up", func() bool {
		var all []quota.Assignment
		for i := range 100 {
			all = append(all, quota.Assignment{Key: quota.Key(fmt.Sprint(long, i)), Session: 1, Epoch: 1})
		}
		s.Push("eu", "a", quota.SyncResponse{Cluster: "c1", Assignments: all})
		return s.streams.count() == 0
	})
}

func TestOutboxKeepsTheNewestAndIsBounded(t *testing.T) {
	o := newOutbox()
	at := func(k quota.Key, session quota.SessionID, epoch quota.Epoch) quota.Assignment {
		return quota.Assignment{Key: k, Session: session, Epoch: epoch}
	}
	o.add(quota.SyncResponse{Assignments: []quota.Assignment{at("a", 1, 5), at("b", 1, 2), at("a", 1, 4), at("a", 2, 1)}})
	o.add(quota.SyncResponse{Cluster: "c1", Config: &quota.Config{Version: 2}})
	o.add(quota.SyncResponse{Cluster: "c1", Config: &quota.Config{Version: 1}})
	m, _ := o.take()
	if have := m.Assignments; len(have) != 2 || have[0] != at("b", 1, 2) || have[1] != at("a", 2, 1) {
		t.Errorf("have %v", have)
	}
	if m.Cluster != "c1" || m.Config == nil || m.Config.Version != 2 {
		t.Errorf("have cluster %q and configuration %v, want c1 and version 2", m.Cluster, m.Config)
	}
	if again, ok := o.take(); ok {
		t.Errorf("taken twice: %v", again)
	}
	dropped := 0
	for i := range maxQueued + 10 {
		dropped += o.add(quota.SyncResponse{Assignments: []quota.Assignment{at(quota.Key(fmt.Sprint(i)), 1, 1)}})
	}
	m, _ = o.take()
	if left := len(m.Assignments); dropped != maxQueued || left != 10 {
		t.Errorf("have %d dropped and %d left, want %d and 10", dropped, left, maxQueued)
	}
}

func TestHealthAndReflection(t *testing.T) {
	_, s, conn := serve(t, func(c *Config) { c.Reflection = true })
	health := healthv1.NewHealthClient(conn)
	for _, tt := range []struct {
		ready, leading bool
		node, lease    healthv1.HealthCheckResponse_ServingStatus
	}{
		{false, false, healthv1.HealthCheckResponse_NOT_SERVING, healthv1.HealthCheckResponse_NOT_SERVING},
		{true, false, healthv1.HealthCheckResponse_SERVING, healthv1.HealthCheckResponse_NOT_SERVING},
		{true, true, healthv1.HealthCheckResponse_SERVING, healthv1.HealthCheckResponse_SERVING},
	} {
		s.Serving(tt.ready, tt.leading)
		for service, want := range map[string]healthv1.HealthCheckResponse_ServingStatus{"": tt.node, "quorate.v1.Lease": tt.lease} {
			resp, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
			if err != nil || resp.GetStatus() != want {
				t.Errorf("ready %v leading %v service %q: have %v, %v, want %v", tt.ready, tt.leading, service, resp, err, want)
			}
		}
	}
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil || len(resp.GetListServicesResponse().GetService()) < 3 {
		t.Errorf("have %v, %v", resp, err)
	}
}
