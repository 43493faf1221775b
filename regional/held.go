package regional

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
)

// held knows the leases that this agent applied in the region's present session,
// summed per rule: another agent of the region may have applied others. It is a
// prometheus.Collector.
type held struct {
	ruleOf func(quota.Key) *rules.Rule

	mu      sync.Mutex
	session quota.SessionID
	leases  map[quota.Key]holding

	count, rate *prometheus.Desc
}

// holding is one lease and the id of its rule.
type holding struct {
	rule string
	rate float64 // tokens a second
}

func newHeld(ruleOf func(quota.Key) *rules.Rule) *held {
	return &held{
		ruleOf: ruleOf, leases: make(map[quota.Key]holding),
		count: prometheus.NewDesc("quorate_leases",
			"Leases that this agent applied in the present session, by rule. Sum over the agents of a region; keys that live on their standing share are not in it.",
			[]string{"rule"}, nil),
		rate: prometheus.NewDesc("quorate_lease_tokens_per_second",
			"Rate of these leases together, by rule. Compare with quorate_limit_tokens_per_second: the part of the limit that demand has moved here, where the rule has one key.",
			[]string{"rule"}, nil),
	}
}

// applied notes the assignments of asks that are done.
func (h *held) applied(asks []bucket.ApplyAsk, done []quota.Applied) {
	if len(done) == 0 {
		return
	}
	byKey := make(map[quota.Key]bucket.ApplyAsk, len(asks))
	for _, a := range asks {
		byKey[a.Assignment.Key] = a
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range done {
		ask := byKey[d.Key]
		a := ask.Assignment
		if d.Session > h.session {
			h.session = d.Session
			clear(h.leases)
		}
		rule := h.ruleOf(d.Key)
		if a.Release || rule == nil || d.Session < h.session {
			delete(h.leases, d.Key)
			continue
		}
		rate := a.Lease.Rate
		if ask.Standing.Window != bucket.NoWindow {
			rate.Tokens = a.Lease.Burst
		}
		h.leases[d.Key] = holding{rule: rule.ID, rate: rate.PerSecond()}
	}
}

// saw forgets the leases when their session has ended.
func (h *held) saw(s bucket.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Session != h.session || s.Deadline <= s.Now {
		clear(h.leases)
	}
}

// Describe implements prometheus.Collector.
func (h *held) Describe(ch chan<- *prometheus.Desc) { ch <- h.count; ch <- h.rate }

// Collect implements prometheus.Collector.
func (h *held) Collect(ch chan<- prometheus.Metric) {
	h.mu.Lock()
	counts, rates := make(map[string]float64), make(map[string]float64)
	for _, l := range h.leases {
		counts[l.rule]++
		rates[l.rule] += l.rate
	}
	h.mu.Unlock()
	for rule, n := range counts {
		ch <- prometheus.MustNewConstMetric(h.count, prometheus.GaugeValue, n, rule)
		ch <- prometheus.MustNewConstMetric(h.rate, prometheus.GaugeValue, rates[rule], rule)
	}
}
