package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// fakeCluster is three Admin services over one state. What it holds is fixed,
// so that the output of commands is, too.
type fakeCluster struct {
	mu      sync.Mutex
	leader  string // empty: there is none
	hanging map[string]bool
	// refuse, when set, is what every call but NodeStatus gets.
	refuse  error
	broken  bool // the nodes disagree and have seen the bound broken
	version uint64
	sources []*quoratev1.Source
	nodes   map[string]*fakeNode
	stop    chan struct{} // closed at the end, for calls that hang
}

type fakeNode struct {
	quoratev1.UnimplementedAdminServer
	cluster *fakeCluster
	name    string
	address string
	server  *grpc.Server
}

const firstRules = `domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 1000}
  - key: ip
    rate_limit: {unit: minute, requests_per_unit: 5}
`

func startCluster() (*fakeCluster, error) {
	c := &fakeCluster{
		leader: "n1", version: 3, hanging: map[string]bool{}, nodes: map[string]*fakeNode{}, stop: make(chan struct{}),
		sources: []*quoratev1.Source{{Name: "api.yaml", Text: firstRules}},
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		n := &fakeNode{cluster: c, name: name, address: l.Addr().String(), server: grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))} // as the coordinator's
		quoratev1.RegisterAdminServer(n.server, n)
		c.nodes[name] = n
		go n.server.Serve(l) //nolint:errcheck // ends with close
	}
	return c, nil
}

func (c *fakeCluster) close() {
	close(c.stop)
	for _, n := range c.nodes {
		n.server.Stop()
	}
}

func (c *fakeCluster) endpoints() []string {
	return []string{c.nodes["n1"].address, c.nodes["n2"].address, c.nodes["n3"].address}
}

// set changes the cluster by a word of a test script.
func (c *fakeCluster) set(word string, args ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case word == "leader" && len(args) == 1:
		c.leader = args[0]
	case word == "no-leader":
		c.leader = ""
	case word == "hang" && len(args) == 1:
		c.hanging[args[0]] = true
	case word == "stop" && len(args) == 1:
		go c.nodes[args[0]].server.Stop() // waits for calls that wait for mu
		for {
			conn, err := net.Dial("tcp", c.nodes[args[0]].address)
			if err != nil {
				return nil
			}
			_ = conn.Close()
		}
	case word == "break":
		c.broken = true
	case word == "refuse" && len(args) == 2:
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(`"` + args[0] + `"`)); err != nil {
			return err
		}
		c.refuse = status.Error(code, args[1])
	default:
		return fmt.Errorf("fake: unknown word %q with %d arguments", word, len(args))
	}
	return nil
}

// lead returns what a call gets that only the leader answers, nil if n leads.
// Without error the caller holds the lock.
func (n *fakeNode) lead(ctx context.Context) error {
	c := n.cluster
	c.mu.Lock()
	if c.hanging[n.name] {
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-c.stop:
		}
		return status.Error(codes.Unavailable, "hung up")
	}
	if c.refuse != nil {
		defer c.mu.Unlock()
		return c.refuse
	}
	if c.leader != n.name {
		defer c.mu.Unlock()
		hint := &quoratev1.LeaderHint{Node: c.leader}
		if c.leader != "" {
			hint.Address = c.nodes[c.leader].address
		}
		s, err := status.New(codes.FailedPrecondition, "not the leader").WithDetails(hint)
		if err != nil {
			return err
		}
		return s.Err()
	}
	return nil
}

func (n *fakeNode) GetRules(ctx context.Context, _ *quoratev1.GetRulesRequest) (*quoratev1.GetRulesResponse, error) {
	if err := n.lead(ctx); err != nil {
		return nil, err
	}
	defer n.cluster.mu.Unlock()
	return &quoratev1.GetRulesResponse{RulesVersion: n.cluster.version, ConfigVersion: 9, Sources: n.cluster.sources}, nil
}

