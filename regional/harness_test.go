package regional

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
	"github.com/quorate/quorate/regional/headers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; they run on real processes.
const patience = 15 * time.Second

// coordinator is a leader that gives every region a session and the rules, and
// grants what a test says.
type coordinator struct {
	quoratev1.UnimplementedLeaseServer
	addr   string
	server *grpc.Server

	mu     sync.Mutex
	config quota.Config
	heard  []quota.SyncRequest
	grant  func(quota.SyncRequest) []quota.Assignment
}

// startCoordinator serves doc to regions eu and us of equal weight.
func startCoordinator(t testing.TB, doc string) *coordinator {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &coordinator{addr: l.Addr().String(), server: grpc.NewServer(), config: config(1, doc)}
	quoratev1.RegisterLeaseServer(c.server, c)
	served := make(chan error, 1)
	go func() { served <- c.server.Serve(l) }()
	t.Cleanup(func() {
		c.server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c
}

func config(version uint64, doc string) quota.Config {
	return quota.Config{
		Version: version, Sources: []quota.Source{{Name: "rules.yaml", Text: doc}},
		Shares: quota.Shares{{Region: "eu", Weight: 1}, {Region: "us", Weight: 1}},
	}
}

func (c *coordinator) Sync(stream grpc.BidiStreamingServer[quoratev1.SyncRequest, quoratev1.SyncResponse]) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		req, err := quoratev1.ToRequest(m)
		if err != nil {
			return err
		}
		if err := stream.Send(quoratev1.FromResponse(c.answer(req))); err != nil {
			return err
		}
	}
}

func (c *coordinator) answer(req quota.SyncRequest) quota.SyncResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, req)
	resp := quota.SyncResponse{Seq: req.Seq, Cluster: "c1", Session: 1, TTL: 10 * time.Second, First: true, Agents: 1}
	if req.Config < c.config.Version {
		cfg := c.config
		resp.Config = &cfg
	}
	if c.grant != nil {
		resp.Assignments = c.grant(req)
	}
	return resp
}

func (c *coordinator) edit(cfg quota.Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config = cfg
}

func (c *coordinator) requests() []quota.SyncRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.heard)
}

// log collects what an agent logs.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// running is an agent in this process.
type running struct {
	*Agent
	log    *log
	rls    rls.RateLimitServiceClient
	http   string
	admin  string
	cancel context.CancelFunc
	done   chan error
	once   sync.Once
	client *http.Client
}

// startAgent runs an agent of region eu. It does not wait for readiness.
func startAgent(t *testing.T, redis string, edit func(*Config), coordinators ...string) *running {
	t.Helper()
	r := &running{log: new(log), done: make(chan error, 1), client: &http.Client{Transport: &http.Transport{}}}
	cfg := Config{
		Region: "eu", Coordinators: coordinators, Redis: redis, GRPCAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0",
		Headers: headers.Full(), Logger: slog.New(slog.NewTextHandler(r.log, nil)), Registerer: prometheus.NewRegistry(), Version: "test",
		RedisTimeout: 500 * time.Millisecond, // of the race detector on a busy machine
	}
	if edit != nil {
		edit(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Agent = a
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.done <- a.Run(ctx) }()
	grpcAddr, httpAddr, adminAddr := a.Addrs()
	r.http, r.admin = "http://"+httpAddr, "http://"+adminAddr
	conn, err := grpc.NewClient(grpcAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	r.rls = rls.NewRateLimitServiceClient(conn)
	t.Cleanup(func() {
		_ = conn.Close()
		r.client.CloseIdleConnections()
		r.stop(t)
		if t.Failed() {
			t.Logf("the agent's log:\n%s", r.log)
		}
	})
	return r
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.once.Do(func() {
		r.cancel()
		if err := <-r.done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// eventually waits until ok says yes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (r *running) ready(t *testing.T) {
	t.Helper()
	eventually(t, "ready", func() bool { return len(r.NotReady()) == 0 })
}

// get returns status, header and body of a GET.
func (r *running) get(t *testing.T, url string) (int, http.Header, string) {
	t.Helper()
	resp, err := r.client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// ask sends one request with descriptors like "user=1,path=/a".
func (r *running) ask(t *testing.T, hits uint32, descriptors ...string) *rls.RateLimitResponse {
	t.Helper()
	m := &rls.RateLimitRequest{Domain: "api", HitsAddend: hits}
	for _, d := range descriptors {
		m.Descriptors = append(m.Descriptors, descriptor(d))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := r.rls.ShouldRateLimit(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func descriptor(text string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for pair := range strings.SplitSeq(text, ",") {
		k, v, _ := strings.Cut(pair, "=")
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: k, Value: v})
	}
	return d
}

func over(resp *rls.RateLimitResponse) bool {
	return resp.OverallCode == rls.RateLimitResponse_OVER_LIMIT
}

// header returns a response header that an Envoy would add.
func header(resp *rls.RateLimitResponse, name string) string {
	for _, h := range resp.ResponseHeadersToAdd {
		if h.Key == name {
			return h.Value
		}
	}
	return ""
}

func descriptors(texts ...string) (out []*common.RateLimitDescriptor) {
	for _, t := range texts {
		out = append(out, descriptor(t))
	}
	return out
}
