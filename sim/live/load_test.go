package live

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/workload"
)

// clerk is a rate limit service that answers as it is told.
type clerk struct {
	rls.UnimplementedRateLimitServiceServer
	asked  atomic.Int64
	answer func(ctx context.Context, n int64) (rls.RateLimitResponse_Code, error)
}

func (c *clerk) ShouldRateLimit(ctx context.Context, r *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	if r.GetDomain() != "d" || r.GetHitsAddend() != 2 || r.GetDescriptors()[0].GetEntries()[0].GetValue() != "v" {
		return nil, status.Error(codes.InvalidArgument, "not what the load was told to ask")
	}
	code, err := c.answer(ctx, c.asked.Add(1))
	return &rls.RateLimitResponse{OverallCode: code}, err
}

// world of one region whose agents are clerks.
func clerks(t *testing.T, answers ...func(context.Context, int64) (rls.RateLimitResponse_Code, error)) (*World, []*clerk) {
	t.Helper()
	w := &World{opts: Options{Seed: 1}.withDefaults(), start: time.Now()}
	r := &Region{Name: "eu"}
	var all []*clerk
	for _, answer := range answers {
		c := &clerk{answer: answer}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		rls.RegisterRateLimitServiceServer(server, c)
		go func() { _ = server.Serve(listener) }() // ends with Stop
		t.Cleanup(server.Stop)
		conn, err := w.dialOperator(listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		r.Agents = append(r.Agents, &Agent{conn: conn, process: &process{}})
		all = append(all, c)
	}
	w.regions = []*Region{r}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w, all
}

func track(w *World) *Track {
	return w.Track(Identity{Domain: "d", Entries: []rules.Entry{{Key: "k", Value: "v"}}}, quota.Capacity{
		Rate: quota.Rate{Tokens: 10 * quota.Token, Per: quota.Second}, Burst: 10 * quota.Token,
	})
}

// until waits for what must come true soon.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func always(code rls.RateLimitResponse_Code) func(context.Context, int64) (rls.RateLimitResponse_Code, error) {
	return func(context.Context, int64) (rls.RateLimitResponse_Code, error) { return code, nil }
}

func TestLoadCountsWhatBecameOfItsRequests(t *testing.T) {
	fails := func(context.Context, int64) (rls.RateLimitResponse_Code, error) {
		return rls.RateLimitResponse_UNKNOWN, status.Error(codes.Unavailable, "away")
	}
	w, all := clerks(t, always(rls.RateLimitResponse_OK), always(rls.RateLimitResponse_OVER_LIMIT), fails)
	tr := track(w)
	load, err := w.Load(LoadSpec{Region: "eu", Track: tr, Demand: workload.Steady(2000), Cost: 2})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "each agent has been asked 20 times", func() bool {
		return all[0].asked.Load() >= 20 && all[1].asked.Load() >= 20 && all[2].asked.Load() >= 20
	})
	load.Stop()
	have := tr.Tally()
	cost := 2 * quota.Token
	for _, tt := range []struct {
		what       string
		have, want quota.Tokens
	}{
		{"admitted", have.Counts.Admitted, cost * quota.Tokens(all[0].asked.Load())},
		{"denied", have.Counts.Denied, cost * quota.Tokens(all[1].asked.Load())},
		{"failed", have.Counts.Failed, cost * quota.Tokens(all[2].asked.Load())},
		{"offered", have.Counts.Offered, have.Counts.Admitted + have.Counts.Denied + have.Counts.Failed + have.Counts.Dropped},
		{"offered in the region", have.Regions["eu"].Offered, have.Counts.Offered},
	} {
		if tt.have != tt.want {
			t.Errorf("%s: have %v, want %v", tt.what, tt.have, tt.want)
		}
	}
	// 40 tokens and more within a moment, of a limit of 10 and 10 a second.
	if report := tr.Audit(); !report.Broken() || report.Admitted != have.Counts.Admitted {
		t.Errorf("the audit missed it: %+v", report)
	}
	if all, none := tr.AuditRegion("eu", 0, tr.Limit), tr.AuditRegion("us", 0, tr.Limit); all != tr.Audit() || none.Admissions != 0 {
		t.Errorf("by region: have %+v in eu and %+v in us, want all in eu", all, none)
	}
	if late := tr.AuditRegion("eu", have.At, tr.Limit); late.Admissions != 0 {
		t.Errorf("sent after the load had ended: have %+v", late)
	}
	if have.Ideal < 10*quota.Token || have.Ideal > have.Counts.Offered {
		t.Errorf("ideal: have %v of %v offered", have.Ideal, have.Counts.Offered)
	}
	if have.P50 <= 0 || have.P99 < have.P50 || have.Worst < have.P99 {
		t.Errorf("latencies: have p50 %v p99 %v", have.P50, have.P99)
	}
}

func TestLoadDropsWhatItCannotSend(t *testing.T) {
	w, all := clerks(t, func(ctx context.Context, _ int64) (rls.RateLimitResponse_Code, error) {
		<-ctx.Done() // never answers in time
		return rls.RateLimitResponse_OK, ctx.Err()
	})
	tr := track(w)
	load, err := w.Load(LoadSpec{
		Region: "eu", Track: tr, Demand: workload.Steady(5000), Cost: 2, Waiting: 3, Timeout: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "requests are dropped, and sent again after the timeout", func() bool {
		return tr.Tally().Counts.Dropped > 20*quota.Token && all[0].asked.Load() > 3
	})
	load.Stop()
	have := tr.Tally().Counts
	if have.Admitted != 0 || have.Denied != 0 || have.Offered != have.Failed+have.Dropped {
		t.Errorf("have %+v", have)
	}
}

func TestLoadAsksOneAgentWhenToldTo(t *testing.T) {
	w, all := clerks(t, always(rls.RateLimitResponse_OK), always(rls.RateLimitResponse_OK))
	load, err := w.Load(LoadSpec{Region: "eu", Track: track(w), Demand: workload.Steady(2000), Cost: 2, Agent: 2})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the second agent is asked", func() bool { return all[1].asked.Load() > 10 })
	load.Stop()
	if n := all[0].asked.Load(); n != 0 {
		t.Errorf("the first agent was asked %d times", n)
	}
}

func TestInvalidLoadsAreRefused(t *testing.T) {
	w, _ := clerks(t, always(rls.RateLimitResponse_OK))
	for _, tt := range []struct {
		reason string
		spec   LoadSpec
	}{
		{"no such region", LoadSpec{Region: "mars", Track: track(w)}},
		{"no track", LoadSpec{Region: "eu"}},
		{"no such agent", LoadSpec{Region: "eu", Track: track(w), Agent: 2}},
		{"negative demand", LoadSpec{Region: "eu", Track: track(w), Demand: workload.Steady(-1)}},
	} {
		if _, err := w.Load(tt.spec); !errors.Is(err, ErrLoad) {
			t.Errorf("%s: have %v, want %v", tt.reason, err, ErrLoad)
		}
	}
}
