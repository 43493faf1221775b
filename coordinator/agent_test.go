package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// agent is a small agent: it speaks Sync, applies what it is told in memory and
// confirms it with its next request. It counts from before sending, like a real
// one.
type agent struct {
	t         *testing.T
	timing    quota.Timing
	endpoints []string

	mu       sync.Mutex
	req      quota.SyncRequest // what the next request says
	session  quota.SessionID
	deadline time.Time
	leases   map[quota.Key]quota.Assignment
	pushed   int
	refused  *quota.Refusal

	next   int // endpoint to try
	conn   *grpc.ClientConn
	stream grpc.BidiStreamingClient[quoratev1.SyncRequest, quoratev1.SyncResponse]
	in     chan *quoratev1.SyncResponse
	cancel context.CancelFunc
}

func newAgent(t *testing.T, c *cluster, region, name string) *agent {
	a := &agent{
		t: t, timing: c.timing, endpoints: c.endpoints(), leases: map[quota.Key]quota.Assignment{},
		req: quota.SyncRequest{Region: region, Agent: name, Incarnation: quota.Incarnation{ID: "store-" + region}},
	}
	t.Cleanup(a.close)
	return a
}

func (a *agent) close() {
	if a.conn != nil {
		a.cancel()
		a.conn.Close()
		for range a.in { // the reader ends
		}
		a.conn, a.stream = nil, nil
	}
}

func (a *agent) connect(endpoint string) error {
	a.close()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := quoratev1.NewLeaseClient(conn).Sync(ctx)
	if err != nil {
		cancel()
		conn.Close()
		return err
	}
	in := make(chan *quoratev1.SyncResponse, 64)
	a.conn, a.stream, a.in, a.cancel = conn, stream, in, cancel
	go func() { // until the stream ends
		defer close(in)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			in <- m
		}
	}()
	return nil
}

// sync sends one request to whoever leads and handles its answer. An error means
// that this attempt failed; the next goes where the hint or the list says.
func (a *agent) sync(usage ...quota.Usage) error {
	err := a.attempt(usage)
	if err == nil {
		return nil
	}
	endpoint := a.endpoints[a.next%len(a.endpoints)]
	a.next++
	for _, d := range status.Convert(err).Details() {
		if h, ok := d.(*quoratev1.LeaderHint); ok && h.GetAddress() != "" {
			endpoint = h.GetAddress()
		}
	}
	if e := a.connect(endpoint); e != nil {
		return errors.Join(err, e)
	}
	return err
}

func (a *agent) attempt(usage []quota.Usage) error {
	if a.stream == nil {
		return errors.New("not connected")
	}
	a.mu.Lock()
	a.req.Seq++
	req := a.req
	req.Session, req.Usage = a.session, usage
	a.mu.Unlock()
	sent := time.Now()
	if err := a.stream.Send(quoratev1.FromRequest(req)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	timeout := time.NewTimer(a.timing.Answer)
	defer timeout.Stop()
	for {
		select {
		case m, ok := <-a.in:
			if !ok {
				return a.stream.RecvMsg(new(quoratev1.SyncResponse)) // the status
			}
			resp, err := quoratev1.ToResponse(m)
			if err != nil {
				return err
			}
			if a.handle(resp, req, sent) {
				return nil
			}
		case <-timeout.C:
			a.cancel() // a late answer must not come
			return status.Error(codes.DeadlineExceeded, "no answer")
		}
	}
}

// handle does what a response allows and reports whether it answers req.
func (a *agent) handle(resp quota.SyncResponse, req quota.SyncRequest, sent time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if resp.Seq == req.Seq {
		a.refused = resp.Refusal
		if resp.Refusal == nil && !req.Leaving {
			if a.session != resp.Session {
				a.leases = map[quota.Key]quota.Assignment{}
				a.req.Applied = nil
			}
			a.session, a.deadline, a.req.Cluster = resp.Session, sent.Add(a.timing.Usable()), resp.Cluster
			a.req.Applied = nil
		}
		if resp.Config != nil {
			a.req.Config = resp.Config.Version
		}
	} else if resp.Seq == 0 {
		a.pushed++
	}
	for _, as := range resp.Assignments {
		old := a.leases[as.Key]
		if as.Session != a.session || as.Epoch < old.Epoch || !time.Now().Before(a.deadline) {
			continue
		}
		a.leases[as.Key] = as
		a.req.Applied = append(a.req.Applied, quota.Applied{Key: as.Key, Session: as.Session, Epoch: as.Epoch})
	}
	return resp.Seq == req.Seq
}

// must syncs until an attempt is answered without a refusal.
func (a *agent) must(usage ...quota.Usage) {
	a.t.Helper()
	eventually(a.t, "agent "+a.req.Agent+" is answered", func() bool {
		if err := a.sync(usage...); err != nil {
			return false
		}
		return a.refused == nil
	})
}

// drop gives the session up, as an agent does whose clocks disagree: what it held
// is gone before it says so.
func (a *agent) drop() {
	a.t.Helper()
	a.mu.Lock()
	a.leases, a.deadline, a.req.Drop = map[quota.Key]quota.Assignment{}, time.Time{}, true
	a.mu.Unlock()
	a.must()
	a.mu.Lock()
	a.req.Drop = false
	a.mu.Unlock()
}

// usable returns the burst that the region may spend of a key right now by its
// lease.
func (a *agent) usable(k quota.Key) quota.Tokens {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, ok := a.leases[k]
	if !ok || l.Release || !time.Now().Before(a.deadline) {
		return 0
	}
	return l.Lease.Burst
}

// hungry is the report of a region that wants more of a key than it has.
func hungry(k quota.Key, a *agent) quota.Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.leases[k]
	return quota.Usage{
		Key: k, Window: 100 * time.Millisecond, Admitted: 10 * quota.Token, Denied: 200 * quota.Token, Largest: quota.Token,
		Level: 0, Burst: max(l.Lease.Burst, quota.Token), Epoch: l.Epoch,
	}
}

// feed syncs until the region holds a lease of a key.
func (a *agent) feed(k quota.Key) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("region %s holds a lease of %s", a.req.Region, k), func() bool {
		a.must(hungry(k, a))
		return a.usable(k) > 0
	})
}
