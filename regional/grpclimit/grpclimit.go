// Package grpclimit limits the calls of a gRPC server in its own process.
//
//	limit, err := grpclimit.New(grpclimit.Config{
//		Decide: agent.Decide, Domain: "api", OnFailure: caller.Deny,
//		Descriptors: [][]grpclimit.Key{{grpclimit.Bearer("token", caller.Refuse), grpclimit.Method("method")}},
//	})
//	…
//	grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
//
// It answers as an agent's /v1/check does, in the words of gRPC: the X-RateLimit fields
// and the IETF pair are header metadata of every reply, and a call that is denied ends
// with RESOURCE_EXHAUSTED and Retry-After beside them. Beyond that it answers
// INVALID_ARGUMENT when a call lacks what it is counted by (see caller.Missing) and
// UNAVAILABLE when nothing was decided (see caller.OnFailure). In this package errors
// become status codes for applications.
//
// A call that a shaped limit admits is held back until its turn has come, and then handed
// on. One that is cancelled meanwhile is not served, and has paid.
package grpclimit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/regional/caller"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/problem"
)

// Config says what calls count for.
type Config struct {
	// Decide makes the decisions: Agent.Decide.
	Decide func(ctx context.Context, r enforce.Request) (enforce.Decision, error)
	// Domain is that of the rules.
	Domain string
	// Descriptors is what a call counts for: all of them are charged, or none. Each is
	// a list of keys in the order of the rules.
	Descriptors [][]Key
	// Cost returns what a call costs; 0 only looks. Nil means 1.
	Cost func(c Call) uint64
	// OnFailure is for calls about which nothing was decided. There is no default.
	OnFailure caller.OnFailure
	// MaxDelay is how long a call may be held back for shaped limits, and at most until
	// the deadline of its context. One whose turn would come later is answered RESOURCE_EXHAUSTED with Retry-After
	// instead, and charged nothing. Where burst/rate of a limit is longer than that, each
	// decision asks the region's store twice. Default caller.DefaultMaxDelay, 10 s.
	MaxDelay time.Duration
	// Headers of replies. The zero value means headers.Full().
	Headers headers.Style
	// Explain lets clients ask with the metadata x-ratelimit-explain why they were
	// answered as they were, which tells them the rules.
	Explain bool
	// Logger is told when calls begin to be answered without a decision, and why, and
	// when that ends. Nil: nobody hears it.
	Logger *slog.Logger
}

// Interceptor limits the calls of a server. It is safe for concurrent use.
type Interceptor struct {
	gate    *caller.Gate[Call]
	style   headers.Style
	explain bool
}

// New returns the interceptor. The error is caller.ErrConfig and has all problems.
func New(cfg Config) (*Interceptor, error) {
	gate, err := caller.New(caller.Config[Call]{
		Decide: cfg.Decide, Domain: cfg.Domain, Descriptors: cfg.Descriptors, Cost: cfg.Cost,
		OnFailure: cfg.OnFailure, MaxDelay: cfg.MaxDelay, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	if cfg.Headers == (headers.Style{}) {
		cfg.Headers = headers.Full()
	}
	return &Interceptor{gate: gate, style: cfg.Headers, explain: cfg.Explain}, nil
}

// Unary is a grpc.UnaryServerInterceptor.
func (i *Interceptor) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	err := i.admit(ctx, info.FullMethod, func(md metadata.MD) error { return grpc.SetHeader(ctx, md) })
	if err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// Stream is a grpc.StreamServerInterceptor. A stream counts once, when it begins,
// whatever it carries.
func (i *Interceptor) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := i.admit(stream.Context(), info.FullMethod, stream.SetHeader); err != nil {
		return err
	}
	return handler(srv, stream)
}

// admit returns why a call is not served, as a status.
func (i *Interceptor) admit(ctx context.Context, method string, set func(metadata.MD) error) error {
	call := Call{Context: ctx, Method: method}
	d, err := i.gate.Ask(ctx, call)
	if err != nil {
		return fail(err)
	}
	style := i.style
	if asked := metadata.ValueFromIncomingContext(ctx, headers.Explain); i.explain && len(asked) > 0 {
		style.Explain = style.Explain || headers.Asked(asked[0])
	}
	if hs := headers.Render(d, style, time.Now()); len(hs) > 0 {
		md := make(metadata.MD, len(hs))
		for _, h := range hs {
			md.Set(h.Name, h.Value)
		}
		if err := set(md); err != nil {
			return status.Errorf(codes.Internal, "set rate limit headers: %v", err)
		}
	}
	if d.Over {
		return status.Error(codes.ResourceExhausted, "rate limit: "+problem.Denied(d).Detail)
	}
	return nil
}

// fail is the status of a call about which nothing was decided.
func fail(err error) error {
	var refused *caller.RefusedError
	switch {
	case errors.As(err, &refused):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unavailable, "the rate limit cannot be asked now")
}
