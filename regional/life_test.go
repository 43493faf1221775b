package regional

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

func TestFirstRequestWaitsForItsLease(t *testing.T) {
	c := startCoordinator(t, rulesDoc)
	lease := quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(3), Per: 86400 * quota.Second}, Burst: quota.Whole(3)}
	c.grant = func(r quota.SyncRequest) (out []quota.Assignment) {
		for _, u := range r.Usage {
			if strings.Contains(string(u.Key), "small") && u.Epoch == 0 {
				out = append(out, quota.Assignment{Key: u.Key, Session: 1, Epoch: 1, Lease: lease, Credit: lease.Burst})
			}
		}
		return out
	}
	a := startAgent(t, redistest.Run(t).URL(), nil, c.addr)
	a.ready(t)
	eventually(t, "connected", func() bool { return a.Status().Session == 1 })
	began := time.Now()
	if resp := a.ask(t, 1, "small=1"); over(resp) || resp.Statuses[0].LimitRemaining != 2 {
		t.Fatalf("have %v", resp)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("waited %s", took)
	}
	eventually(t, "lease metrics", func() bool {
		_, _, text := a.get(t, a.admin+"/metrics")
		return strings.Contains(text, `quorate_leases{rule="api/small"} 1`)
	})
}

// K60: the same process, started before its Redis, is not ready and then ready.
func TestK60RedisComesAfterTheAgent(t *testing.T) {
	server := redistest.Run(t)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	c := startCoordinator(t, rulesDoc)
	a := startAgent(t, server.URL(), nil, c.addr)
	eventually(t, "a failed reading", func() bool { return strings.Contains(a.log.String(), "connection refused") })
	if code, _, body := a.get(t, a.http+"/readyz"); code != 503 || !strings.Contains(body, "Redis") {
		t.Errorf("readyz: want 503 with the Redis in it, have %d %s", code, body)
	}
	if code, _, _ := a.get(t, a.http+"/v1/check?domain=api&user=1"); code != 503 {
		t.Errorf("check: want 503, have %d", code)
	}
	if err := server.Restart(false); err != nil {
		t.Fatal(err)
	}
	a.ready(t)
	for i := range 5 {
		if have, want := over(a.ask(t, 0, "user=1")), i == 4; have != want {
			t.Errorf("request %d: want over %v, have %v", i+1, want, have)
		}
	}
}

// K38: rules with an unknown key are no rules, and the agent says so instead of
// letting everything pass. K41: later they do not replace those in force.
func TestK38K41RulesWithAMistakeAreNotServed(t *testing.T) {
	const bad = "domain: api\ndescriptors:\n- key: user\n  detaled_metric: true\n"
	c := startCoordinator(t, bad)
	a := startAgent(t, redistest.Run(t).URL(), nil, c.addr)
	eventually(t, "the mistake is reported", func() bool {
		a.uplink.Urgent()
		return strings.Contains(a.log.String(), "rules.yaml:4:3: unknown key `detaled_metric`; did you mean `detailed_metric`?")
	})
	if code, _, body := a.get(t, a.http+"/readyz"); code != 503 || !strings.Contains(body, "no rules") {
		t.Errorf("readyz: have %d %s", code, body)
	}
	if code, _, _ := a.get(t, a.http+"/v1/check?domain=api&user=1"); code != 503 {
		t.Errorf("check: want 503, have %d", code)
	}
	if _, err := a.rls.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "api", Descriptors: descriptors("user=1")}); status.Code(err) != codes.Unknown {
		t.Errorf("over gRPC: want Unknown, have %v", err)
	}

	c.edit(config(2, rulesDoc))
	a.uplink.Urgent()
	a.ready(t)
	c.edit(config(3, bad))
	asked := len(c.requests())
	eventually(t, "the next one was offered several times", func() bool {
		a.uplink.Urgent()
		return len(c.requests()) > asked+5
	})
	for i := range 5 {
		if have, want := over(a.ask(t, 0, "user=1")), i == 4; have != want {
			t.Errorf("request %d by the old rules: want over %v, have %v", i+1, want, have)
		}
	}
	r := c.requests()
	if have := r[len(r)-1].Config; have != 2 {
		t.Errorf("the agent says that configuration %d is in force, want 2", have)
	}
	if n := strings.Count(a.log.String(), "detaled_metric"); n > 2 {
		t.Errorf("the mistake is in the log %d times, want once for each configuration at most", n)
	}
}

