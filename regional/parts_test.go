package regional

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/lease"
	"github.com/quorate/quorate/regional/redisbucket"
)

func TestValidateNamesEveryProblem(t *testing.T) {
	err := Config{
		Region: "a\nb", Coordinators: []string{"c1", ":7600"}, Redis: "http://u:secret@h", GRPCAddr: "8081", RedisPrefix: "{x}", Drain: -1, DenialLog: -1,
	}.Validate()
	if !errors.Is(err, ErrConfig) {
		t.Fatalf("want ErrConfig, have %v", err)
	}
	for _, want := range []string{"region:", `"c1"`, `":7600"`, "redis URL is none of", "grpc-addr", "redis-prefix", "drain", "denial-log: -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the password is in:\n%v", err)
	}
	both := Config{Region: "eu", Coordinators: []string{"c1:7600"}, Redis: Embedded, Store: (*redisbucket.Store)(nil), HTTPAddr: ":8080"}
	if err := both.Validate(); !errors.Is(err, ErrConfig) {
		t.Errorf("both a store and Redis: %v", err)
	}
	good := Config{Region: "eu", Coordinators: []string{"c1:7600"}, Redis: Embedded, HTTPAddr: ":8080"}
	if err := good.Validate(); err != nil {
		t.Errorf("good: %v", err)
	}
	if have := good.withDefaults(); have.Agent == "" || have.Agent == good.withDefaults().Agent {
		t.Errorf("default agent names are not unique: %q", have.Agent)
	}
}

// An assignment may arrive in a new incarnation before its configuration has been
// read: what the old one knew of missing buckets must not fill them.
func TestStandingShareOfAnotherIncarnationIsEmpty(t *testing.T) {
	text := "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: second, requests_per_unit: 10, quota: {standing_share: 1}}\n"
	c := quota.Config{Version: 1, Sources: []quota.Source{{Name: "a", Text: text}}, Shares: quota.Shares{{Region: "eu", Weight: 1}}}
	blob, err := lease.Encode(c, "eu", nil)
	if err != nil {
		t.Fatal(err)
	}
	state := bucket.State{Region: bucket.Region{Incarnation: "i1", Config: 1}, First: true}
	adoption, err := lease.Adopt("eu", 0, state, bucket.Adopted{Version: 1, Blob: blob}, bucket.Adopted{})
	if err != nil {
		t.Fatal(err)
	}
	r := &region{enforcer: enforce.New(enforce.Config{})}
	r.enforcer.Adopt(adoption)
	if st := r.Standing("i1", "api|user=a", 5); st.Base != quota.Whole(10) {
		t.Errorf("its own incarnation: have %+v", st)
	}
	if st := r.Standing("i2", "api|user=a", 5); st.Base != 0 || st.Since != 5 || st.Burst != quota.Whole(10) {
		t.Errorf("another incarnation: have %+v", st)
	}
}

func TestMetricsPassTheLinter(t *testing.T) {
	reg := prometheus.NewRegistry()
	a, err := New(Config{Region: "eu", Coordinators: []string{"c1:7600"}, Redis: "redis://127.0.0.1:1", GRPCAddr: "127.0.0.1:0", Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	a.metrics.decisions.WithLabelValues("r", "", "ok", "within_lease")
	a.metrics.unbounded.WithLabelValues("r", "p")
	a.metrics.limit.WithLabelValues("r", "")
	a.metrics.standing.WithLabelValues("r", "")
	a.held.leases["k"] = holding{rule: "r"}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "quorate_") || !strings.HasSuffix(f.GetHelp(), ".") {
			t.Errorf("%s: %q", f.GetName(), f.GetHelp())
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestQuietLetsOneLineThrough(t *testing.T) {
	var q quiet
	now := time.Unix(1000, 0)
	if _, ok := q.speak(now); !ok {
		t.Error("the first line was held back")
	}
	for range 3 {
		if _, ok := q.speak(now.Add(time.Second)); ok {
			t.Error("a line too many")
		}
	}
	if untold, ok := q.speak(now.Add(quietFor)); !ok || untold != 3 {
		t.Errorf("want 3 lines held back, have %d, %v", untold, ok)
	}
}

func TestUnmatchedShapesAreToldOnceAndBounded(t *testing.T) {
	out := new(log)
	u := unmatched{log: slog.New(slog.NewTextHandler(out, nil))}
	for range 3 {
		u.saw("api", []rules.Entry{{Key: "token", Value: "hunter2"}}, false)
		u.saw("nope", nil, true)
	}
	if text := out.String(); strings.Count(text, "\n") != 2 || strings.Contains(text, "hunter2") {
		t.Errorf("have:\n%s", text)
	}
	for i := range 10 * maxShapes {
		u.saw("api", []rules.Entry{{Key: strings.Repeat("x", i)}}, false)
	}
	if have := strings.Count(out.String(), "\n"); have != maxShapes {
		t.Errorf("want %d lines, have %d", maxShapes, have)
	}
}
