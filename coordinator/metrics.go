package coordinator

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/planner"
	"github.com/quorate/quorate/coordinator/quota"
)

// Outcomes of proposals.
const (
	outcomeApplied    = "applied"
	outcomeNotApplied = "not_applied"
	outcomeUnknown    = "unknown"
	outcomeRefused    = "refused"
)

// metrics are counted as things happen; the rest is read at each scrape.
type metrics struct {
	node          *Node
	proposals     *prometheus.CounterVec
	ops           *prometheus.CounterVec
	commitSeconds prometheus.Histogram
	terms         prometheus.Counter
	rulesFailures prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, n *Node) *metrics {
	m := &metrics{
		node: n,
		proposals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_proposals_total",
			Help: "Log entries proposed by this node while it led, by outcome: applied, not_applied, unknown (no answer in time; planned again), refused (of a deposed leader). About one a second when nothing changes, whatever the number of leases.",
		}, []string{"outcome"}),
		ops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_operations_total",
			Help: "Operations in the entries that this node proposed, by outcome: applied, or refused by the ledger. Refused ones are plans that the state had overtaken; a steady stream of them is worth a look.",
		}, []string{"outcome"}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "quorate_commit_duration_seconds",
			Help:    "Time from proposing an entry until it is applied here. About a round trip to the nearer follower and its disk; lease changes wait for it, decisions never do.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
		terms: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_terms_led_total",
			Help: "Terms that this node has led since it started. More than a few a day mean that nodes or the network between them are unstable.",
		}),
		rulesFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_rules_failures_total",
			Help: "Times that the rules directory was found with a mistake. The rules in force stay, and a new cluster has none; the log has file, line and column.",
		}),
	}
	for _, o := range []string{outcomeApplied, outcomeNotApplied, outcomeUnknown, outcomeRefused} {
		m.proposals.WithLabelValues(o)
	}
	for _, o := range []string{outcomeApplied, outcomeRefused} {
		m.ops.WithLabelValues(o)
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "quorate_build_info", Help: "Always 1; the label has the version of this binary.",
		ConstLabels: prometheus.Labels{"version": n.cfg.Version},
	})
	info.Set(1)
	reg.MustRegister(m.proposals, m.ops, m.commitSeconds, m.terms, m.rulesFailures, info, state{n})
	return m
}

// operations counts the outcomes of the operations of an entry.
func (m *metrics) operations(errs []error) {
	refused := 0
	for _, err := range errs {
		if err != nil {
			refused++
		}
	}
	m.ops.WithLabelValues(outcomeRefused).Add(float64(refused))
	m.ops.WithLabelValues(outcomeApplied).Add(float64(len(errs) - refused))
}

// state reads the node at each scrape.
type state struct{ n *Node }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	descReady       = desc("quorate_ready", "1 while /readyz says ok: the node knows a leader, is close to what is committed and, with a rules directory, rules are in force.")
	descLeading     = desc("quorate_leading", "1 at the node that leads and serves. The sum over all nodes is 1, but for a moment after an election.")
	descTerm        = desc("quorate_raft_term", "Raft term of this node. Equal on all nodes but for moments.")
	descCommit      = desc("quorate_raft_commit_index", "Last log index known to be committed.")
	descApplied     = desc("quorate_raft_applied_index", "Last log index given to the ledger. Far below the commit index: this node is catching up.")
	descVoters      = desc("quorate_raft_voters", "Nodes with a vote. Nothing removes a dead one by itself.")
	descTolerance   = desc("quorate_raft_failure_tolerance", "Voters that may fail at one time before nothing can be committed any more.")
	descClock       = desc("quorate_ledger_clock_seconds_total", "The ledger clock. It runs at 1 s/s, and stands still while there is no leader; so do the pools.")
	descRegions     = desc("quorate_regions", "Registered regions.")
	descSessions    = desc("quorate_sessions", "Regions with a live session. Fewer than regions: one is cut off or has no agent.")
	descSilent      = desc("quorate_sessions_silent", "Live sessions marked silent: they end soon unless they are heard.")
	descAccounts    = desc("quorate_accounts", "Keys that outgrew the standing shares. Each costs memory; keys that calm down disappear again.")
	descOverdrawn   = desc("quorate_overdrawn_accounts", "Accounts whose pool is below zero after a limit was lowered: leases are being recalled. Stays above zero: a region does not answer.")
	descConfig      = desc("quorate_config_version", "Version of rules and share table together.")
	descRules       = desc("quorate_rules_version", "Version of the rules.")
	descOutstanding = desc("quorate_config_outstanding_regions", "Regions that have not confirmed the newest configuration.")
	descRulesOK     = desc("quorate_rules_in_force", "1 while the rules directory, as it is now, is in force; 0 with a mistake in it, or while a leader is awaited: alert on 0 for a minute.")
	descSilence     = desc("quorate_region_silence_seconds", "Time since an agent of the region was last heard; at the leader only. Beyond the TTL of 10 s the region serves its standing share.", "region")
	descAgents      = desc("quorate_region_agents", "Agents of the region that are connected; at the leader only.", "region")
	descFlights     = desc("quorate_region_assignments_in_flight", "Lease changes on their way to the region; at the leader only. Stays high: the region's store is slow or its agents are stuck.", "region")
	descLeased      = desc("quorate_region_leases", "Leases that the region holds beyond its standing shares.", "region")
	descLent        = desc("quorate_region_shares_lent", "Standing shares of the region, of one key each, that are on loan to other regions because it does not use them.", "region")
	descRate        = desc("quorate_rule_leased_tokens_per_second", "Refill rate that regions hold as leases, by rule and region, over all keys of the rule.", "rule", "region")
	descKeys        = desc("quorate_planner_keys", "Keys in the leader's demand book.")
	descHeadroom    = desc("quorate_worst_headroom_tokens", "Smallest distance between what regions reported as admitted and the Bound, over all accounts, in this term; at the leader only. Below zero the Bound was broken: alert on it. It allows for the delay of reports, so small overshoots are not seen.")
)

