package redisbucket

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what an operator needs to see of the store: is it fast, does it
// fail and how, did it lose its data.
type metrics struct {
	seconds      *prometheus.HistogramVec
	errors       *prometheus.CounterVec
	takes, calls prometheus.Counter
	open         prometheus.Gauge
	incarnations prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "quorate_store_call_seconds",
			Help:    "Time of the regional store's answers, by operation; failures are not in it.",
			Buckets: []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2},
		}, []string{"op"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_store_call_errors_total",
			Help: "Calls to the regional store without an answer, by operation and reason. Their outcome counts as spent.",
		}, []string{"op", "reason"}),
		takes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_store_takes_total",
			Help: "Requests on buckets that were sent to the regional store.",
		}),
		calls: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_store_take_calls_total",
			Help: "Script calls that carried them. quorate_store_takes_total divided by this is how many requests share a call: 1 on a quiet agent, more the busier it is.",
		}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quorate_store_breaker_open",
			Help: "1 while calls to the regional store, in a cluster to some of its partitions, fail fast because it did not answer.",
		}),
		incarnations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_store_incarnations_total",
			Help: "New incarnations of the regional store seen by this agent: each one voids all leases of the region.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.seconds, m.errors, m.takes, m.calls, m.open, m.incarnations)
	}
	return m
}

func (m *metrics) took(op string, d time.Duration) {
	m.seconds.WithLabelValues(op).Observe(d.Seconds())
}

func (m *metrics) failed(op, reason string) { m.errors.WithLabelValues(op, reason).Inc() }

func (m *metrics) flushed(takes, calls int) {
	m.takes.Add(float64(takes))
	m.calls.Add(float64(calls))
}

func (m *metrics) breaker(closed bool) {
	if closed {
		m.open.Set(0)
	} else {
		m.open.Set(1)
	}
}
