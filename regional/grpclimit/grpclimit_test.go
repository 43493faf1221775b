package grpclimit

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/caller"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// decider makes the same decision for all.
type decider struct {
	answer enforce.Decision
	err    error
}

func (d *decider) decide(context.Context, enforce.Request) (enforce.Decision, error) {
	return d.answer, d.err
}

// serve starts a health service behind the interceptor and returns a client of it.
func serve(t *testing.T, cfg Config) healthpb.HealthClient {
	t.Helper()
	limit, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return healthpb.NewHealthClient(conn)
}

// calls makes a unary call and a stream, and returns the status and header metadata of each.
func calls(ctx context.Context, c healthpb.HealthClient) map[string]struct {
	err    error
	header metadata.MD
} {
	type result = struct {
		err    error
		header metadata.MD
	}
	var unary, stream result
	_, unary.err = c.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Header(&unary.header))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err == nil {
		if _, err = s.Recv(); err == nil {
			stream.header, err = s.Header()
		} else {
			stream.header, _ = s.Header()
		}
	}
	stream.err = err
	return map[string]result{"unary": unary, "stream": stream}
}

func counted(name string, s enforce.Status) enforce.Status {
	s.Rule = &rules.Rule{ID: "api/" + name}
	s.Limit = &rules.Limit{
		Limit: quota.Limit{Capacity: quota.Capacity{
			Rate: quota.Rate{Tokens: quota.Whole(10), Per: 60 * quota.Second}, Burst: quota.Whole(10),
		}},
		RequestsPerUnit: 10,
	}
	return s
}

// What an agent's /v1/check says in header fields, a gRPC client reads in metadata;
// K85: a denial by two rules has one Retry-After, the longer.
func TestK85AnswersOverGRPC(t *testing.T) {
	by := new(decider)
	client := serve(t, Config{
		Decide: by.decide, Domain: "api", Descriptors: [][]Key{{Method("method")}}, OnFailure: caller.Deny, Explain: true,
	})
	over := func(name string, retry time.Duration) enforce.Status {
		return counted(name, enforce.Status{Over: true, Retry: retry, Reset: time.Minute, Reason: enforce.LeaseEmpty})
	}
	for why, c := range map[string]struct {
		d    enforce.Decision
		code codes.Code
	}{
		"admitted": {enforce.Decision{Statuses: []enforce.Status{counted("a", enforce.Status{Remaining: 3, Reset: time.Second, Reason: enforce.WithinLease})}}, codes.OK},
		"denied": {enforce.Decision{Over: true, Retry: 50 * time.Second, Statuses: []enforce.Status{over("a", 10*time.Second), over("b", 50*time.Second)}},
			codes.ResourceExhausted},
		"no rule": {enforce.Decision{Statuses: []enforce.Status{{Reason: enforce.NoRule}}}, codes.OK},
	} {
		by.answer = c.d
		for kind, r := range calls(metadata.AppendToOutgoingContext(t.Context(), headers.Explain, "1"), client) {
			if status.Code(r.err) != c.code {
				t.Errorf("%s, %s: want %v, have %v", why, kind, c.code, r.err)
			}
			style := headers.Full()
			style.Explain = true
			rendered := headers.Render(c.d, style, time.Time{})
			for _, h := range rendered {
				if have := r.header.Get(h.Name); len(have) != 1 || have[0] != h.Value {
					t.Errorf("%s, %s: %s: want %q, have %q", why, kind, h.Name, h.Value, have)
				}
			}
			retry := r.header.Get(headers.RetryAfter)
			if c.d.Over != (len(retry) == 1 && retry[0] == "50") || !c.d.Over && len(retry) > 0 {
				t.Errorf("%s, %s: have Retry-After %q", why, kind, retry)
			}
			if c.d.Over && !strings.Contains(status.Convert(r.err).Message(), "retry after 50 s") {
				t.Errorf("%s, %s: have %v", why, kind, r.err)
			}
		}
	}
}

