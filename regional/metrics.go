package regional

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/lease"
)

// metrics are the agent's own. Labels come from the rule document and from this
// package, which bounds the number of series. Only the label value comes from
// requests, of rules that ask for it, and is bounded by values.
type metrics struct {
	decisions *prometheus.CounterVec
	unbounded *prometheus.CounterVec
	requests  *prometheus.CounterVec
	ok, over  prometheus.Counter // of requests
	failed    prometheus.Counter
	duration  prometheus.Histogram
	delay     prometheus.Histogram
	settled   *prometheus.CounterVec
	uncharged prometheus.Counter
	ahead     prometheus.Counter
	waited    prometheus.Counter
	unknown   prometheus.Counter
	config    prometheus.Gauge
	first     prometheus.Gauge
	deadline  prometheus.Gauge
	ready     prometheus.Gauge
	limit     *prometheus.GaugeVec
	standing  *prometheus.GaugeVec

	// series caches the counters of decisions: looking them up by labels would
	// cost more than the rest of a decision. usual does so for the decisions that
	// nearly all are, of the rules in force that do not tell values apart.
	series sync.Map // seriesKey -> prometheus.Counter
	usual  atomic.Pointer[map[*rules.Rule]*usual]
	values values
	mu     sync.Mutex
	ids    map[string]bool // rules that may have series; guarded by mu
}

// usual are the counters of one rule's admissions.
type usual struct {
	lease, share atomic.Pointer[prometheus.Counter]
}

type seriesKey struct {
	rule     *rules.Rule
	value    string
	decision string
	reason   enforce.Reason
}

func newMetrics(reg prometheus.Registerer, version string, owing func() float64) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_decisions_total",
			Help: "Decisions by rule (none: no rule matched), decision (ok, over, shadow: a shadow rule would have denied) and reason. One for each descriptor. value is empty unless the rule has detailed_metric or value_to_metric; of a rule it has at most 100 values, and other for all further ones. over with lease_empty while other regions are idle means that leases follow demand too slowly.",
		}, []string{"rule", "value", "decision", "reason"}),
		unbounded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_unbounded_admissions_total",
			Help: "Admissions outside the global bound, by rule and the policy that asked for them (on_disconnect_hold, on_disconnect_allow, on_store_failure_allow). Anything but a flat line means that a limit may be overspent right now.",
		}, []string{"rule", "policy"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_requests_total",
			Help: "Requests by result (ok, over, error). error is a request that makes no sense, or one before the first rules; a store that is away is no error.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "quorate_decision_duration_seconds",
			Help:    "Time of one decision without the transport to the caller; those in quorate_allowance_decisions_total, which take about a microsecond, are not in it. Most of it is the call to the region's Redis; what is above cold_start_wait or the Redis timeout points at a busy machine.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
		}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "quorate_delay_seconds",
			Help:    "For how long admitted requests of shaped limits are told to be held back, those that leave at once not counted. Near burst/rate of a limit its queue is full, and what comes next is denied.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60},
		}),
		settled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_settlements_total",
			Help: "Requests settled after the fact, by what became of the difference to their estimate (charged, refunded, none). They are not in quorate_requests_total and quorate_decisions_total. Almost only charged or almost only refunded means that the estimates are off.",
		}, []string{"difference"}),
		uncharged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_uncharged_tokens_total",
			Help: "Tokens of settled requests that no limit was charged, as max_debt had no room for them. When it grows, more is used than the limits know of: raise the estimates or max_debt.",
		}),
		ahead: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_allowance_decisions_total",
			Help: "Requests admitted by tokens that this agent drew ahead, without a call to the region's Redis. Its part of quorate_requests_total is the work that Redis is spared.",
		}),
		waited: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_cold_start_waits_total",
			Help: "Requests that waited for the first lease of their key. When it grows steadily, limits are so small that they have no standing share in this region.",
		}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_unknown_domain_total",
			Help: "Requests for a domain that no rule document has; they are admitted. The log names such domains once.",
		}),
		config:   gauge("quorate_config_version", "Version of the rules and share table in force. Agents that stay behind the coordinator's version cannot reach it."),
		first:    gauge("quorate_first_incarnation", "1 while the region's Redis has never lost its data. At 0 its buckets began empty when the present incarnation began."),
		deadline: gauge("quorate_lease_deadline_seconds", "Time until all leases of the region end unless they are renewed, when it was last read. It saws between about half the session's TTL and the TTL; at 0 each rule's on_disconnect decides."),
		ready:    gauge("quorate_ready", "1 while /readyz says yes."),
		limit: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "quorate_limit_tokens_per_second",
			Help: "Rate of the whole limit of one key, by rule and limit name (empty for a single limit).",
		}, []string{"rule", "limit"}),
		standing: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "quorate_standing_share_tokens_per_second",
			Help: "Rate of the part of the limit that this region owns without asking, by rule and limit name. 0 means that the first request of a key has to wait for a lease.",
		}, []string{"rule", "limit"}),
		ids: make(map[string]bool),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "quorate_build_info", Help: "1, with the version of this agent.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	reg.MustRegister(m.decisions, m.unbounded, m.requests, m.duration, m.delay, m.settled, m.uncharged, m.ahead, m.waited, m.unknown, m.config, m.first, m.deadline, m.ready,
		m.limit, m.standing, build, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "quorate_debt_keys",
			Help: "Keys admitted while the region's Redis was away and not charged to it yet. It falls to 0 within seconds after Redis is back.",
		}, owing))
	m.usual.Store(new(map[*rules.Rule]*usual))
	m.ok, m.over, m.failed = m.requests.WithLabelValues("ok"), m.requests.WithLabelValues("over"), m.requests.WithLabelValues("error")
	for _, r := range []string{"charged", "refunded", "none"} {
		m.settled.WithLabelValues(r)
	}
	return m
}

