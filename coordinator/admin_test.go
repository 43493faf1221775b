package coordinator

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

func TestRuleEdits(t *testing.T) {
	c := newCluster(t, 1)
	c.leader()
	client, ctx := admin(t, c.members[0]), context.Background()
	zero, one := uint64(0), uint64(1)
	doc := func(text string) []*quoratev1.Source { return []*quoratev1.Source{{Name: "api.yaml", Text: text}} }
	for _, tt := range []struct {
		reason  string
		req     *quoratev1.ApplyRulesRequest
		code    codes.Code
		text    string
		version uint64
		changed bool
	}{
		{"the first, if there are none", &quoratev1.ApplyRulesRequest{Sources: doc(document), IfVersion: &zero}, codes.OK, "", 1, true},
		{"the same again", &quoratev1.ApplyRulesRequest{Sources: doc(document)}, codes.OK, "", 1, false},
		{"made from an older version", &quoratev1.ApplyRulesRequest{Sources: doc(domain("b")), IfVersion: &zero}, codes.Aborted, "rules are at version 1", 1, false},
		{"a dry run", &quoratev1.ApplyRulesRequest{Sources: doc(domain("b")), DryRun: true}, codes.OK, "", 1, true},
		{"one bad document of two", &quoratev1.ApplyRulesRequest{Sources: append(doc(domain("b")), &quoratev1.Source{Name: "bad.yaml", Text: "domain: x\nwrong: 1\n"})}, codes.InvalidArgument, "bad.yaml:2:", 1, false},
		{"made from the present version", &quoratev1.ApplyRulesRequest{Sources: doc(domain("b")), IfVersion: &one}, codes.OK, "", 2, true},
	} {
		resp, err := client.ApplyRules(ctx, tt.req)
		if status.Code(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: have %v, want %v with %q", tt.reason, err, tt.code, tt.text)
		}
		if err == nil && (resp.GetRulesVersion() != tt.version || resp.GetChanged() != tt.changed) {
			t.Errorf("%s: have version %d changed %v, want %d %v", tt.reason, resp.GetRulesVersion(), resp.GetChanged(), tt.version, tt.changed)
		}
	}
	rules, err := client.GetRules(ctx, &quoratev1.GetRulesRequest{})
	if err != nil || rules.GetRulesVersion() != 2 || rules.GetSources()[0].GetText() != domain("b") {
		t.Fatalf("have %v, %v", rules, err)
	}
	// No region has a session, so nobody can say when they confirm.
	if o := rules.GetOutstanding(); len(o.GetRegions()) != 2 || o.GetInForceWithinUs() != -1 {
		t.Errorf("outstanding without agents: have %v", o)
	}
	eu, us := newAgent(t, c, "eu", "eu-1"), newAgent(t, c, "us", "us-1")
	eventually(t, "nothing is outstanding", func() bool {
		eu.must()
		us.must()
		rules, err = client.GetRules(ctx, &quoratev1.GetRulesRequest{})
		o := rules.GetOutstanding()
		return err == nil && len(o.GetRegions()) == 0 && o.GetInForceWithinUs() == 0 && o.GetOverdrawnAccounts() == 0
	})
}

// The largest rules that are valid pass every limit on their way: one request, one
// log entry, one answer. What is larger is refused for what it is, not by gRPC.
func TestLargestRulesAreAppliedAndReadBack(t *testing.T) {
	// One node, so that no other one takes it for dead while it parses 4 MiB under
	// the race detector.
	c := newCluster(t, 1, func(cfg *Config) { cfg.RaftTimeouts.Apply = 20 * time.Second })
	sources := []*quoratev1.Source{{Name: "a.yaml", Text: domain("a")}, {Name: "b.yaml", Text: domain("b")}}
	const line = "# Why this limit is what it is, and whom to ask before it is raised.\n"
	free := rules.MaxBytes - len(sources[0].Text) - len(sources[1].Text)
	sources[1].Text += strings.Repeat(line, free/len(line)) + strings.Repeat("#", free%len(line))
	client, ctx := admin(t, c.leader()), context.Background()
	if resp, err := client.ApplyRules(ctx, &quoratev1.ApplyRulesRequest{Sources: sources}); err != nil || !resp.GetChanged() || resp.GetRulesVersion() != 1 {
		t.Fatalf("have %v, %v", resp, err)
	}
	same := func() {
		t.Helper()
		large := grpc.MaxCallRecvMsgSize(2 * rules.MaxBytes)
		resp, err := admin(t, c.leader()).GetRules(ctx, &quoratev1.GetRulesRequest{}, large)
		if err != nil || len(resp.GetSources()) != 2 {
			t.Fatalf("have %d documents, %v", len(resp.GetSources()), err)
		}
		for i, s := range resp.GetSources() {
			if s.GetName() != sources[i].GetName() || s.GetText() != sources[i].GetText() {
				t.Errorf("document %s came back changed", s.GetName())
			}
		}
	}
	same()
	c.stop(c.members[0])
	c.start(c.members[0])
	same()

	sources[1].Text += "#"
	_, err := admin(t, c.leader()).ApplyRules(ctx, &quoratev1.ApplyRulesRequest{Sources: sources})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "b.yaml") || !strings.Contains(err.Error(), "larger than 4 MiB") {
		t.Errorf("one byte more: have %v, want INVALID_ARGUMENT that names the document and the limit", err)
	}
}

