package regional

import (
	"hash/maphash"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/time/rate"

	"github.com/quorate/quorate/regional/memory"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// benchDoc never denies, but for "spent".
const benchDoc = `
domain: bench
descriptors:
- {key: user, rate_limit: {unit: second, requests_per_unit: 1000000000, quota: {standing_share: 1}}}
- {key: spent, rate_limit: {unit: day, requests_per_unit: 1, quota: {standing_share: 1}}}
`

// benchKeys is how many keys are asked for in turn.
const benchKeys = 10_000

// BenchmarkInProcess is one decision of an application in its own process: with one
// key, with one that is looked up, with many, denied from memory, and with a Redis behind it. What it is compared
// with is BenchmarkShardedMap.
func BenchmarkInProcess(b *testing.B) {
	names := make([]string, benchKeys)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	open := func(b *testing.B, cfg Config) *Agent {
		a, err := Open(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = a.Close() })
		return a
	}
	inMemory := func(b *testing.B) *Agent {
		store, err := memory.WithRules("here", benchDoc)
		if err != nil {
			b.Fatal(err)
		}
		return open(b, Config{Region: "here", Alone: true, Store: store})
	}
	limiter := func(b *testing.B, a *Agent, key string) func(int, *Decision) error {
		l, err := a.Limiter("bench", Entry{Key: key, Value: "1"})
		if err != nil {
			b.Fatal(err)
		}
		return func(_ int, d *Decision) error { return l.AllowInto(b.Context(), 1, d) }
	}
	keyed := func(b *testing.B, a *Agent, keys int) func(int, *Decision) error {
		l, err := NewKeyed(a, "bench", func(to []Entry, k string) []Entry { return append(to, Entry{Key: "user", Value: k}) })
		if err != nil {
			b.Fatal(err)
		}
		return func(i int, d *Decision) error { return l.AllowInto(b.Context(), names[i%keys], 1, d) }
	}
	for _, c := range []struct {
		name string
		make func(b *testing.B) func(int, *Decision) error
	}{
		{"memory/one-key", func(b *testing.B) func(int, *Decision) error { return limiter(b, inMemory(b), "user") }},
		{"memory/one-of-many", func(b *testing.B) func(int, *Decision) error { return keyed(b, inMemory(b), 1) }},
		{"memory/10k-keys", func(b *testing.B) func(int, *Decision) error { return keyed(b, inMemory(b), benchKeys) }},
		{"memory/denied", func(b *testing.B) func(int, *Decision) error { return limiter(b, inMemory(b), "spent") }},
		{"redis/one-key", func(b *testing.B) func(int, *Decision) error { return limiter(b, open(b, onRedis(b)), "user") }},
		{"redis/10k-keys", func(b *testing.B) func(int, *Decision) error { return keyed(b, open(b, onRedis(b)), benchKeys) }},
	} {
		b.Run(c.name, func(b *testing.B) { measure(b, c.make(b)) })
	}
}

// onRedis is an agent on a real Redis that has benchDoc.
func onRedis(b *testing.B) Config {
	server := redistest.Run(b)
	c := startCoordinator(b, benchDoc)
	return Config{Region: "eu", Coordinators: []string{c.addr}, Redis: server.URL()}
}

// BenchmarkShardedMap is what an application writes that has to limit each of many
// keys, alone in the world.
func BenchmarkShardedMap(b *testing.B) {
	names := make([]string, benchKeys)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	for _, c := range []struct {
		name string
		keys int
	}{{"one-key", 1}, {"10k-keys", benchKeys}} {
		b.Run(c.name, func(b *testing.B) {
			var m shardedMap
			measure(b, func(i int, _ *Decision) error { m.allow(names[i%c.keys]); return nil })
		})
	}
}

var benchSeed = maphash.MakeSeed()

type shardedMap [64]struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
}

func (m *shardedMap) allow(key string) bool {
	s := &m[maphash.String(benchSeed, key)%uint64(len(m))]
	s.mu.Lock()
	l := s.limiters[key]
	if l == nil {
		if s.limiters == nil {
			s.limiters = make(map[string]*rate.Limiter)
		}
		l = rate.NewLimiter(1e9, 1e9)
		s.limiters[key] = l
	}
	s.mu.Unlock()
	return l.Allow()
}

// measure asks from one goroutine, and then from all processors.
func measure(b *testing.B, ask func(i int, d *Decision) error) {
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		var d Decision
		for i := 0; b.Loop(); i++ {
			if err := ask(i, &d); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			var d Decision
			for i := 0; pb.Next(); i++ {
				if err := ask(i, &d); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
