package faults

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
	"github.com/quorate/quorate/sim/live"
)

// metric sums the series of an agent's counter that have all the labels, which
// are written as in `policy="on_disconnect_allow"`.
func (s *scene) metric(a *live.Agent, name string, labels ...string) float64 {
	s.t.Helper()
	answer, err := http.Get("http://" + a.AdminAddr() + "/metrics")
	s.must("read metrics of "+a.Name, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	s.must("read metrics of "+a.Name, err)
	sum := 0.0
lines:
	for line := range strings.Lines(string(body)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(series, l) {
				continue lines
			}
		}
		v, err := strconv.ParseFloat(value, 64)
		s.must("parse "+line, err)
		sum += v
	}
	return sum
}

// loud fails the test unless the agent says, in a metric and in its log, that a
// rule's policy gives the Bound up.
func (s *scene) loud(a *live.Agent, rule, policy string) {
	s.t.Helper()
	if n := s.metric(a, "quorate_unbounded_admissions_total", `rule="shop/`+rule, `policy="`+policy+`"`); n == 0 {
		s.t.Errorf("rule %s: quorate_unbounded_admissions_total{policy=%q} stayed at 0", rule, policy)
	}
	log, err := os.ReadFile(a.Log())
	s.must("read log of "+a.Name, err)
	if !bytes.Contains(log, []byte("admitting outside the global bound")) {
		s.t.Errorf("agent %s logs nothing of what it admits outside the bound", a.Name)
	}
}

// lease is what a region holds of a track's limit, as the coordinator counts it.
func (s *scene) lease(tr *live.Track, region string) quota.Capacity {
	s.t.Helper()
	request := &quoratev1.ExplainRequest{Domain: tr.Identity.Domain}
	for _, e := range tr.Identity.Entries {
		request.Entries = append(request.Entries, &quoratev1.Entry{Key: e.Key, Value: e.Value})
	}
	answer, err := s.leader().Admin().Explain(s.t.Context(), request)
	s.must("explain", err)
	for _, h := range answer.GetLimits()[0].GetAccount().GetHolders() {
		if h.GetRegion() == region && h.GetHoldsLease() {
			return quota.Capacity{
				Rate:  quota.Rate{Tokens: quota.Tokens(h.GetLease().GetRate().GetMicrotokens()), Per: quota.Micros(h.GetLease().GetRate().GetPerUs())},
				Burst: quota.Tokens(h.GetLease().GetBurstMicrotokens()),
			}
		}
	}
	s.t.Fatalf("region %s holds no lease of %v", region, tr.Identity.Entries)
	return quota.Capacity{}
}