func TestK60StartsWithoutRedisAndWithoutCoordinator(t *testing.T) {
	server := redistest.Run(t)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	a := startAgent(t, server.URL(), nil, "127.0.0.1:1")
	code, _, body := a.get(t, a.http+"/readyz")
	if code != 503 || !strings.Contains(body, "Redis") || !strings.Contains(body, "no rules") {
		t.Errorf("readyz: have %d %s", code, body)
	}
	if code, _, _ := a.get(t, a.admin+"/livez"); code != 200 {
		t.Errorf("livez: want 200, have %d", code)
	}
	if code, _, _ := a.get(t, a.admin+"/rlconfig"); code != 503 { // K95
		t.Errorf("rlconfig: want 503, have %d", code)
	}
	if code, _, _ := a.get(t, a.http+"/v1/check?domain=api&user=1"); code != 503 { // K38
		t.Errorf("check without rules: want 503, have %d", code)
	}
	if err := server.Restart(false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store answered", func() bool { return a.region.answered.Load() })
	if len(a.NotReady()) == 0 {
		t.Error("ready without rules")
	}
	a.stop(t)

	c := startCoordinator(t, rulesDoc)
	b := startAgent(t, server.URL(), nil, c.addr, "127.0.0.1:1")
	b.ready(t)
	if over(b.ask(t, 0, "user=1")) {
		t.Error("denied once ready")
	}
}

func TestCutOffRegionServesWhatRedisKept(t *testing.T) {
	server := redistest.Run(t)
	c := startCoordinator(t, rulesDoc)
	a := startAgent(t, server.URL(), nil, c.addr)
	a.ready(t)
	a.stop(t)
	c.server.Stop()

	b := startAgent(t, server.URL(), nil, c.addr) // nobody there any more
	b.ready(t)
	for i := range 5 {
		if have, want := over(b.ask(t, 0, "user=1")), i == 4; have != want {
			t.Errorf("request %d: want over %v, have %v", i+1, want, have)
		}
	}
}

func TestK43EditIsInForceWithinSeconds(t *testing.T) {
	c := startCoordinator(t, rulesDoc)
	a := startAgent(t, redistest.Run(t).URL(), nil, c.addr)
	a.ready(t)
	c.edit(config(2, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 2, quota: {standing_share: 1}}}]"))
	eventually(t, "the new rules", func() bool {
		a.uplink.Urgent()
		return a.ask(t, 0, "user=edit").Statuses[0].GetCurrentLimit().GetRequestsPerUnit() == 2
	})
	if a.ask(t, 0, "ip=1").Statuses[0].CurrentLimit != nil {
		t.Error("a removed rule still counts")
	}
	eventually(t, "the confirmation", func() bool {
		r := c.requests()
		return r[len(r)-1].Config == 2
	})
	_, _, text := a.get(t, a.admin+"/metrics")
	if strings.Contains(text, `rule="api/ip"`) || !strings.Contains(text, "quorate_config_version 2") {
		t.Error("metrics still name a rule that is gone")
	}
}

func TestK93DrainLosesNothing(t *testing.T) {
	c := startCoordinator(t, rulesDoc)
	a := startAgent(t, redistest.Run(t).URL(), nil, c.addr)
	a.ready(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var answered, failed atomic.Int64
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := a.rls.ShouldRateLimit(context.Background(), &rls.RateLimitRequest{Domain: "api", Descriptors: descriptors("user=k93")})
				switch {
				case err == nil:
					answered.Add(1)
				case ctx.Err() == nil: // after it, the port may be closed already
					failed.Add(1)
				}
			}
		})
	}
	eventually(t, "load", func() bool { return answered.Load() > 200 })
	cancel() // each worker still has one request in flight
	a.stop(t)
	wg.Wait()
	if failed.Load() != 0 {
		t.Errorf("%d requests failed and %d were answered", failed.Load(), answered.Load())
	}
	r := c.requests()
	if last := r[len(r)-1]; !last.Leaving {
		t.Errorf("the last report does not say leaving: %+v", last)
	}
	var reported quota.Tokens
	for _, one := range r {
		for _, u := range one.Usage {
			reported += u.Admitted + u.Denied
		}
	}
	// A report whose answer was lost on the way is sent again.
	if want := quota.Whole(uint64(answered.Load())); reported < want {
		t.Errorf("want usage of the at least %s requests answered, have %s", want, reported)
	}
	if len(a.NotReady()) == 0 {
		t.Error("ready after the shutdown")
	}
}

func TestEmbeddedStore(t *testing.T) {
	c := startCoordinator(t, rulesDoc)
	a := startAgent(t, Embedded, nil, c.addr)
	a.ready(t)
	for i := range 5 {
		if have, want := over(a.ask(t, 0, "user=1")), i == 4; have != want {
			t.Errorf("request %d: want over %v, have %v", i+1, want, have)
		}
	}
	if !strings.Contains(a.log.String(), "embedded") {
		t.Error("no warning about the embedded store")
	}
}

func TestTwoAgentsShareTheRegionsBuckets(t *testing.T) {
	server := redistest.Run(t)
	c := startCoordinator(t, rulesDoc)
	a, b := startAgent(t, server.URL(), nil, c.addr), startAgent(t, server.URL(), nil, c.addr)
	a.ready(t)
	b.ready(t)
	admitted := 0
	for range 4 {
		for _, one := range []*running{a, b} {
			if !over(one.ask(t, 1, "user=both")) {
				admitted++
			}
		}
	}
	if admitted != 4 {
		t.Errorf("want the share of 4 admitted, have %d", admitted)
	}
}
