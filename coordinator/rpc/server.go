package rpc

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

const (
	// maxRecvBytes bounds one request: a rule edit may be as large as a log entry.
	maxRecvBytes = 16 << 20
	// maxHeaderBytes bounds the headers of a request.
	maxHeaderBytes = 16 << 10
)

// Config tunes a Server.
type Config struct {
	// AnswerTimeout bounds the answer to a sync. Default 1.5 s: agents ignore
	// answers older than 2 s.
	AnswerTimeout time.Duration
	// SendTimeout is how long an agent may leave unread what it is sent. Default 5 s.
	SendTimeout time.Duration
	// Reflection lets gRPC tools list the services.
	Reflection bool
	// TLS, when set, is what the server speaks.
	TLS *tls.Config
	// RulesDir is where the rules come from, "" when operators apply them here.
	RulesDir   string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Ports are the sides of the node that the services speak to.
type Ports struct {
	Leader Leader
	State  State
	Self   Self
}

// Server serves the services of one node.
type Server struct {
	cfg     Config
	ports   Ports
	grpc    *grpc.Server
	health  *health.Server
	streams streams
	metrics metrics
}

// New returns a server that does not listen yet.
func New(cfg Config, ports Ports) *Server {
	if cfg.AnswerTimeout == 0 {
		cfg.AnswerTimeout = 1500 * time.Millisecond
	}
	if cfg.SendTimeout == 0 {
		cfg.SendTimeout = 5 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Registerer == nil {
		cfg.Registerer = prometheus.NewRegistry()
	}
	s := &Server{cfg: cfg, ports: ports, health: health.NewServer()}
	s.streams = streams{open: map[*stream]bool{}, by: map[agentID]*stream{}}
	s.metrics = newMetrics(cfg.Registerer, func() float64 { return float64(s.streams.count()) })
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRecvBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(128),
		// Pings more often than this are answered with GOAWAY.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 15 * time.Second, Timeout: 5 * time.Second,
			MaxConnectionAge: 10 * time.Minute, MaxConnectionAgeGrace: 30 * time.Second,
		}),
	}
	if cfg.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(cfg.TLS)))
	}
	s.grpc = grpc.NewServer(options...)
	quoratev1.RegisterLeaseServer(s.grpc, leaseService{Server: s})
	quoratev1.RegisterAdminServer(s.grpc, adminService{Server: s})
	healthv1.RegisterHealthServer(s.grpc, s.health)
	if cfg.Reflection {
		reflection.Register(s.grpc)
	}
	s.Serving(false, false)
	return s
}

// Serve answers until Stop.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC: %w", err)
	}
	return nil
}

// Serving sets what the health service says: of the node (""), whether it is
// ready, and of the Lease service, whether it also leads.
func (s *Server) Serving(ready, leading bool) {
	of := func(ok bool) healthv1.HealthCheckResponse_ServingStatus {
		if ok {
			return healthv1.HealthCheckResponse_SERVING
		}
		return healthv1.HealthCheckResponse_NOT_SERVING
	}
	s.health.SetServingStatus("", of(ready))
	s.health.SetServingStatus(quoratev1.Admin_ServiceDesc.ServiceName, of(ready))
	s.health.SetServingStatus(quoratev1.Lease_ServiceDesc.ServiceName, of(ready && leading))
}

// Push queues m, which answers nothing, for an agent. It never waits; an agent
// that is not connected gets it with the answer to its next sync.
func (s *Server) Push(region, agent string, m quota.SyncResponse) {
	if n := s.streams.push(agentID{region, agent}, m); n > 0 {
		s.metrics.dropped.Add(float64(n))
	}
}

// EndStreams ends all Sync streams, with ErrNotLeader say, so that the agents
// turn to another node at once.
func (s *Server) EndStreams(err error) { s.streams.end(err) }

// Stop ends all streams with ErrNotLeader, answers what is in flight, and
// returns once everything has stopped, at the latest after the deadline.
func (s *Server) Stop(deadline time.Duration) {
	s.health.Shutdown()
	s.EndStreams(ErrNotLeader)
	late := time.AfterFunc(deadline, s.grpc.Stop)
	defer late.Stop()
	s.grpc.GracefulStop()
}
