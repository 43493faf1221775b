package redisbucket

import (
	"context"
	"fmt"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// BenchmarkTake is one decision against a real Redis on the same machine, one
// caller after the other: mostly the round trip. redis_us/op is what the server
// itself spent in the script.
func BenchmarkTake(b *testing.B) {
	for _, tc := range []struct {
		name   string
		asks   int
		leased bool
		burst  uint64
	}{
		{"standing", 1, false, quota.MaxWhole},
		{"lease", 1, true, quota.MaxWhole},
		{"denied", 1, false, 0},
		{"three", 3, false, quota.MaxWhole},
	} {
		b.Run(tc.name, func(b *testing.B) {
			s := openAt(b, shared.URL(), nil)
			st := connected(b, s)
			share := full(per(1000, quota.Second, tc.burst))
			var asks []bucket.Ask
			for i := range tc.asks {
				key := quota.Key(fmt.Sprintf("api|user=%d", i))
				asks = append(asks, ask(key, 1, share))
				if tc.leased {
					a := quota.Assignment{Key: key, Session: 5, Epoch: 1, Lease: share.Capacity}
					if _, err := s.Apply(context.Background(), st.Incarnation, []bucket.ApplyAsk{{Assignment: a, Standing: share}}); err != nil {
						b.Fatal(err)
					}
				}
			}
			loop(b, s, of(st, asks...), false)
		})
	}
}

// BenchmarkTakeParallel is many callers at once: requests share script calls.
func BenchmarkTakeParallel(b *testing.B) {
	s := openAt(b, shared.URL(), nil)
	loop(b, s, of(state(b, s), ask("k", 1, full(per(1000, quota.Second, quota.MaxWhole)))), true)
}

func loop(b *testing.B, s *Store, t enforce.Take, parallel bool) {
	b.Helper()
	b.ReportAllocs()
	if _, err := shared.Do("CONFIG", "RESETSTAT"); err != nil {
		b.Fatal(err)
	}
	one := func() {
		if _, err := s.Take(context.Background(), t); err != nil {
			b.Error(err)
		}
	}
	if parallel {
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				one()
			}
		})
	} else {
		for b.Loop() {
			one()
		}
	}
	b.StopTimer()
	info, err := shared.Do("INFO", "commandstats")
	if err != nil {
		b.Fatal(err)
	}
	var calls, usec, each float64
	if _, err := fmt.Sscanf(parseInfo(info)["cmdstat_evalsha"], "calls=%f,usec=%f,usec_per_call=%f", &calls, &usec, &each); err == nil {
		b.ReportMetric(each, "redis_us/op")
	}
}

// BenchmarkClusterTake is a decision in a cluster of three nodes on the same
// machine. With keys in three partitions it is three calls, and a denial by the
// last one two more, for which nobody waits, that give back what the others were
// charged.
func BenchmarkClusterTake(b *testing.B) {
	c := redistest.RunCluster(b, 3, false)
	keys := apart(3)
	for _, tc := range []struct {
		name   string
		keys   []quota.Key
		denied bool
	}{{"one", keys[:1], false}, {"three", keys, false}, {"refund", keys, true}} {
		b.Run(tc.name, func(b *testing.B) {
			s := openAt(b, c.URL(), nil)
			var asks []bucket.Ask
			for i, k := range tc.keys {
				burst := uint64(quota.MaxWhole)
				if tc.denied && i == len(tc.keys)-1 {
					burst = 0
				}
				asks = append(asks, ask(k, 1, full(per(1000, quota.Second, burst))))
			}
			t := of(state(b, s), asks...)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Take(context.Background(), t); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
