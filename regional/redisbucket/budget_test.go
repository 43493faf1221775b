package redisbucket

import (
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/lease"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

const budgetRules = `
domain: api
descriptors:
- {key: user, rate_limit: {unit: day, requests_per_unit: 1000, quota: {standing_share: 1}}}
- {key: ip, rate_limit: {unit: day, requests_per_unit: 1000, quota: {standing_share: 1}}}
- key: two
  rate_limits:
  - {name: hourly, unit: hour, requests_per_unit: 100, quota: {standing_share: 1}}
  - {name: daily, unit: day, requests_per_unit: 1000, quota: {standing_share: 1}}
- {key: dark, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1000, quota: {standing_share: 1}}}
- {key: spent, rate_limit: {unit: day, requests_per_unit: 1, quota: {standing_share: 1}}}
- {key: zero, rate_limit: {unit: day, requests_per_unit: 0}}
- {key: free, rate_limit: {unlimited: true}}
`

// executed returns how often the server has executed each command, those called
// by scripts included and INFO itself not.
func executed(t *testing.T, r *redistest.Server) map[string]int {
	t.Helper()
	info, err := r.Do("INFO", "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	n := make(map[string]int)
	for line := range strings.Lines(info) {
		rest, ok := strings.CutPrefix(line, "cmdstat_")
		name, rest, found := strings.Cut(rest, ":calls=")
		if count, _, _ := strings.Cut(rest, ","); ok && found && name != "info" {
			if n[name], err = strconv.Atoi(count); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// decider returns an enforcer on s that has adopted doc, without any loop beside it.
func decider(t *testing.T, s *Store, doc string) *enforce.Enforcer {
	t.Helper()
	ctx := t.Context()
	c := quota.Config{Version: 1, Sources: []quota.Source{{Name: "rules.yaml", Text: doc}}, Shares: quota.Shares{{Region: "eu", Weight: 1}}}
	blob, err := lease.Encode(c, "eu", nil)
	if err != nil {
		t.Fatal(err)
	}
	st := state(t, s)
	if err := s.MarkFirst(ctx, st.Incarnation); err != nil {
		t.Fatal(err)
	}
	if err := s.Adopt(ctx, st.Incarnation, c.Version, blob); err != nil {
		t.Fatal(err)
	}
	st = connected(t, s)
	cur, prev, err := s.Config(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a, err := lease.Adopt("eu", 0, st, cur, prev)
	if err != nil {
		t.Fatal(err)
	}
	e := enforce.New(enforce.Config{Store: s})
	e.Adopt(a)
	e.SetView(enforce.View{Region: st.Region, Now: st.Now, Agents: 1})
	return e
}

// One decision is one script call, however many limits it counts; only shadow
// rules, which must never deny, have a call of their own.
func TestCommandBudgetOfADecision(t *testing.T) {
	r := redistest.Run(t)
	s := openAt(t, r.URL(), nil)
	e := decider(t, s, budgetRules)
	decide := func(over bool, keys ...string) {
		t.Helper()
		req := enforce.Request{Domain: "api"}
		for _, k := range keys {
			req.Descriptors = append(req.Descriptors, enforce.Descriptor{Entries: []rules.Entry{{Key: k, Value: "x"}}})
		}
		d, err := e.Decide(t.Context(), time.Hour, req)
		if err != nil || d.Over != over || d.Degraded {
			t.Fatalf("%v: have %+v, %v, want over %v", keys, d, err, over)
		}
	}
	decide(false, "spent")
	for _, tc := range []struct {
		reason string
		keys   []string
		over   bool
		want   map[string]int
	}{
		{"one limit", []string{"user"}, false, map[string]int{"evalsha": 1, "time": 1, "hmget": 2, "hset": 1, "pexpire": 1}},
		{"two descriptors", []string{"user", "ip"}, false, map[string]int{"evalsha": 1, "time": 1, "hmget": 3, "hset": 2, "pexpire": 2}},
		{"two limits of one rule", []string{"two"}, false, map[string]int{"evalsha": 1, "time": 1, "hmget": 3, "hset": 2, "pexpire": 2}},
		{"the same descriptor twice", []string{"user", "user"}, false, map[string]int{"evalsha": 1, "time": 1, "hmget": 2, "hset": 1, "pexpire": 1}},
		{"a denial writes nothing", []string{"user", "spent"}, true, map[string]int{"evalsha": 1, "time": 1, "hmget": 3}},
		{"a shadow rule beside it", []string{"user", "dark"}, false, map[string]int{"evalsha": 2, "time": 2, "hmget": 4, "hset": 2, "pexpire": 2}},
		{"nothing to count", []string{"zero", "free", "nobody"}, true, map[string]int{}},
	} {
		before := executed(t, r)
		decide(tc.over, tc.keys...)
		have := executed(t, r)
		for name, n := range before {
			if have[name] -= n; have[name] == 0 {
				delete(have, name)
			}
		}
		if !maps.Equal(have, tc.want) {
			t.Errorf("%s: have %v, want %v", tc.reason, have, tc.want)
		}
	}
}