func (n *fakeNode) ApplyRules(ctx context.Context, q *quoratev1.ApplyRulesRequest) (*quoratev1.ApplyRulesResponse, error) {
	if err := n.lead(ctx); err != nil {
		return nil, err
	}
	c := n.cluster
	defer c.mu.Unlock()
	if q.IfVersion != nil && q.GetIfVersion() != c.version {
		return nil, status.Errorf(codes.Aborted, "the rules are at version %d, not %d", c.version, q.GetIfVersion())
	}
	var sources []quota.Source
	for _, s := range q.GetSources() {
		sources = append(sources, quota.Source{Name: s.GetName(), Text: s.GetText()})
	}
	if _, err := rules.Parse(sources); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	changed := !slices.EqualFunc(q.GetSources(), c.sources, func(a, b *quoratev1.Source) bool {
		return a.GetName() == b.GetName() && a.GetText() == b.GetText()
	})
	a := &quoratev1.ApplyRulesResponse{RulesVersion: c.version, ConfigVersion: 9, Changed: changed}
	if changed && !q.GetDryRun() {
		c.version++
		c.sources = q.GetSources()
		a.RulesVersion, a.ConfigVersion = c.version, 10
		a.Outstanding = &quoratev1.Outstanding{Regions: []string{"eu", "us"}, OverdrawnAccounts: 1, InForceWithinUs: 11_000_000}
	}
	return a, nil
}

func (n *fakeNode) ListRegions(ctx context.Context, _ *quoratev1.ListRegionsRequest) (*quoratev1.ListRegionsResponse, error) {
	if err := n.lead(ctx); err != nil {
		return nil, err
	}
	defer n.cluster.mu.Unlock()
	return &quoratev1.ListRegionsResponse{ConfigVersion: 9, Regions: []*quoratev1.Region{
		{Name: "ap", Weight: 1, HeardUs: -1, ConfigConfirmed: 7, ConfigOffered: 9},
		{Name: "eu", Weight: 2, Session: 12, Incarnation: "f00d", HeardUs: 1_234_000, Agents: []string{"eu-1", "eu-2"},
			ConfigConfirmed: 9, ConfigOffered: 9, Leases: 2},
		{Name: "us", Session: 13, Incarnation: "beef", Silent: true, HeardUs: 75_000_000, ConfigConfirmed: 9, ConfigOffered: 9, Draining: true},
	}}, nil
}

func (n *fakeNode) change(ctx context.Context, region string, add bool) (*quoratev1.RegionChange, error) {
	if err := n.lead(ctx); err != nil {
		return nil, err
	}
	defer n.cluster.mu.Unlock()
	known := slices.Contains([]string{"ap", "eu", "us"}, region)
	switch {
	case add:
		return &quoratev1.RegionChange{ConfigVersion: 10, Changed: !known}, nil
	case !known:
		return nil, status.Errorf(codes.NotFound, "there is no region %q", region)
	}
	return &quoratev1.RegionChange{ConfigVersion: 10, Changed: true}, nil
}

func (n *fakeNode) AddRegion(ctx context.Context, q *quoratev1.AddRegionRequest) (*quoratev1.RegionChange, error) {
	return n.change(ctx, q.GetName(), true)
}

func (n *fakeNode) DrainRegion(ctx context.Context, q *quoratev1.DrainRegionRequest) (*quoratev1.RegionChange, error) {
	return n.change(ctx, q.GetName(), false)
}

func (n *fakeNode) RemoveRegion(ctx context.Context, q *quoratev1.RemoveRegionRequest) (*quoratev1.RegionChange, error) {
	if q.GetName() == "eu" && !q.GetForce() {
		return nil, status.Error(codes.FailedPrecondition, `region "eu" has a live session; drain it, stop its agents and wait`)
	}
	return n.change(ctx, q.GetName(), false)
}

func perMinute(rate, burst int64) *quoratev1.Capacity {
	return &quoratev1.Capacity{Rate: &quoratev1.Rate{Microtokens: rate * 1e6, PerUs: 60_000_000}, BurstMicrotokens: burst * 1e6}
}