func TestRegionsComeAndGo(t *testing.T) {
	c := newCluster(t, 1)
	c.rules(document)
	client, ctx := admin(t, c.members[0]), context.Background()
	eu := newAgent(t, c, "eu", "eu-1")
	eu.feed(ada)
	if resp, err := client.AddRegion(ctx, &quoratev1.AddRegionRequest{Name: "ap", Weight: 2}); err != nil || !resp.GetChanged() {
		t.Fatalf("add: have %v, %v", resp, err)
	}
	if resp, err := client.AddRegion(ctx, &quoratev1.AddRegionRequest{Name: "ap", Weight: 2}); err != nil || resp.GetChanged() {
		t.Errorf("add again: have %v, %v", resp, err)
	}
	if _, err := client.AddRegion(ctx, &quoratev1.AddRegionRequest{Name: "", Weight: 2}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("add a region without a name: have %v", err)
	}
	if _, err := client.RemoveRegion(ctx, &quoratev1.RemoveRegionRequest{Name: "ap"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("remove before draining: have %v", err)
	}
	if _, err := client.DrainRegion(ctx, &quoratev1.DrainRegionRequest{Name: "moon"}); status.Code(err) != codes.NotFound {
		t.Errorf("drain a stranger: have %v", err)
	}
	if _, err := client.DrainRegion(ctx, &quoratev1.DrainRegionRequest{Name: "ap"}); err != nil {
		t.Errorf("drain: %v", err)
	}
	if resp, err := client.RemoveRegion(ctx, &quoratev1.RemoveRegionRequest{Name: "ap"}); err != nil || !resp.GetChanged() {
		t.Errorf("remove: have %v, %v", resp, err)
	}
	var resp *quoratev1.ListRegionsResponse
	eventually(t, "the lease is confirmed", func() bool {
		eu.must(hungry(ada, eu))
		var err error
		if resp, err = client.ListRegions(ctx, &quoratev1.ListRegionsRequest{}); err != nil || len(resp.GetRegions()) != 2 {
			t.Fatalf("have %v, %v", resp, err)
		}
		return resp.GetRegions()[0].GetLeases() == 1
	})
	e, u := resp.GetRegions()[0], resp.GetRegions()[1]
	if e.GetName() != "eu" || e.GetSession() == 0 || e.GetIncarnation() != "store-eu" || e.GetHeardUs() < 0 || len(e.GetAgents()) != 1 || e.GetLeases() != 1 || e.GetDraining() {
		t.Errorf("eu: have %v", e)
	}
	if u.GetName() != "us" || u.GetSession() != 0 || u.GetHeardUs() != -1 || u.GetLeases() != 0 {
		t.Errorf("us: have %v", u)
	}
}

func TestLeasesAreListedAndExplained(t *testing.T) {
	c := newCluster(t, 1)
	c.rules(document)
	client, ctx := admin(t, c.members[0]), context.Background()
	explain := func(entries ...string) *quoratev1.ExplainResponse {
		t.Helper()
		req := &quoratev1.ExplainRequest{Domain: "api"}
		for i := 0; i < len(entries); i += 2 {
			req.Entries = append(req.Entries, &quoratev1.Entry{Key: entries[i], Value: entries[i+1]})
		}
		resp, err := client.Explain(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	eu, us := newAgent(t, c, "eu", "eu-1"), newAgent(t, c, "us", "us-1")
	eventually(t, "both adopt the rules", func() bool {
		eu.must()
		us.must()
		rules, err := client.GetRules(ctx, &quoratev1.GetRulesRequest{})
		return err == nil && len(rules.GetOutstanding().GetRegions()) == 0
	})
	unseen := explain("user", "bob").GetLimits()[0]
	if unseen.GetAccountOpen() || unseen.GetAccount().GetPool().GetBurstMicrotokens() != 90*int64(quota.Token) || len(unseen.GetAccount().GetHolders()) != 2 ||
		unseen.GetAccount().GetHolders()[0].GetStandingShare().GetBurstMicrotokens() != 5*int64(quota.Token) {
		t.Errorf("a key that nobody has seen: have %v", unseen)
	}
	eu.feed(ada)
	list, err := client.ListLeases(ctx, &quoratev1.ListLeasesRequest{Domain: "api", Region: "eu"})
	if err != nil || len(list.GetAccounts()) != 1 || list.GetTotalAccounts() != 1 {
		t.Fatalf("have %v, %v", list, err)
	}
	if a := list.GetAccounts()[0]; a.GetKey() != string(ada) || a.GetDomain() != "api" || a.GetDescriptor_() != "user=ada" || len(a.GetHolders()) != 1 {
		t.Errorf("have %v", a)
	}
	for _, none := range []*quoratev1.ListLeasesRequest{{Domain: "other"}, {Region: "us"}} {
		if list, err := client.ListLeases(ctx, none); err != nil || len(list.GetAccounts()) != 0 {
			t.Errorf("%v: have %v, %v", none, list, err)
		}
	}
	var limit *quoratev1.ExplainedLimit
	eventually(t, "eu is denied because the limit is used up", func() bool {
		eu.must(hungry(ada, eu))
		us.must()
		limit = explain("user", "ada").GetLimits()[0]
		return limit.GetDemand()[0].GetReason() == "global_exhausted" && limit.GetAccount().GetHolders()[0].GetHoldsLease()
	})
	d := limit.GetDemand()
	if !limit.GetAccountOpen() || limit.GetRule() != "api/user" || d[0].GetRegion() != "eu" || d[0].GetArrivalsPerS() < 100 || d[0].GetDeniedPerS() <= 0 ||
		d[1].GetRegion() != "us" || d[1].GetReason() != "" || d[1].GetReportedUs() != -1 {
		t.Errorf("have %v", limit)
	}
	if limit.GetAlgorithm() != "token_bucket" || limit.GetShape() {
		t.Errorf("have algorithm %q, shape %v", limit.GetAlgorithm(), limit.GetShape())
	}
	if even := explain("even", "x").GetLimits()[0]; even.GetAlgorithm() != "leaky_bucket" || !even.GetShape() {
		t.Errorf("a shaped limit: have %v", even)
	}
	if free := explain("free", "x"); len(free.GetLimits()) != 1 || !free.GetLimits()[0].GetUnlimited() {
		t.Errorf("unlimited: have %v", free)
	}
	if none := explain("typo", "x"); len(none.GetLimits()) != 0 || len(none.GetConsidered()) == 0 {
		t.Errorf("no rule: have %v", none)
	}
	// A region that has gone.
	eu.close()
	eventually(t, "eu is unreachable", func() bool {
		us.must()
		return explain("user", "ada").GetLimits()[0].GetDemand()[0].GetReason() == "coordinator_unreachable"
	})
}

func TestEveryNodeSaysItsStatus(t *testing.T) {
	c := newCluster(t, 3)
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	eu.feed(ada)
	eu.must(hungry(ada, eu))
	l := c.leader()
	var cluster string
	for _, m := range c.members {
		var s *quoratev1.NodeStatusResponse
		eventually(t, m.cfg.Node+" is ready", func() (ok bool) {
			var err error
			s, err = admin(t, m).NodeStatus(context.Background(), &quoratev1.NodeStatusRequest{})
			return err == nil && s.GetReady() && s.GetLeaderAddress() != ""
		})
		if cluster == "" {
			cluster = s.GetCluster()
		}
		if s.GetNode() != m.cfg.Node || s.GetCluster() != cluster || cluster == "" || s.GetLeader() != l.cfg.Node || s.GetLeaderAddress() != l.cfg.GRPCAddr ||
			len(s.GetServers()) != 3 || len(s.GetStateHash()) != 64 || s.GetVersion() != "test" || s.GetTerm() == 0 {
			t.Errorf("%s: have %v", m.cfg.Node, s)
		}
		if (s.WorstHeadroomMicrotokens != nil) != (m == l) || s.GetWorstHeadroomMicrotokens() < 0 {
			t.Errorf("%s: have headroom %v", m.cfg.Node, s.WorstHeadroomMicrotokens)
		}
		if want := map[bool]string{true: "leader", false: "follower"}[m == l]; s.GetRole() != want {
			t.Errorf("%s: have role %s, want %s", m.cfg.Node, s.GetRole(), want)
		}
	}
}

// A lowered limit is taken back from the regions that hold it.
func TestLoweredLimitIsRecalled(t *testing.T) {
	c := newCluster(t, 1)
	c.rules(document)
	eu, us := newAgent(t, c, "eu", "eu-1"), newAgent(t, c, "us", "us-1")
	eventually(t, "eu has most", func() bool {
		eu.must(hungry(ada, eu))
		us.must()
		return eu.usable(ada) > 70*quota.Token
	})
	c.rules(strings.Replace(document, "requests_per_unit: 100", "requests_per_unit: 20", 1))
	client := admin(t, c.members[0])
	started := time.Now()
	eventually(t, "the new limit is in force", func() bool {
		eu.must(hungry(ada, eu))
		us.must()
		resp, err := client.GetRules(context.Background(), &quoratev1.GetRulesRequest{})
		o := resp.GetOutstanding()
		return err == nil && len(o.GetRegions()) == 0 && o.GetOverdrawnAccounts() == 0 && eu.usable(ada) <= 20*quota.Token
	})
	t.Logf("in force after %s", time.Since(started))
}

// Of a limit that counts in windows the newest one with an account is explained: which
// one the agents are in is not known to a coordinator.
func TestOverridesAreExplained(t *testing.T) {
	c := newCluster(t, 1)
	c.rules("domain: api\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 100}}\n  - {key: fixed, allow_override: false, rate_limit: {unit: day, requests_per_unit: 100}}\n")
	client, ctx := admin(t, c.members[0]), context.Background()
	for _, tt := range []struct{ entry, rule, key, why string }{
		{"user", "api/user", "api|user=ada##override+60+7", "takes the place of the rule's: 7 per minute"},
		{"guest", "api#override", "api|guest=ada##override+60+7", "no rule matches, so the request's own limit counts: 7 per minute"},
		{"fixed", "api/fixed", "api|fixed=ada", "is ignored: the rule `api/fixed` has `allow_override: false`"},
	} {
		resp, err := client.Explain(ctx, &quoratev1.ExplainRequest{Domain: "api", Entries: []*quoratev1.Entry{{Key: tt.entry, Value: "ada"}}, Override: "7/minute"})
		if err != nil || len(resp.GetLimits()) != 1 {
			t.Fatalf("%s: have %v, %v", tt.entry, resp, err)
		}
		l, said := resp.GetLimits()[0], resp.GetConsidered()
		if l.GetRule() != tt.rule || l.GetAccount().GetKey() != tt.key || !strings.Contains(said[len(said)-1], tt.why) {
			t.Errorf("%s: have %v", tt.entry, resp)
		}
		if tt.entry != "fixed" && l.GetAccount().GetPool().GetBurstMicrotokens() != 7*int64(quota.Token) {
			t.Errorf("%s: have %v, want all of it in the pool", tt.entry, l)
		}
	}
	_, err := client.Explain(ctx, &quoratev1.ExplainRequest{Domain: "api", Entries: []*quoratev1.Entry{{Key: "user", Value: "ada"}}, Override: "7/fortnight"})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "give one of second, minute") {
		t.Errorf("have %v", err)
	}
}

func TestWindowsAreExplained(t *testing.T) {
	c := newCluster(t, 1)
	c.rules(`domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 100, quota: {algorithm: fixed_window}}
`)
	client, ctx := admin(t, c.members[0]), context.Background()
	explain := func() *quoratev1.ExplainedLimit {
		t.Helper()
		resp, err := client.Explain(ctx, &quoratev1.ExplainRequest{Domain: "api", Entries: []*quoratev1.Entry{{Key: "user", Value: "ada"}}})
		if err != nil || len(resp.GetLimits()) != 1 {
			t.Fatalf("have %v, %v", resp, err)
		}
		return resp.GetLimits()[0]
	}
	if l := explain(); l.GetAccountOpen() || l.GetAccount().GetKey() != "api|user=ada" || l.GetAccount().GetPool().GetBurstMicrotokens() != 90*int64(quota.Token) {
		t.Errorf("no window has an account: have %v", l)
	}
	eu := newAgent(t, c, "eu", "eu-1")
	const monday, tuesday = quota.Key("api|user=ada##1764547200+86400"), quota.Key("api|user=ada##1764633600+86400")
	for _, k := range []quota.Key{tuesday, monday, "api|user=ada2##1764720000+86400"} {
		eu.feed(k)
	}
	var limit *quoratev1.ExplainedLimit
	eventually(t, "the window is spent", func() bool {
		eu.must(hungry(tuesday, eu))
		limit = explain()
		return limit.GetAccountOpen() && limit.GetAccount().GetPoolLevelMicrotokens() == 0 && limit.GetDemand()[0].GetReason() == "global_exhausted"
	})
	if limit.GetAccount().GetKey() != string(tuesday) || limit.GetAccount().GetLimit().GetBurstMicrotokens() != 100*int64(quota.Token) {
		t.Errorf("have %v, want the newer of two windows", limit)
	}
}
