package uplink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

const (
	// queueLen bounds the answers that wait to be read by the loop. Assignments
	// are repeated until they are confirmed, so the oldest may be dropped.
	queueLen = 16
	// maxRecvBytes bounds one answer: it may carry all rule documents.
	maxRecvBytes = 32 << 20
)

// link is one stream to one coordinator node. Its reader goroutine ends when
// the stream does, which close forces.
type link struct {
	endpoint string
	now      func() clockReading
	conn     *grpc.ClientConn
	stream   grpc.BidiStreamingClient[quoratev1.SyncRequest, quoratev1.SyncResponse]
	cancel   context.CancelFunc
	done     chan struct{} // closed when the reader has ended

	mu       sync.Mutex
	queue    []received
	overflow bool
	err      error         // why the stream ended
	wake     chan struct{} // holds one token when something changed
}

// received is an answer with the time it arrived.
type received struct {
	at   clockReading
	resp quota.SyncResponse
}

// redirect is where a follower says the leader is.
type redirect struct {
	to  string
	err error
}

func (r *redirect) Error() string { return fmt.Sprintf("leader is at %s: %v", r.to, r.err) }
func (r *redirect) Unwrap() error { return r.err }

// connect opens a stream to endpoint, within the time for an answer. The stream
// lives until close.
func (u *Uplink) connect(ctx context.Context, endpoint string) (*link, error) {
	timeout := u.cfg.Timing.Answer
	target := endpoint
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(u.cfg.Credentials),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: timeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxRecvBytes)),
	}
	if u.cfg.Dial != nil {
		options = append(options, grpc.WithContextDialer(u.cfg.Dial))
		target = "passthrough:///" + endpoint // the dialer resolves names
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, fmt.Errorf("dial coordinator %s: %w", endpoint, err)
	}
	// The stream outlives ctx, so that the last report has one; while it is being
	// opened, ctx and the timeout end it.
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	expire := time.AfterFunc(timeout, cancel)
	detach := context.AfterFunc(ctx, cancel)
	stream, err := quoratev1.NewLeaseClient(conn).Sync(streamCtx)
	if !expire.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if !detach() && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		_ = conn.Close()
		return nil, fmt.Errorf("open sync stream to %s: %w", endpoint, classify(err))
	}
	l := &link{
		endpoint: endpoint, now: u.readNow, conn: conn, stream: stream, cancel: cancel,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	go l.read()
	return l, nil
}

func (l *link) read() {
	defer close(l.done)
	for {
		m, err := l.stream.Recv()
		var resp quota.SyncResponse
		if err == nil {
			resp, err = quoratev1.ToResponse(m)
		}
		if err != nil {
			err = fmt.Errorf("receive from %s: %w", l.endpoint, classify(err))
		}
		l.enqueue(received{l.now(), resp}, err)
		if err != nil {
			return
		}
	}
}

// enqueue keeps an answer, or why there will be none any more, for take.
func (l *link) enqueue(m received, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.err = err
	case len(l.queue) == queueLen:
		copy(l.queue, l.queue[1:])
		l.queue[queueLen-1] = m
		l.overflow = true
	default:
		l.queue = append(l.queue, m)
	}
	l.signal()
}

func (l *link) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// send hands one request to the transport. It may block on flow control for as
// long as the stream lives; the caller's deadline closes the link.
func (l *link) send(r quota.SyncRequest) error {
	if err := l.stream.Send(quoratev1.FromRequest(r)); err != nil {
		// io.EOF means that the stream has ended; the reader knows why.
		<-l.done
		if _, _, why := l.take(); why != nil {
			return why
		}
		return fmt.Errorf("send to %s: %w", l.endpoint, err)
	}
	return nil
}

// take returns the oldest answer that waits, whether answers were lost before
// it, and, when none waits, why the stream has ended.
func (l *link) take() (msg *received, lost bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost, l.overflow = l.overflow, false
	if len(l.queue) == 0 {
		return nil, lost, l.err
	}
	m := l.queue[0]
	l.queue = l.queue[1:]
	if len(l.queue) > 0 || l.err != nil {
		l.signal()
	}
	return &m, lost, nil
}

// close ends the stream and waits for the reader.
func (l *link) close() {
	l.cancel()
	<-l.done
	_ = l.conn.Close()
}

// classify turns the answer of a follower into a redirect.
func classify(err error) error {
	st, ok := status.FromError(err)
	if !ok || st.Code() != codes.FailedPrecondition {
		return err
	}
	for _, d := range st.Details() {
		if hint, ok := d.(*quoratev1.LeaderHint); ok && hint.GetAddress() != "" {
			return &redirect{to: hint.GetAddress(), err: err}
		}
	}
	return err
}

// redirected returns the address that err redirects to, empty when none.
func redirected(err error) string {
	var r *redirect
	if errors.As(err, &r) {
		return r.to
	}
	return ""
}
