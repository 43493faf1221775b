package regional

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// K97: a value that a rule hides is in no key of Redis, no log, no metric, no
// reply and no report to the coordinator, whatever way it comes in.
func TestK97HiddenValuesStayInTheProcess(t *testing.T) {
	const secret, perDay = "hunter2-hunter2-hunter2", 4
	server := redistest.Run(t)
	c := startCoordinator(t, fmt.Sprintf(`
domain: api
descriptors:
- key: token
  hash_value: true
  detailed_metric: true
  value_to_metric: true
  denial_log_values: true
  rate_limit: {unit: day, requests_per_unit: %d, quota: {standing_share: 1}}
`, perDay))
	a := startAgent(t, server.URL(), func(cfg *Config) { cfg.DenialLog = MaxDenialLog }, c.addr)
	a.ready(t)
	var seen strings.Builder
	admitted := 0
	for range 2 * perDay {
		resp, err := a.rls.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
			Domain:      "api",
			Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "token", Value: secret}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if resp.GetOverallCode() == rls.RateLimitResponse_OK {
			admitted++
		}
		fmt.Fprintln(&seen, resp)
	}
	if admitted == 0 || admitted > perDay {
		t.Errorf("have %d admitted, want some and at most %d", admitted, perDay)
	}
	if code, header, body := a.get(t, a.http+"/v1/check?domain=api&token="+secret); code != 429 {
		t.Errorf("the same value over HTTP has another key: %d", code)
	} else {
		fmt.Fprintln(&seen, header, body)
	}
	// No rule matches: the log warns of it.
	_, header, body := a.get(t, a.http+"/v1/check?domain=api&other=1&token="+secret)
	fmt.Fprintln(&seen, header, body)

	_, _, explained := a.get(t, a.admin+"/v1/explain?domain=api&token="+secret)
	var x Explanation
	if err := json.Unmarshal([]byte(explained), &x); err != nil {
		t.Fatal(err)
	}
	if want := "api|token==" + rules.Digest(secret); len(x.Limits) != 1 || x.Limits[0].Key != want || x.Limits[0].Record == nil || !x.Over {
		t.Errorf("explain does not find the key %s of the value itself: %s", want, explained)
	}
	_, _, missed := a.get(t, a.admin+"/v1/explain?domain=api&other=1&token="+secret)
	_, _, metrics := a.get(t, a.admin+"/metrics")
	keys, err := server.Do("KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(keys, rules.Digest(secret)) {
		t.Errorf("the digest is in none of the keys\n%s", keys)
	}
	reports := func() string {
		var b strings.Builder
		for _, r := range c.requests() {
			for _, u := range r.Usage {
				fmt.Fprintln(&b, string(u.Key))
			}
		}
		return b.String()
	}
	eventually(t, "the key is reported to the coordinator", func() bool { return strings.Contains(reports(), rules.Digest(secret)) })
	a.stop(t)
	if !strings.Contains(a.log.String(), "other") {
		t.Error("the log has nothing of the descriptor without a rule, so it was not tried")
	}
	for where, text := range map[string]string{
		"keys": keys, "log": a.log.String(), "metrics": metrics, "replies": seen.String(), "explanation": explained + missed, "reports": reports(),
	} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("the secret is in the %s:\n%s", where, text)
		}
	}
}
