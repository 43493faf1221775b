package redisbucket

import (
	"context"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// BenchmarkTakeWindow is BenchmarkTake for sliding windows. The moving ones have as
// many admissions in the window as there are takes in its length, and each take finds
// one that is over; those that deny have as many as they say.
func BenchmarkTakeWindow(b *testing.B) {
	for _, tc := range []struct {
		name   string
		kind   bucket.Window
		length quota.Micros
		limit  uint64
		cost   uint64 // of a take that is denied; it waits for so many admissions to be over
	}{
		{"log/moving 10ms", bucket.LogWindow, quota.Second / 100, quota.MaxWhole, 1},
		{"log/moving 1s", bucket.LogWindow, quota.Second, quota.MaxWhole, 1},
		{"log/denied 1000", bucket.LogWindow, day, 1000, 1},
		{"log/denied 10000", bucket.LogWindow, day, 10_000, 1},
		{"log/denied 1000 of 1000", bucket.LogWindow, day, 1000, 1000},
		{"log/denied 10000 of 10000", bucket.LogWindow, day, 10_000, 10_000},
		{"counter", bucket.CounterWindow, quota.Second, quota.MaxWhole, 1},
	} {
		b.Run(tc.name, func(b *testing.B) {
			s := openAt(b, shared.URL(), nil)
			st := state(b, s)
			share := full(per(0, tc.length, tc.limit))
			share.Window = tc.kind
			if tc.limit < quota.MaxWhole {
				for range tc.limit {
					if _, err := s.Take(context.Background(), of(st, ask("k", 1, share))); err != nil {
						b.Fatal(err)
					}
				}
			}
			loop(b, s, of(st, ask("k", tc.cost, share)), false)
			if n, err := s.client.Load().MemoryUsage(context.Background(), s.bucketKey("k")).Result(); err == nil {
				b.ReportMetric(float64(n), "bytes")
			}
		})
	}
}
