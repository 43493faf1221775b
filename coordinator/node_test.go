package coordinator

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

func TestAgentsGetSessionsConfigurationAndLeases(t *testing.T) {
	c := newCluster(t, 3)
	c.rules(document)
	eu, us := newAgent(t, c, "eu", "eu-1"), newAgent(t, c, "us", "us-1")
	eu.must()
	us.must()
	if eu.session == us.session || eu.req.Cluster == "" {
		t.Fatalf("have sessions %d and %d of cluster %q", eu.session, us.session, eu.req.Cluster)
	}
	eu.feed(ada)
	us.feed(ada)
	eventually(t, "the whole limit is divided", func() bool {
		eu.must(hungry(ada, eu))
		us.must(hungry(ada, us))
		return eu.usable(ada)+us.usable(ada) >= 80*quota.Token
	})
	if sum := eu.usable(ada) + us.usable(ada); sum > 100*quota.Token {
		t.Errorf("the regions hold %v of 100", sum)
	}
	if eu.pushed+us.pushed == 0 {
		t.Error("no assignment was pushed")
	}
	c.agree()
}

// K75: a follower decides nothing from its own view, it says where to ask.
func TestK75FollowersSayWhereTheLeaderIs(t *testing.T) {
	c := newCluster(t, 3)
	l := c.leader()
	for _, f := range c.followers(l) {
		var hint *quoratev1.LeaderHint
		eventually(t, "a follower knows the leader", func() bool {
			_, err := admin(t, f).GetRules(context.Background(), &quoratev1.GetRulesRequest{})
			if status.Code(err) != codes.FailedPrecondition {
				t.Fatalf("have %v, want FAILED_PRECONDITION", err)
			}
			for _, d := range status.Convert(err).Details() {
				hint, _ = d.(*quoratev1.LeaderHint)
			}
			return hint.GetAddress() != ""
		})
		if hint.GetNode() != l.cfg.Node || hint.GetAddress() != l.cfg.GRPCAddr {
			t.Errorf("have %v, want %s at %s", hint, l.cfg.Node, l.cfg.GRPCAddr)
		}
	}
}

// K73: a session that is not renewed lives as long as it was promised, and not
// much longer.
func TestK73SessionEndsInTime(t *testing.T) {
	c := newCluster(t, 3)
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	eu.must()
	eu.must()
	last, l := time.Now(), c.leader()
	term := l.node.raft.Status().Term
	eventually(t, "the session ends", func() (is bool) {
		l.node.fsm.View(func(l *ledger.Ledger) { is = l.Region("eu").Session == nil })
		return is
	})
	// A machine under load elects leaders, and each gives the session its time again.
	terms := 1 + time.Duration(l.node.raft.Status().Term-term)
	if life := time.Since(last); life < c.timing.TTL || life > terms*(c.timing.TTL+c.timing.Guard+c.timing.Tick)+3*time.Second {
		t.Errorf("the session lived %s over %d terms, want about %s in each", life, terms, c.timing.TTL+c.timing.Guard)
	}
}

func TestLateAndDuplicateSyncsChangeNothing(t *testing.T) {
	c := newCluster(t, 1)
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	eu.feed(ada)
	session := eu.session
	// The very first request again, which names no session, on a stream of its own.
	again := newAgent(t, c, "eu", "eu-1")
	again.must()
	again.must()
	if again.session != session {
		t.Errorf("a repeated first request got session %d, want %d", again.session, session)
	}
	// An old confirmation.
	again.req.Applied = []quota.Applied{{Key: ada, Session: session, Epoch: 1, Surrendered: 1000 * quota.Token}}
	again.must()
	eu.must()
	if eu.session != session {
		t.Errorf("session %d became %d", session, eu.session)
	}
	c.members[0].node.fsm.View(func(l *ledger.Ledger) {
		if a := l.Account(ada); a.Level(l.Clock()) > 100*quota.Token {
			t.Errorf("the pool has %v", a.Level(l.Clock()))
		}
	})
}

func TestRefusalsNameTheReason(t *testing.T) {
	c := newCluster(t, 1)
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	eu.must()
	for _, tt := range []struct {
		reason string
		change func(*quota.SyncRequest)
		code   quota.RefusalCode
		text   string
	}{
		{"a region that nobody registered", func(r *quota.SyncRequest) { r.Region = "moon" }, quota.RefusedUnknownRegion, `"moon" is not registered`},
		{"another cluster", func(r *quota.SyncRequest) { r.Cluster = "other" }, quota.RefusedWrongCluster, "belongs to cluster other"},
		{"a second store", func(r *quota.SyncRequest) { r.Incarnation.ID = "store-2" }, quota.RefusedSecondStore, "store-2"},
	} {
		a := newAgent(t, c, "eu", "eu-2")
		tt.change(&a.req)
		eventually(t, tt.reason, func() bool { return a.sync() == nil })
		if a.refused == nil || a.refused.Code != tt.code || !strings.Contains(a.refused.Message, tt.text) {
			t.Errorf("%s: have %+v, want code %d with %q", tt.reason, a.refused, tt.code, tt.text)
		}
	}
}

// The log of a steady cluster grows by its ticks, whatever the leases.
func TestSteadyStateWritesTicksOnly(t *testing.T) {
	c := newCluster(t, 1)
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	var usage []quota.Usage
	for i := range 500 {
		k := quota.Key("api|user=u" + string(rune('A'+i/26%26)) + string(rune('A'+i%26)) + string(rune('0'+i/676)))
		usage = append(usage, quota.Usage{Key: k, Window: 100 * time.Millisecond, Admitted: quota.Token, Denied: quota.Token, Largest: quota.Token, Burst: quota.Token})
	}
	eventually(t, "500 leases", func() bool {
		eu.must(usage...)
		return len(eu.leases) == 500
	})
	entries := func() (n uint64) { return c.members[0].node.fsm.Last().Index }
	var grown uint64
	eventually(t, "the log grows by its ticks", func() bool {
		before, started := entries(), time.Now()
		for time.Since(started) < time.Second {
			eu.must()
			time.Sleep(50 * time.Millisecond)
		}
		grown = entries() - before
		return grown <= 8
	})
	if grown == 0 {
		t.Error("no tick in a second")
	}
}

func TestHealthAndDrain(t *testing.T) {
	c := newCluster(t, 3)
	l := c.leader()
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + l.cfg.AdminAddr + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	defer http.DefaultClient.CloseIdleConnections()
	for _, path := range []string{"/livez", "/healthz", "/readyz", "/debug/pprof/cmdline"} {
		if code, body := get(path); code != http.StatusOK {
			t.Errorf("%s: have %d %s", path, code, body)
		}
	}
	if _, body := get("/metrics"); !strings.Contains(body, "quorate_leading 1") {
		t.Errorf("metrics: have %s", body)
	}
	l.node.draining.Store(true)
	if code, body := get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "shutting down") {
		t.Errorf("readyz while draining: have %d %s", code, body)
	}
	l.node.draining.Store(false)
	for _, f := range c.followers(l) {
		c.stop(f)
	}
	eventually(t, "not ready without a leader", func() bool {
		code, body := get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "no leader")
	})
	if code, _ := get("/livez"); code != http.StatusOK {
		t.Error("livez looks at the other nodes")
	}
}