var alice = &quoratev1.Account{
	Key: "api|user=alice", Domain: "api", Descriptor_: "user=alice", Limit: perMinute(1000, 1000), Pool: perMinute(300, 300),
	PoolLevelMicrotokens: 120_500_000,
	Holders: []*quoratev1.LeaseHolder{
		{Region: "ap", StandingShare: perMinute(33, 33), Lease: perMinute(0, 0), Lent: true, LentTo: "us"},
		{Region: "eu", StandingShare: perMinute(33, 33), Lease: perMinute(400, 400), Session: 12, Epoch: 4, HoldsLease: true,
			InFlight: &quoratev1.Assignment{Key: []byte("api|user=alice"), Session: 12, Epoch: 5, Lease: perMinute(600, 600), CreditMicrotokens: 50_000_000}},
		{Region: "us", StandingShare: perMinute(33, 33), Lease: perMinute(34, 34), Session: 13, Epoch: 6, HoldsLease: true, Borrowed: perMinute(33, 33)},
	},
}

func (n *fakeNode) ListLeases(ctx context.Context, q *quoratev1.ListLeasesRequest) (*quoratev1.ListLeasesResponse, error) {
	if err := n.lead(ctx); err != nil {
		return nil, err
	}
	defer n.cluster.mu.Unlock()
	a := &quoratev1.ListLeasesResponse{TotalAccounts: 1}
	if d := q.GetDomain(); d == "" || d == "api" {
		a.Accounts = append(a.Accounts, alice)
	}
	return a, nil
}

func (n *fakeNode) Explain(ctx context.Context, q *quoratev1.ExplainRequest) (*quoratev1.ExplainResponse, error) {
	if err := n.lead(ctx); err != nil {
		return nil, err
	}
	defer n.cluster.mu.Unlock()
	var words []string
	for _, e := range q.GetEntries() {
		words = append(words, e.GetKey()+"="+e.GetValue())
	}
	a := &quoratev1.ExplainResponse{RulesVersion: n.cluster.version, Considered: []string{"user: " + strings.Join(words, " ")}}
	if o := q.GetOverride(); o != "" {
		a.Considered = append(a.Considered, "override: "+o)
	}
	if q.GetEntries()[0].GetKey() == "user" {
		a.Limits = []*quoratev1.ExplainedLimit{{Rule: "api/user", Account: alice, AccountOpen: true, Algorithm: "token_bucket", Demand: []*quoratev1.RegionDemand{
			{Region: "ap", ReportedUs: -1},
			{Region: "eu", ArrivalsPerS: 25.04, AdmittedPerS: 6.6, DeniedPerS: 18.4, LevelMicrotokens: 400_000, ReportedUs: 120_000, Reason: "lease_empty"},
			{Region: "us", ArrivalsPerS: 1, AdmittedPerS: 1, LevelMicrotokens: 30_000_000, ReportedUs: 2_000_000},
		}}}
	}
	if q.GetEntries()[0].GetKey() == "partner" {
		a.Limits = []*quoratev1.ExplainedLimit{{Rule: "api/partner", Account: alice, Algorithm: "leaky_bucket", Shape: true}}
	}
	return a, nil
}

func (n *fakeNode) NodeStatus(ctx context.Context, _ *quoratev1.NodeStatusRequest) (*quoratev1.NodeStatusResponse, error) {
	c := n.cluster
	c.mu.Lock()
	hangs := c.hanging[n.name]
	defer c.mu.Unlock()
	if hangs {
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-c.stop:
		}
		c.mu.Lock()
		return nil, status.Error(codes.Unavailable, "hung up")
	}
	a := &quoratev1.NodeStatusResponse{
		Node: n.name, Cluster: "c1", Role: "follower", Leader: c.leader, Term: 4, AppliedIndex: 120, CommitIndex: 120,
		StateHash: "00c0ffee00c0ffee", Version: "v0.1.0", Ready: c.leader != "", Accounts: 1,
		Servers: []*quoratev1.Server{
			{Id: "n1", RaftAddress: "h1:7601", Voter: true}, {Id: "n2", RaftAddress: "h2:7601", Voter: true}, {Id: "n3", RaftAddress: "h3:7601", Voter: true},
		},
	}
	if c.leader != "" {
		a.LeaderAddress = c.nodes[c.leader].address
	}
	if c.leader == n.name {
		a.Role = "leader"
		h := int64(2_500_000)
		a.WorstHeadroomMicrotokens = &h
	}
	if c.broken && n.name == "n1" {
		h := int64(-2_000_000)
		a.StateHash, a.WorstHeadroomMicrotokens = "bad0bad0bad0bad0", &h
	}
	return a, nil
}