// Describe implements prometheus.Collector.
func (s state) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descReady, descLeading, descTerm, descCommit, descApplied, descVoters, descTolerance, descClock, descRegions,
		descSessions, descSilent, descAccounts, descOverdrawn, descConfig, descRules, descOutstanding, descRulesOK,
		descSilence, descAgents, descFlights, descLeased, descLent, descRate, descKeys, descHeadroom,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s state) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(descReady, one(s.n.ready() == nil))
	if !s.n.opened.Load() {
		return
	}
	r := s.n.raft.Status()
	voters := 0
	for _, m := range r.Servers {
		if m.Voter {
			voters++
		}
	}
	gauge(descTerm, float64(r.Term))
	gauge(descCommit, float64(r.Commit))
	gauge(descApplied, float64(r.Applied))
	gauge(descVoters, float64(voters))
	gauge(descTolerance, float64(max(0, voters-1)/2))
	if s.n.rules != nil {
		gauge(descRulesOK, one(!s.n.rules.failed.Load()))
	}
	s.n.fsm.View(func(l *ledger.Ledger) { collectLedger(l, gauge, ch) })
	t := s.n.serving.Load()
	gauge(descLeading, one(t != nil))
	if t == nil {
		return
	}
	var contacts []planner.Contact
	var keys int
	var room headroom
	t.with(func(now quota.Micros, _ *ledger.Ledger) {
		contacts, keys = t.memory.Contacts(now), t.memory.Keys()
		room.worst, room.seen = t.headroom.worst, t.headroom.seen
	})
	gauge(descKeys, float64(keys))
	if room.seen {
		gauge(descHeadroom, float64(room.worst)/1e6)
	}
	for _, c := range contacts {
		gauge(descSilence, c.Silence.Duration().Seconds(), c.Region)
		gauge(descAgents, float64(len(c.Agents)), c.Region)
		gauge(descFlights, float64(c.Flights), c.Region)
	}
}

func one(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

// collectLedger reads the replicated state: the same values on every node.
func collectLedger(l *ledger.Ledger, gauge func(*prometheus.Desc, float64, ...string), ch chan<- prometheus.Metric) {
	sessions, silent, outstanding := 0, 0, 0
	for _, r := range l.Regions() {
		if r.Session != nil {
			sessions++
			silent += int(one(r.Session.Silent))
		}
		if r.Confirmed != l.Current().Version {
			outstanding++
		}
	}
	type cell struct{ rule, region string }
	leases, lent, rates := map[string]int{}, map[string]int{}, map[cell]float64{}
	overdrawn := 0
	l.Accounts(func(a *ledger.Account) bool {
		if p := a.Pool(); p.Burst < 0 || p.Rate.Tokens < 0 {
			overdrawn++
		}
		for _, h := range a.Holdings() {
			if h.Leased {
				leases[h.Region]++
				rates[cell{a.Rule(), h.Region}] += a.Limit().Steady(h.Lease).PerSecond()
			}
		}
		for _, n := range a.Loans() {
			lent[n.Lender]++
		}
		return true
	})
	ch <- prometheus.MustNewConstMetric(descClock, prometheus.CounterValue, l.Clock().Duration().Seconds())
	gauge(descRegions, float64(len(l.Regions())))
	gauge(descSessions, float64(sessions))
	gauge(descSilent, float64(silent))
	gauge(descAccounts, float64(l.Len()))
	gauge(descOverdrawn, float64(overdrawn))
	gauge(descConfig, float64(l.Current().Version))
	gauge(descRules, float64(l.Current().RulesVersion))
	gauge(descOutstanding, float64(outstanding))
	for _, r := range l.Regions() {
		gauge(descLeased, float64(leases[r.Name]), r.Name)
		gauge(descLent, float64(lent[r.Name]), r.Name)
	}
	for c, v := range rates {
		gauge(descRate, v, c.rule, c.region)
	}
}
