package envoyrls

import (
	"bytes"
	"context"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
)

// call is one request and the decision on it. Its memory is used again for another one.
type call struct {
	request  enforce.Request
	entries  []rules.Entry // of all descriptors
	bad      error         // the request's limits cannot be counted: rules.ErrOverride
	decision enforce.Decision
	reply    []byte
	size     int // of the request in bytes
}

// String keeps traces of gRPC from reading memory that is somebody else's by then.
func (c *call) String() string { return "RateLimitRequest" }

// maxKept is up to which size of a request its memory is used again.
const maxKept = 4 << 10

func (s *Server) call() *call { return s.calls.Get().(*call) }

// done ends a call.
func (s *Server) done(c *call) {
	if c.size <= maxKept {
		s.calls.Put(c)
	}
}

// answer decides on what c has read, and returns the reply, which is nobody else's.
func (s *Server) answer(ctx context.Context, c *call) (reply, error) {
	if c.bad != nil {
		return nil, c.bad
	}
	err := s.cfg.Decide(ctx, c.request, &c.decision)
	if err != nil {
		return nil, err
	}
	c.reply, err = write(c.reply[:0], &c.decision, s.cfg.Headers, s.cfg.Metadata)
	return bytes.Clone(c.reply), err
}

// reply is a RateLimitResponse as it is sent.
type reply []byte

// service is Envoy's, with messages in the memory of calls instead of generated ones.
func service() *grpc.ServiceDesc {
	desc := rls.RateLimitService_ServiceDesc
	desc.HandlerType = (*any)(nil)
	desc.Methods = []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: handle}}
	return &desc
}

// handle answers one request of an Envoy.
func handle(srv any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	s := srv.(*Server)
	c := s.call()
	defer s.done(c)
	if err := read(c); err != nil {
		return nil, err
	}
	r, err := s.answer(ctx, c)
	if err != nil {
		return nil, toStatus(ctx, err)
	}
	return r, nil
}

// codec is gRPC's for all messages but those of the service.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Unmarshal(data mem.BufferSlice, to any) error {
	call, ok := to.(*call)
	if !ok {
		return c.CodecV2.Unmarshal(data, to)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return call.read(buf.ReadOnlyData())
}

func (c codec) Marshal(m any) (mem.BufferSlice, error) {
	if r, ok := m.(reply); ok {
		return mem.BufferSlice{mem.SliceBuffer(r)}, nil
	}
	return c.CodecV2.Marshal(m)
}
