package uplink

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/regional/lease"
)

type metrics struct {
	connected   prometheus.Gauge
	session     prometheus.Gauge
	syncs       *prometheus.CounterVec
	duration    prometheus.Histogram
	assignments *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quorate_session_connected",
			Help: "1 while this agent keeps the region's session alive at the coordinator. At 0 for longer than the session's TTL each rule's on_disconnect decides; alert when every agent of a region is at 0.",
		}),
		session: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quorate_session_number",
			Help: "Number of the region's session. Each step means that all leases of the region ended; steps without an outage point at clocks or at two stores.",
		}),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_syncs_total",
			Help: "Syncs with the coordinator by result. redirected is ordinary during a leader change; failed that grows steadily means that the coordinator or the region's store cannot be reached.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "quorate_sync_duration_seconds",
			Help:    "Time from deciding to sync to having done what the answer allows. No request waits for it; it bounds how fast a lease follows demand.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 13),
		}),
		assignments: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_assignments_total",
			Help: "Lease changes that arrived, by result. refused is ordinary for repeats and after a session ended; failed means that the store did not answer, the change is repeated.",
		}, []string{"result"}),
	}
	if r != nil {
		r.MustRegister(m.connected, m.session, m.syncs, m.duration, m.assignments)
	}
	for _, result := range []string{"ok", "redirected", "failed"} {
		m.syncs.WithLabelValues(result)
	}
	for _, result := range []string{"applied", "refused", "failed"} {
		m.assignments.WithLabelValues(result)
	}
	return m
}

func (m *metrics) phase(p lease.Phase) {
	v := 0.0
	if p == lease.Connected {
		v = 1
	}
	m.connected.Set(v)
}

func (m *metrics) synced(d time.Duration, err error) {
	switch {
	case err == nil:
		m.syncs.WithLabelValues("ok").Inc()
		m.duration.Observe(d.Seconds())
	case errors.Is(err, context.Canceled): // shutting down
	case redirected(err) != "":
		m.syncs.WithLabelValues("redirected").Inc()
	default:
		m.syncs.WithLabelValues("failed").Inc()
	}
}

func (m *metrics) applied(asked, done int, err error) {
	m.assignments.WithLabelValues("applied").Add(float64(done))
	result := "failed"
	if refused(err) {
		result = "refused"
	}
	m.assignments.WithLabelValues(result).Add(float64(asked - done))
}
