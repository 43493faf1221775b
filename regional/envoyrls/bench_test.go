package envoyrls

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
)

// BenchmarkShouldRateLimit is a request of one descriptor over the loopback, by 50
// callers on one connection: what gRPC costs by itself, with a handler that decides
// nothing, and the front end with a decision that costs nothing. CPU time is of the
// whole process, client and server.
func BenchmarkShouldRateLimit(b *testing.B) {
	status := enforce.Status{
		Rule: &rules.Rule{ID: "api/user", Name: "per-user"}, Limit: limit(100, time.Minute),
		Remaining: 7, Reset: 1500 * time.Millisecond, Reason: enforce.WithinLease,
	}
	b.Run("empty", func(b *testing.B) {
		s := grpc.NewServer()
		rls.RegisterRateLimitServiceServer(s, empty{})
		benchmark(b, s.Serve, s.Stop)
	})
	b.Run("quorate", func(b *testing.B) {
		s := New(Config{Decide: func(_ context.Context, _ enforce.Request, d *enforce.Decision) error {
			*d = enforce.Decision{Statuses: append(d.Statuses[:0], status)}
			return nil
		}})
		benchmark(b, s.Serve, func() { s.Stop(context.Background()) })
	})
}

type empty struct {
	rls.UnimplementedRateLimitServiceServer
}

func (empty) ShouldRateLimit(context.Context, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	return &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}, nil
}

func benchmark(b *testing.B, serve func(net.Listener) error, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Close()
		stop()
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	client := rls.NewRateLimitServiceClient(conn)
	m := &rls.RateLimitRequest{Domain: "api", Descriptors: []*common.RateLimitDescriptor{descriptor("user", "4711", "path", "/v1/things")}}
	b.ReportAllocs()
	b.SetParallelism(25)
	b.ResetTimer()
	began := cpuTime(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := client.ShouldRateLimit(b.Context(), m); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N), "cpu-ns/op")
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
