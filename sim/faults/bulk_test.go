package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// bulk speaks for a region with very many keys, as its agent would: it reports
// the demand for each and confirms what it is assigned. Only the requests behind
// the reports are missing, and the Redis that they would ask.
type bulk struct {
	stream grpc.BidiStreamingClient[quoratev1.SyncRequest, quoratev1.SyncResponse]
	rnd    *rand.Rand

	req    quota.SyncRequest
	keys   []quota.Key
	leases map[quota.Key]quota.Assignment
}

// join registers a region that no agent speaks for and opens its stream.
func (s *scene) join(region string) *bulk {
	s.t.Helper()
	leader := s.leader()
	_, err := leader.Admin().AddRegion(s.t.Context(), &quoratev1.AddRegionRequest{Name: region, Weight: 1})
	s.must("add region "+region, err)
	conn, err := grpc.NewClient("passthrough:///"+leader.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	s.must("dial the leader", err)
	ctx, cancel := context.WithTimeout(s.t.Context(), 4*patience)
	stream, err := quoratev1.NewLeaseClient(conn).Sync(ctx)
	s.must("open a sync stream", err)
	b := &bulk{
		stream: stream, rnd: rand.New(rand.NewPCG(1, 2)),
		req: quota.SyncRequest{
			Region: region, Agent: region + "-1", Incarnation: quota.Incarnation{ID: region + "-life-1"},
		},
		leases: map[quota.Key]quota.Assignment{},
	}
	s.t.Cleanup(func() { cancel(); _ = conn.Close() })
	return b
}

// wants makes the region ask for so many values of a rule.
func (b *bulk) wants(set *rules.Set, key string, n int) {
	for i := len(b.keys); i < n; i++ {
		entries := []rules.Entry{{Key: key, Value: "user-" + strconv.Itoa(i)}}
		b.keys = append(b.keys, set.Match("shop", entries).Key("shop", entries, 0))
	}
}

const (
	// bulkEvery is how often everything is reported.
	bulkEvery = 500 * time.Millisecond
	// bulkAsks is how much is asked of each key in between, on average. It varies
	// as independent arrivals do: a steady state is not one without chance.
	bulkAsks = 15
)

// usage is the report of one key: it denies what its lease is too small for.
func (b *bulk) usage(k quota.Key) quota.Usage {
	u := quota.Usage{Key: k, Window: bulkEvery, Largest: quota.Token}
	asks := quota.Whole(uint64(max(0, math.Round(bulkAsks+b.rnd.NormFloat64()*math.Sqrt(bulkAsks)))))
	if a, ok := b.leases[k]; ok && !a.Release {
		// What is above its rate for half a second comes out of the burst.
		u.Level, u.Burst, u.Epoch = a.Lease.Burst-quota.Token, a.Lease.Burst, a.Epoch
		u.Admitted = min(asks, a.Lease.Burst)
	}
	if u.Denied = asks - u.Admitted; u.Denied > 0 {
		u.Level = 0
	}
	return u
}

// sync sends one report and takes what arrives until its answer. It returns how
// many assignments came.
func (b *bulk) sync() (assigned int, err error) {
	b.req.Seq++
	b.req.Usage = b.req.Usage[:0]
	for _, k := range b.keys {
		b.req.Usage = append(b.req.Usage, b.usage(k))
	}
	if err := b.stream.Send(quoratev1.FromRequest(b.req)); err != nil {
		return 0, errors.Join(err, b.stream.RecvMsg(new(quoratev1.SyncResponse))) // which has the status
	}
	confirmed := len(b.req.Applied)
	for {
		m, err := b.stream.Recv()
		if err != nil {
			return assigned, fmt.Errorf("receive: %w", err)
		}
		resp, err := quoratev1.ToResponse(m)
		if err != nil {
			return assigned, err
		}
		answers := resp.Seq == b.req.Seq
		if answers {
			if r := resp.Refusal; r != nil && r.Code == quota.RefusedBusy {
				return assigned, nil // the next sync confirms again
			} else if r != nil {
				return assigned, fmt.Errorf("refused: %s", r.Message)
			}
			b.req.Session, b.req.Cluster = resp.Session, resp.Cluster
			if resp.Config != nil {
				b.req.Config = resp.Config.Version
			}
		}
		for _, a := range resp.Assignments {
			if a.Session != b.req.Session || a.Epoch < b.leases[a.Key].Epoch {
				continue
			}
			if a.Epoch > b.leases[a.Key].Epoch {
				assigned++
			}
			b.leases[a.Key] = a
			b.req.Applied = append(b.req.Applied, quota.Applied{Key: a.Key, Session: a.Session, Epoch: a.Epoch})
		}
		if answers {
			b.req.Applied = b.req.Applied[confirmed:]
			return assigned, nil
		}
	}
}

// report syncs for a time, at its pace, and returns how many assignments came.
func (s *scene) report(b *bulk, d time.Duration) (assigned int) {
	s.t.Helper()
	tick := time.NewTicker(bulkEvery)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		n, err := b.sync()
		s.must("sync of "+b.req.Region, err)
		assigned += n
	}
	return assigned
}

// hold reports until the region holds all it wants and hardly a lease changes
// for a while.
func (s *scene) hold(b *bulk, within time.Duration) {
	s.t.Helper()
	s.until(fmt.Sprintf("%s holds %d leases", b.req.Region, len(b.keys)), within, func() error {
		if n := s.report(b, 4*bulkEvery); n > len(b.keys)/100 || len(b.leases) < len(b.keys) {
			return fmt.Errorf("it holds %d, %d have just changed", len(b.leases), n)
		}
		return nil
	})
}