// decided counts one decision on req. took is 0 where the time was not taken.
func (m *metrics) decided(req *enforce.Request, d *enforce.Decision, err error, took time.Duration) {
	if took > 0 {
		m.duration.Observe(took.Seconds())
	}
	switch {
	case err != nil:
		m.failed.Inc()
		return
	case req.Settle:
		m.settle(req, d)
		return
	case d.Over:
		m.over.Inc()
	default:
		m.ok.Inc()
	}
	if d.FromAllowance {
		m.ahead.Inc()
	}
	if d.Delay > 0 {
		m.delay.Observe(d.Delay.Seconds())
	}
	if d.Waited {
		m.waited.Inc()
	}
	if d.UnknownDomain {
		m.unknown.Inc()
	}
	usual := *m.usual.Load()
	for i := range d.Statuses {
		s := &d.Statuses[i]
		if s.Uncharged > 0 {
			m.uncharged.Add(float64(s.Uncharged) / float64(quota.Token))
		}
		cached := usual[s.Rule].of(s)
		if cached != nil {
			if c := cached.Load(); c != nil {
				(*c).Inc()
				continue
			}
		}
		c := m.counter(s, req.Descriptors[i].Entries)
		if cached != nil {
			cached.Store(&c)
		}
		c.Inc()
	}
}

// of returns the place of the counter of s, nil where it has none.
func (u *usual) of(s *enforce.Status) *atomic.Pointer[prometheus.Counter] {
	switch {
	case u == nil || s.Over || s.Shadowed:
		return nil
	case s.Reason == enforce.WithinLease:
		return &u.lease
	case s.Reason == enforce.StandingShare:
		return &u.share
	}
	return nil
}

// counter returns the counter of decisions like s on a descriptor with these entries.
func (m *metrics) counter(s *enforce.Status, entries []rules.Entry) prometheus.Counter {
	k := seriesKey{rule: s.Rule, decision: "ok", reason: s.Reason}
	if s.Rule != nil {
		k.value = m.values.of(s.Rule, entries)
	}
	switch {
	case s.Shadowed:
		k.decision = "shadow"
	case s.Over:
		k.decision = "over"
	}
	c, ok := m.series.Load(k)
	if !ok {
		id := "none"
		if s.Rule != nil {
			id = s.Rule.ID
		}
		c, _ = m.series.LoadOrStore(k, m.decisions.WithLabelValues(id, k.value, k.decision, string(k.reason)))
	}
	return c.(prometheus.Counter)
}

// settle counts one settlement.
func (m *metrics) settle(req *enforce.Request, d *enforce.Decision) {
	difference := "none"
	switch first := &req.Descriptors[0]; { // all have the same
	case first.Hits == nil || *first.Hits == 0:
	case first.Refund:
		difference = "refunded"
	default:
		difference = "charged"
	}
	m.settled.WithLabelValues(difference).Inc()
	for i := range d.Statuses {
		m.uncharged.Add(float64(d.Statuses[i].Uncharged) / float64(quota.Token))
	}
}

// region publishes what was read of the region.
func (m *metrics) region(s bucket.State) {
	left := 0.0
	if s.Session != 0 && s.Deadline > s.Now {
		left = (s.Deadline - s.Now).Duration().Seconds()
	}
	m.deadline.Set(left)
	first := 0.0
	if s.First {
		first = 1
	}
	m.first.Set(first)
}

// adopted publishes the limits in force and forgets the rules that are gone.
func (m *metrics) adopted(a *lease.Adoption) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.config.Set(float64(a.Version))
	m.limit.Reset()
	m.standing.Reset()
	now := make(map[string]bool)
	counters := make(map[*rules.Rule]*usual)
	for _, id := range m.values.adopted(a.Set.Rules()) {
		m.decisions.DeletePartialMatch(prometheus.Labels{"rule": id})
	}
	for _, r := range a.Set.Rules() {
		now[r.ID] = true
		if !r.MetricValues() {
			counters[r] = new(usual)
		}
		for i := range r.Limits {
			l := &r.Limits[i]
			m.limit.WithLabelValues(r.ID, l.Name).Set(l.Steady(l.Capacity).PerSecond())
			m.standing.WithLabelValues(r.ID, l.Name).Set(l.Steady(l.StandingShare(a.Region, a.Shares)).PerSecond())
		}
	}
	for _, r := range a.Set.Unmatched() {
		now[r.ID] = true
	}
	for id := range m.ids {
		if !now[id] {
			m.decisions.DeletePartialMatch(prometheus.Labels{"rule": id})
			m.unbounded.DeletePartialMatch(prometheus.Labels{"rule": id})
		}
	}
	m.ids = now
	// A decision that began under the old rules may put one of them back; the
	// next change clears it.
	m.series.Clear()
	m.usual.Store(&counters)
}

// policy returns the policy that admitted s outside the bound, empty for none.
func policy(s *enforce.Status) string {
	if s.Over || s.Shadowed || s.Limit == nil {
		return ""
	}
	switch {
	case s.Reason == enforce.StoreDegraded && s.Limit.OnStoreFailure == rules.OnStoreFailureAllow:
		return "on_store_failure_allow"
	case s.Reason == enforce.CoordinatorUnreachable && s.Limit.OnDisconnect == rules.OnDisconnectAllow:
		return "on_disconnect_allow"
	case s.Reason == enforce.CoordinatorUnreachable && s.Limit.OnDisconnect == rules.OnDisconnectHold:
		return "on_disconnect_hold"
	}
	return ""
}
