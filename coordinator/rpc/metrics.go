package rpc

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	syncs       *prometheus.CounterVec
	syncSeconds prometheus.Histogram
	dropped     prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, open func() float64) metrics {
	m := metrics{
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_syncs_total",
			Help: "Sync requests of agents by outcome: answered, refused (the agent was told why it gets no session), late (no answer in time), failed (the stream ended) or reported (beside one that waits, which wants no answer). Late ones mean that the log or the network between coordinators is slow.",
		}, []string{"outcome"}),
		syncSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "quorate_sync_duration_seconds",
			Help:    "Time to answer a sync, including the leadership check. About one round trip between coordinators; agents ignore answers older than 2 s.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_pushes_dropped_total",
			Help: "Assignments dropped because an agent did not read fast enough. They are repeated with the next answer, so a rising count means late leases, not lost ones.",
		}),
	}
	streams := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quorate_agent_streams",
		Help: "Agents connected to this node. On a follower about zero: agents stay at the leader.",
	}, open)
	for _, o := range []string{"answered", "refused", "late", "failed", "reported"} {
		m.syncs.WithLabelValues(o)
	}
	reg.MustRegister(m.syncs, m.syncSeconds, m.dropped, streams)
	return m
}
