package coordinator

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/quorate/quorate/coordinator/quota"
)

func valid() Config {
	return Config{
		Node: "n1", DataDir: "/tmp/x", RaftAddr: ":7601", GRPCAddr: ":7600", AdminAddr: ":7680",
		InitialCluster: "n1=host1:7601,n2=host2:7601", Regions: map[string]int64{"eu": 1},
	}
}

func TestValidateFindsEveryProblem(t *testing.T) {
	if err := valid().Validate(); err != nil {
		t.Fatalf("a valid configuration: %v", err)
	}
	for _, tt := range []struct {
		reason string
		change func(*Config)
		want   []string
	}{
		{"nothing is set", func(c *Config) { *c = Config{} }, []string{"node: missing", "data-dir: missing", "raft-addr: missing", "grpc-addr: missing", "initial-cluster: missing"}},
		{"addresses", func(c *Config) { c.RaftAddr, c.GRPCAdvertise, c.RaftAdvertise = "x", ":7600", "h:0" }, []string{`raft-addr: "x" is not`, `grpc-advertise: ":7600" is no address`, `raft-advertise: "h:0" is no address`}},
		{"the list", func(c *Config) { c.InitialCluster = "n1=host1" }, []string{`address "host1" of node n1`}},
		{"a node that is not listed", func(c *Config) { c.Node = "n3" }, []string{`node "n3" is not in the list`}},
		{"regions", func(c *Config) { c.Regions = map[string]int64{"": 1, "a": -1, "b\n": 1} }, []string{`regions: ""`, `weight -1 of region "a"`, `regions: "b\n"`}},
		{"timing", func(c *Config) { c.Timing = quota.Timing{TTL: time.Second} }, []string{"timing: ttl 1s"}},
		{"raft", func(c *Config) { c.RaftTimeouts = RaftTimeouts{Heartbeat: time.Second, LeaderLease: 2 * time.Second} }, []string{"raft: leader-lease timeout: 2s is above"}},
		{"half of TLS", func(c *Config) { c.RaftServerTLS = &tls.Config{} }, []string{"raft-tls: certificate, key and CA"}},
		{"negative durations", func(c *Config) { c.Drain, c.RulesPoll = -1, -1 }, []string{"drain: -1ns", "rules-poll: -1ns"}},
	} {
		c := valid()
		tt.change(&c)
		err := c.Validate()
		if !errors.Is(err, ErrConfig) {
			t.Errorf("%s: have %v, want %v", tt.reason, err, ErrConfig)
			continue
		}
		if n := len(strings.Split(err.Error(), "\n")); n != len(tt.want) {
			t.Errorf("%s: have %d problems, want %d: %v", tt.reason, n, len(tt.want), err)
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: have %v, want it to say %q", tt.reason, err, want)
			}
		}
		if _, err := New(c); err == nil {
			t.Errorf("%s: New took it", tt.reason)
		}
	}
}

func TestAddressForAgentsIsDerived(t *testing.T) {
	for _, tt := range []struct{ reason, addr, advertise, want string }{
		{"a port takes the host of the raft address", ":7600", "", "host1:7600"},
		{"and so does an unspecified host", "0.0.0.0:7600", "", "host1:7600"},
		{"a host is used", "10.0.0.1:7600", "", "10.0.0.1:7600"},
		{"what is said counts", ":7600", "public:443", "public:443"},
	} {
		c := valid()
		c.GRPCAddr, c.GRPCAdvertise = tt.addr, tt.advertise
		if have := c.withDefaults().GRPCAdvertise; have != tt.want {
			t.Errorf("%s: have %s, want %s", tt.reason, have, tt.want)
		}
	}
}

// Every metric has a proper name and a help sentence, before and after the node
// leads.
func TestMetricsAreWellFormed(t *testing.T) {
	c := newCluster(t, 1)
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	eu.feed(ada)
	eu.must(hungry(ada, eu))
	fresh, err := New(valid())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*Node{c.leader().node, fresh} {
		families, err := n.cfg.Registerer.(prometheus.Gatherer).Gather()
		if err != nil {
			t.Fatal(err)
		}
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("lint: have %v, %v", problems, err)
		}
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), "quorate_") || !strings.HasSuffix(f.GetHelp(), ".") {
				t.Errorf("metric %s: %s", f.GetName(), f.GetHelp())
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if strings.Contains(l.GetValue(), "ada") {
						t.Errorf("metric %s has a descriptor value in its label %s", f.GetName(), l.GetName())
					}
				}
			}
		}
	}
}