// K57, K90: what happens when nothing was decided, or a call has no value, is what the
// application has chosen.
func TestK57K90WithoutADecision(t *testing.T) {
	keys := [][]Key{{Metadata("tenant", "x-tenant", caller.Refuse)}}
	for why, c := range map[string]struct {
		policy caller.OnFailure
		tenant []string
		want   codes.Code
	}{
		"deny":        {caller.Deny, []string{"a"}, codes.Unavailable},
		"admit":       {caller.Admit, []string{"a"}, codes.OK},
		"no value":    {caller.Admit, nil, codes.InvalidArgument},
		"two of them": {caller.Admit, []string{"a", "b"}, codes.InvalidArgument},
	} {
		by := &decider{err: enforce.ErrNoConfig}
		client := serve(t, Config{Decide: by.decide, Domain: "api", Descriptors: keys, OnFailure: c.policy})
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{"x-tenant": c.tenant})
		for kind, r := range calls(ctx, client) {
			if status.Code(r.err) != c.want {
				t.Errorf("%s, %s: want %v, have %v", why, kind, c.want, r.err)
			}
		}
	}
	if _, err := New(Config{}); !errors.Is(err, caller.ErrConfig) {
		t.Errorf("have %v", err)
	}
}

func TestCallerThatHasGoneIsNotDecidedAbout(t *testing.T) {
	limit, err := New(Config{
		Decide: (&decider{err: context.Canceled}).decide, Domain: "api", Descriptors: [][]Key{{Method("method")}}, OnFailure: caller.Admit,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = limit.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, func(context.Context, any) (any, error) {
		t.Error("served")
		return nil, nil
	})
	if status.Code(err) != codes.Canceled {
		t.Errorf("have %v", err)
	}
}

func TestKeys(t *testing.T) {
	behind, err := caller.NewAddresses(caller.AddressConfig{Trusted: []string{"10.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	const digest = "2bb80d537b1da3e38bd30361aa855686" // of "secret"
	for why, c := range map[string]struct {
		key  Key
		peer string
		md   metadata.MD
		want string
		err  error
	}{
		"metadata":                   {Metadata("k", "X-Tenant", caller.Skip), "", metadata.Pairs("x-tenant", "acme"), "acme", nil},
		"none":                       {Metadata("k", "X-Tenant", caller.Skip), "", nil, "", nil},
		"twice":                      {Metadata("k", "X-Tenant", caller.Skip), "", metadata.Pairs("x-tenant", "a", "x-tenant", "b"), "", caller.ErrMany},
		"a key":                      {APIKey("k", "x-api-key", caller.Skip), "", metadata.Pairs("x-api-key", "secret"), digest, nil},
		"no key":                     {APIKey("k", "x-api-key", caller.Skip), "", nil, "", nil},
		"a token":                    {Bearer("k", caller.Skip), "", metadata.Pairs("authorization", "bearer secret"), digest, nil},
		"no token":                   {Bearer("k", caller.Skip), "", metadata.Pairs("authorization", "Basic secret"), "", nil},
		"an address":                 {ClientIP("k", behind, caller.Skip), "[2001:db8::7]:1", nil, "2001:db8::/64", nil},
		"K88 of nobody trusted":      {ClientIP("k", behind, caller.Skip), "192.0.2.1:1", metadata.Pairs("x-forwarded-for", "203.0.113.7"), "192.0.2.1", nil},
		"K88 behind a proxy":         {ClientIP("k", behind, caller.Skip), "10.0.0.1:1", metadata.Pairs("x-forwarded-for", "1.1.1.1, 203.0.113.7"), "203.0.113.7", nil},
		"a proxy that says nonsense": {ClientIP("k", behind, caller.Skip), "10.0.0.1:1", metadata.Pairs("x-forwarded-for", "x"), "", caller.ErrForwarded},
		"no peer":                    {ClientIP("k", behind, caller.Skip), "", nil, "", nil},
		"a method":                   {Method("k"), "", nil, "/shop.Cart/Add", nil},
		"a service":                  {Service("k"), "", nil, "shop.Cart", nil},
		"the same for all":           {Value("k", "v"), "", nil, "v", nil},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), c.md)
		if c.peer != "" {
			ctx = peer.NewContext(ctx, &peer.Peer{Addr: addr(c.peer)})
		}
		have, err := c.key.Value(Call{Context: ctx, Method: "/shop.Cart/Add"})
		if have != c.want || !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("%s: want %q, %v, have %q, %v", why, c.want, c.err, have, err)
		}
	}
}

// addr is an address as text.
type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }
