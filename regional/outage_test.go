package regional

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/redisbucket"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// K10: a zero limit denies on both paths, whatever the policy for failures is.
func TestK10ZeroMeansTheSameWithAndWithoutRedis(t *testing.T) {
	server := redistest.Run(t)
	c := startCoordinator(t, rulesDoc)
	a := startAgent(t, server.URL(), nil, c.addr)
	a.ready(t)
	for _, away := range []bool{false, true} {
		if away {
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			if resp := a.ask(t, 0, "quick=1"); header(resp, headers.Reason) != "store_degraded" {
				t.Fatalf("Redis is still asked: %v", resp)
			}
		}
		for d, want := range map[string]bool{"zero=1": true, "zero-allow=1": true, "free=1": false} {
			if have := over(a.ask(t, 0, d)); have != want {
				t.Errorf("Redis away %v, %s over gRPC: want over %v, have %v", away, d, want, have)
			}
			if code, _, _ := a.get(t, a.http+"/v1/check?domain=api&"+d); (code == 429) != want || code != 429 && code != 200 {
				t.Errorf("Redis away %v, %s over HTTP: want over %v, have %d", away, d, want, code)
			}
		}
	}
}

// K54: a Redis that became a replica refuses writes on healthy connections. Each
// rule's policy decides meanwhile, and what takes over is used within 2 s.
func TestK54DemotedRedisFollowsEachRulesPolicy(t *testing.T) {
	server, other := redistest.Run(t), redistest.Run(t)
	c := startCoordinator(t, rulesDoc)
	a := startAgent(t, server.URL(), nil, c.addr)
	a.ready(t)
	a.ask(t, 0, "quick=1", "open=1")
	if err := server.ReplicaOf(other); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if resp := a.ask(t, 0, "quick=1"); !over(resp) || header(resp, headers.Reason) != "store_degraded" {
			t.Fatalf("deny: have %v", resp)
		}
		if over(a.ask(t, 0, "open=1")) {
			t.Fatal("allow: denied")
		}
	}
	if err := server.ReplicaOf(nil); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	// It lost the data, so also the rules: the coordinator sends them again.
	eventually(t, "Redis decides again", func() bool { return !over(a.ask(t, 0, "quick=1")) })
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("recovered after %s", took)
	}
}

// What was admitted without Redis is charged as soon as Redis answers anybody.
func TestDebtsAreSettledWhenTheStoreAnswers(t *testing.T) {
	server := redistest.Run(t)
	c := startCoordinator(t, rulesDoc)
	a := startAgent(t, server.URL(), nil, c.addr)
	a.ready(t)
	a.ask(t, 0, "brisk=1")
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an admission without Redis", func() bool {
		resp := a.ask(t, 0, "brisk=1")
		return !over(resp) && a.enforcer.Owing() == 1
	})
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Redis answers", func() bool { return a.region.Refresh(t.Context()) == nil })
	began := time.Now()
	eventually(t, "nothing is owed", func() bool { return a.enforcer.Owing() == 0 })
	if took := time.Since(began); took > watchEvery/2 {
		t.Errorf("settled %s after the first answer", took)
	}
}

// K56, K57, K94: without Redis each rule's policy answers on every front end, at
// once, and the log has one line with the cause.
func TestK57K94RedisGoneFollowsEachRulesPolicy(t *testing.T) {
	server := redistest.Run(t)
	c := startCoordinator(t, rulesDoc)
	a := startAgent(t, server.URL(), nil, c.addr)
	a.ready(t)
	a.ask(t, 0, "closed=1", "open=1", "ip=1")
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	paused := true
	defer func() {
		if paused {
			_ = server.Resume()
		}
	}()
	began := time.Now()
	const rounds = 20
	for range rounds {
		if !over(a.ask(t, 0, "closed=1")) {
			t.Error("deny: admitted over gRPC")
		}
		if over(a.ask(t, 0, "open=1")) {
			t.Error("allow: denied over gRPC")
		}
		if code, _, _ := a.get(t, a.http+"/v1/check?domain=api&closed=1"); code != 429 {
			t.Errorf("deny: want 429 over HTTP, have %d", code)
		}
		if code, _, _ := a.get(t, a.http+"/v1/check?domain=api&open=1"); code != 200 {
			t.Errorf("allow: want 200 over HTTP, have %d", code)
		}
	}
	if took := time.Since(began); took > 5*time.Second { // K56: the breaker opens after a few timeouts
		t.Errorf("%d answers without Redis took %s", 4*rounds, took)
	}
	if len(a.NotReady()) != 0 {
		t.Error("not ready because Redis went away")
	}
	var told []string
	for line := range strings.Lines(a.log.String()) {
		if strings.Contains(line, "a call to the region's Redis failed") {
			told = append(told, line)
		}
	}
	// K94; which of its two bounds a call meets first is a matter of milliseconds.
	if len(told) != 1 || !strings.Contains(told[0], "i/o timeout") && !strings.Contains(told[0], "no answer within ") {
		t.Errorf("want one line with the cause, have %q", told)
	}
	if !strings.Contains(a.log.String(), "on_store_failure_allow") {
		t.Error("nothing was said of the admissions outside the bound")
	}
	paused = false
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Redis decides again", func() bool { return !over(a.ask(t, 0, "closed=1")) })
}

// An agent whose user lacks a right is not ready, and its log says which one.
func TestAMissingRightIsNamed(t *testing.T) {
	c := startCoordinator(t, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 5}}]")
	r := redistest.Run(t)
	line := strings.Replace(redisbucket.ACL("agent", "quorate:", false), ">PASSWORD", ">pw", 1)
	for _, l := range []string{line, "ACL SETUSER agent -hdel"} {
		if _, err := r.Do(strings.Fields(l)...); err != nil {
			t.Fatal(err)
		}
	}
	a := startAgent(t, r.URL(), func(cfg *Config) { cfg.RedisAccess = redisbucket.Access{Username: "agent", Password: "pw"} }, c.addr)
	eventually(t, "the right is named in the log", func() bool { return strings.Contains(a.log.String(), "ACL SETUSER agent +hdel") })
	if len(a.NotReady()) == 0 {
		t.Error("it is ready")
	}
	if _, err := r.Do("ACL", "SETUSER", "agent", "+hdel"); err != nil {
		t.Fatal(err)
	}
	a.ready(t)
}
