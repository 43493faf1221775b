package regional

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/regional/memory"
)

const deniedDoc = `
domain: shop
descriptors:
- key: secret
  rate_limit: {unit: second, requests_per_unit: 10, quota: {burst: 1, standing_share: 1}}
- key: path
  denial_log_values: true
  rate_limits:
  - {name: burst, unit: second, requests_per_unit: 10, quota: {burst: 1, standing_share: 1}}
  - {name: daily, unit: day, requests_per_unit: 1000, quota: {standing_share: 1}}
- {key: zero, rate_limit: {unit: second, requests_per_unit: 0}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 0}}
- {key: free, rate_limit: {unlimited: true}}
`

// recorder keeps the lines that say "denied", each as its attributes.
type recorder struct {
	mu    sync.Mutex
	lines []map[string]string
}

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *recorder) WithGroup(string) slog.Handler            { return r }

func (r *recorder) Handle(_ context.Context, line slog.Record) error {
	if line.Message != "denied" {
		return nil
	}
	all := map[string]string{"level": line.Level.String()}
	line.Attrs(func(a slog.Attr) bool {
		all[a.Key] = fmt.Sprint(a.Value.Any())
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, all)
	return nil
}

// take returns the lines since the last call.
func (r *recorder) take() []map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

// telling starts an agent with doc that logs so many lines a second.
func telling(t *testing.T, doc string, lines int) (*Agent, *recorder, *prometheus.Registry) {
	t.Helper()
	store, err := memory.WithRules("here", doc)
	if err != nil {
		t.Fatal(err)
	}
	to, registry := new(recorder), prometheus.NewRegistry()
	a, err := Open(t.Context(), Config{
		Region: "here", Alone: true, Store: store, DenialLog: lines, Logger: slog.New(to), Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a, to, registry
}

// counted returns the decisions of a rule, of all values and reasons.
func counted(t *testing.T, registry *prometheus.Registry, rule string) (total float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "quorate_decisions_total" && l.GetName() == "rule" && l.GetValue() == rule {
					total += m.GetCounter().GetValue()
				}
			}
		}
	}
	return total
}

// decideFor asks for one descriptor with each of the entries.
func decideFor(t *testing.T, a *Agent, entries ...Entry) Decision {
	t.Helper()
	req := Request{Domain: "shop"}
	for _, e := range entries {
		req.Descriptors = append(req.Descriptors, Descriptor{Entries: []Entry{e}})
	}
	d, err := a.Decide(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDenialsSayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, to, _ := telling(t, deniedDoc, 1)
		decideFor(t, a, Entry{Key: "secret", Value: "hunter2"}, Entry{Key: "path", Value: "/a"}, Entry{Key: "free", Value: "1"}, Entry{Key: "nobody", Value: "1"})
		if lines := to.take(); len(lines) != 0 {
			t.Errorf("nothing was denied: have %v", lines)
		}
		for _, c := range []struct {
			why   string
			entry Entry
			want  map[string]string
		}{
			{"the region is out of tokens, and the value stays unsaid", Entry{Key: "secret", Value: "hunter2"}, map[string]string{
				"rule": "shop/secret", "decision": "over", "request_denied": "true", "reason": "coordinator_unreachable", "scope": "region",
				"source": "standing_share", "descriptor": "[secret]", "retry_after": "100ms",
			}},
			{"the rule allows the value, and a limit has a name", Entry{Key: "path", Value: "/a"}, map[string]string{
				"rule": "shop/path", "decision": "over", "request_denied": "true", "reason": "coordinator_unreachable", "scope": "region",
				"source": "standing_share", "descriptor": "[path=/a]", "limit": "burst", "retry_after": "100ms",
			}},
			{"a limit that admits nobody", Entry{Key: "zero", Value: "1"}, map[string]string{
				"rule": "shop/zero", "decision": "over", "request_denied": "true", "reason": "zero_limit", "scope": "limit",
				"descriptor": "[zero]", "retry_after": "1s",
			}},
			{"a shadow rule only would have denied", Entry{Key: "shadow", Value: "1"}, map[string]string{
				"rule": "shop/shadow", "decision": "shadow", "request_denied": "false", "reason": "shadow", "descriptor": "[shadow]",
			}},
		} {
			time.Sleep(2 * time.Second)
			decideFor(t, a, c.entry) // takes the only token, where there is one
			if c.want["source"] != "" {
				decideFor(t, a, c.entry)
			}
			c.want["level"], c.want["more_since_last_line"] = "INFO", "0"
			if lines := to.take(); len(lines) != 1 || fmt.Sprint(lines[0]) != fmt.Sprint(c.want) {
				t.Errorf("%s:\nhave %v\nwant %v", c.why, lines, c.want)
			}
		}
	})
}

func TestDenialLogIsBoundedAndCountsTheRest(t *testing.T) {
	for _, c := range []struct {
		why            string
		perSecond      int
		lines, told    int
		lastBeforeLine string
	}{
		{"off", 0, 0, 0, ""},
		{"one a second", 1, 3, 201, "99"},
		{"four a second", 4, 9, 201, "24"},
		{"as many as there are denials", 100, 201, 201, "0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, to, _ := telling(t, deniedDoc, c.perSecond)
			for range 201 { // in 2 s, the first and the last moment included
				if d := decideFor(t, a, Entry{Key: "zero", Value: "1"}); !d.Over {
					t.Fatal("a zero limit admitted")
				}
				time.Sleep(10 * time.Millisecond)
			}
			lines := to.take()
			told := 0
			for _, l := range lines {
				var more int
				if _, err := fmt.Sscan(l["more_since_last_line"], &more); err != nil {
					t.Fatal(err)
				}
				told += 1 + more
			}
			if len(lines) != c.lines || told != c.told {
				t.Errorf("%s: want %d lines of %d denials, have %d of %d", c.why, c.lines, c.told, len(lines), told)
			}
			if len(lines) > 0 && lines[len(lines)-1]["more_since_last_line"] != c.lastBeforeLine {
				t.Errorf("%s: want %s before the last line, have %v", c.why, c.lastBeforeLine, lines[len(lines)-1])
			}
		})
	}
}

func TestLoggedValuesAreShortAndText(t *testing.T) {
	for _, c := range []struct{ why, text, want string }{
		{"as it is", "/a b", "/a b"},
		{"at the limit", strings.Repeat("x", 8), "xxxxxxxx"},
		{"longer", strings.Repeat("x", 9), "xxxxxxxx…"},
		{"cut within a character", "xxxxxxxü", "xxxxxxx\uFFFD…"},
		{"no text", "a\xff\xfeb", "a\uFFFDb"},
	} {
		if have := shortened(c.text, 8); have != c.want || !utf8.ValidString(have) {
			t.Errorf("%s: have %q, want %q", c.why, have, c.want)
		}
	}
}

// The log and the counters speak of the same denials.
func TestDenialLogAgreesWithTheCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, to, registry := telling(t, deniedDoc, MaxDenialLog)
		for range 5 {
			decideFor(t, a, Entry{Key: "zero", Value: "1"})
			time.Sleep(time.Second)
		}
		lines := to.take()
		if have := counted(t, registry, "shop/zero"); len(lines) != 5 || have != 5 {
			t.Errorf("counted %v, told %d", have, len(lines))
		}
		if slices.ContainsFunc(lines, func(l map[string]string) bool { return l["rule"] != "shop/zero" }) {
			t.Errorf("have %v", lines)
		}
	})
}
