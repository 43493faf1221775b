package envoyrls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
)

// HealthService is the name under which gRPC health checks know the service,
// beside the empty name.
const HealthService = "ratelimit"

// ErrBadMessage means that the text is no RateLimitRequest.
var ErrBadMessage = errors.New("message is not a JSON RateLimitRequest")

// Decide makes the decision on a request, in the memory of one that is over. It keeps
// nothing of the request when it has returned.
type Decide func(ctx context.Context, r enforce.Request, d *enforce.Decision) error

// Config is what the front end needs. Zero fields take the defaults that they name.
type Config struct {
	Decide Decide
	// Headers are added to replies; the zero style adds none.
	Headers headers.Style
	// Metadata adds the rules that decided, and why, as dynamic metadata.
	Metadata bool
	// Reflection lets tools list the services.
	Reflection bool
	// TLS, when set, is what the listener speaks.
	TLS *tls.Config
	// MaxRecvBytes bounds one request. Default 1 MiB.
	MaxRecvBytes int
	// MaxConcurrentStreams bounds the requests in flight on one connection.
	// Default 1024: an Envoy puts all its requests on a few connections, and
	// some of them may be waiting for the first lease of their key.
	MaxConcurrentStreams uint32
	// MaxConnectionAge makes clients reconnect, so that they spread over new
	// agents; MaxConnectionGrace is what requests in flight get then. Defaults
	// 10 min and 30 s.
	MaxConnectionAge, MaxConnectionGrace time.Duration
}

// workers are the goroutines that requests find ready, with stacks that need not grow
// again. While all of them are busy, a request has one of its own. With 128 and more the
// stacks cost more than they save.
const workers = 32

// Server is the gRPC server of one agent.
type Server struct {
	cfg    Config
	grpc   *grpc.Server
	health *health.Server
	calls  sync.Pool
}

// New returns a server that is not serving yet, and not healthy. It must be stopped.
func New(cfg Config) *Server {
	if cfg.MaxRecvBytes == 0 {
		cfg.MaxRecvBytes = 1 << 20
	}
	if cfg.MaxConcurrentStreams == 0 {
		cfg.MaxConcurrentStreams = 1024
	}
	if cfg.MaxConnectionAge == 0 {
		cfg.MaxConnectionAge = 10 * time.Minute
	}
	if cfg.MaxConnectionGrace == 0 {
		cfg.MaxConnectionGrace = 30 * time.Second
	}
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(cfg.MaxRecvBytes),
		grpc.MaxConcurrentStreams(cfg.MaxConcurrentStreams),
		grpc.MaxHeaderListSize(64 << 10),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.NumStreamWorkers(workers),
		grpc.WaitForHandlers(true), // so that nothing decides after Stop has returned
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: cfg.MaxConnectionAge, MaxConnectionAgeGrace: cfg.MaxConnectionGrace,
			Time: 30 * time.Second, Timeout: 10 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	}
	if cfg.TLS != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(cfg.TLS)))
	}
	s := &Server{cfg: cfg, grpc: grpc.NewServer(opts...), health: health.NewServer()}
	s.calls.New = func() any { return new(call) }
	s.grpc.RegisterService(service(), s)
	healthpb.RegisterHealthServer(s.grpc, s.health)
	if cfg.Reflection {
		reflection.Register(s.grpc)
	}
	s.SetServing(false)
	return s
}

// SetServing switches what health checks hear.
func (s *Server) SetServing(ok bool) {
	st := healthpb.HealthCheckResponse_NOT_SERVING
	if ok {
		st = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", st)
	s.health.SetServingStatus(HealthService, st)
}

// Serve answers on l until Stop; it closes l.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC on %s: %w", l.Addr(), err)
	}
	return nil
}

// Stop answers what is in flight until ctx ends, then cuts what is left.
func (s *Server) Stop(ctx context.Context) {
	s.SetServing(false)
	done := make(chan struct{})
	go func() { // ends when the server has stopped, which Stop forces below
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
	}
}

// JSON answers the same request and reply in protobuf's JSON mapping. The error is
// ErrBadMessage, rules.ErrOverride or one of Decide.
func (s *Server) JSON(ctx context.Context, body []byte) (text []byte, over bool, err error) {
	var m rls.RateLimitRequest
	if err := protojson.Unmarshal(body, &m); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrBadMessage, err)
	}
	c := s.call()
	defer s.done(c)
	wire, err := proto.Marshal(&m)
	if err == nil {
		err = c.read(wire)
	}
	if err != nil {
		return nil, false, fmt.Errorf("read RateLimitRequest: %w", err)
	}
	r, err := s.answer(ctx, c)
	if err != nil {
		return nil, false, err
	}
	var out rls.RateLimitResponse
	err = proto.Unmarshal(r, &out)
	if err == nil {
		text, err = protojson.Marshal(&out)
	}
	if err != nil {
		return nil, false, fmt.Errorf("encode RateLimitResponse: %w", err)
	}
	return text, c.decision.Over, nil
}

// toStatus is the only place where an error becomes a status code: Unknown, as
// clients of envoyproxy/ratelimit expect, unless the caller has gone, or has brought a
// limit that envoyproxy/ratelimit could not count either.
func toStatus(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, rules.ErrOverride):
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Error(codes.Unknown, err.Error())
}
