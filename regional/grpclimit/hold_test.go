package grpclimit

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/regional/caller"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
)

// stream is the server's side of a call, without a connection.
type stream struct {
	grpc.ServerStream
	ctx    context.Context
	header metadata.MD
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) SetHeader(md metadata.MD) error {
	s.header = metadata.Join(s.header, md)
	return nil
}

// A call that a shaped limit admits is served when its turn has come.
func TestCallsAreHeldBack(t *testing.T) {
	const turn = 3 * time.Second
	delayed := enforce.Decision{Delay: turn, Statuses: []enforce.Status{counted("a", enforce.Status{Delay: turn, Reason: enforce.WithinLease})}}
	late := enforce.Decision{Over: true, Retry: 1500 * time.Millisecond, Statuses: []enforce.Status{
		counted("a", enforce.Status{Over: true, Retry: 1500 * time.Millisecond, Reason: enforce.DelayTooLong}),
	}}
	for why, c := range map[string]struct {
		d    enforce.Decision
		gone time.Duration // 0: never
		took time.Duration
		code codes.Code
	}{
		"its turn":        {delayed, 0, turn, codes.OK},
		"a call given up": {delayed, time.Second, time.Second, codes.Canceled},
		"too long a turn": {late, 0, 0, codes.ResourceExhausted},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked enforce.Request
			limit, err := New(Config{
				Decide: func(_ context.Context, r enforce.Request) (enforce.Decision, error) {
					asked = r
					return c.d, nil
				},
				Domain: "api", Descriptors: [][]Key{{Method("method")}}, OnFailure: caller.Deny, MaxDelay: 5 * time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.gone > 0 {
				defer time.AfterFunc(c.gone, cancel).Stop()
			}
			s, served, began := &stream{ctx: ctx}, false, time.Now()
			err = limit.Stream(nil, s, &grpc.StreamServerInfo{FullMethod: "/a.B/C"}, func(any, grpc.ServerStream) error {
				served = true
				return nil
			})
			if took := time.Since(began); took != c.took || status.Code(err) != c.code || served != (c.code == codes.OK) {
				t.Errorf("%s: have %v after %v, served %v", why, err, took, served)
			}
			if len(s.header.Get(headers.Delay)) > 0 || asked.MaxDelay != 5*time.Second {
				t.Errorf("%s: have %v, asked with %v", why, s.header, asked.MaxDelay)
			}
			if c.code == codes.ResourceExhausted && (len(s.header.Get(headers.RetryAfter)) != 1 || !strings.Contains(err.Error(), "retry after 2 s")) {
				t.Errorf("%s: have %v, %v", why, err, s.header)
			}
		})
	}
}
