package agentbench

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/lease"
)

// Process is what one decision in this process costs, without any transport.
type Process struct {
	Name        string  `json:"name"`
	NS          float64 `json:"ns"`
	Allocations float64 `json:"allocations"`
}

// InProcess measures decisions on 10,000 keys by one caller, as medians of
// interleaved rounds.
func InProcess(rounds int, d time.Duration) ([]Process, error) {
	admits, err := decider("user")
	if err != nil {
		return nil, err
	}
	denies, err := decider("spent")
	if err != nil {
		return nil, err
	}
	keys := make([]string, population)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	limiters := newLimiters()
	systems := []struct {
		name   string
		decide func(key string) error
	}{
		{"golang.org/x/time/rate in a sharded map", func(key string) error { limiters.allow(key); return nil }},
		{"quorate, with a store that is a map in memory", admits},
		{"quorate, a key that is denied", denies},
	}
	results := make([][]Process, len(systems))
	for range rounds {
		for i, s := range systems {
			p, err := loop(keys, d, s.decide)
			if err != nil {
				return nil, err
			}
			p.Name = s.name
			results[i] = append(results[i], p)
		}
	}
	var out []Process
	for _, r := range results {
		slices.SortFunc(r, func(a, b Process) int { return cmp.Compare(a.NS, b.NS) })
		out = append(out, r[len(r)/2])
	}
	return out, nil
}

func loop(keys []string, d time.Duration, decide func(key string) error) (Process, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, n := time.Now(), 0
	for ; n%1024 != 0 || time.Since(began) < d; n++ {
		if err := decide(keys[n%len(keys)]); err != nil {
			return Process{}, err
		}
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return Process{NS: float64(took) / float64(n), Allocations: float64(after.Mallocs-before.Mallocs) / float64(n)}, nil
}

// limiters is what an application writes that has to limit each of many keys.
type limiters struct {
	seed   maphash.Seed
	shards [64]struct {
		mu   sync.Mutex
		keys map[string]*rate.Limiter
	}
}

func newLimiters() *limiters {
	l := &limiters{seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].keys = make(map[string]*rate.Limiter)
	}
	return l
}

func (l *limiters) allow(key string) bool {
	s := &l.shards[maphash.String(l.seed, key)%uint64(len(l.shards))]
	s.mu.Lock()
	limiter := s.keys[key]
	if limiter == nil {
		limiter = rate.NewLimiter(1e9, 1e9)
		s.keys[key] = limiter
	}
	s.mu.Unlock()
	return limiter.Allow()
}

// memory is a store without Redis: what is left is the agent's own part.
type memory struct {
	mu    sync.Mutex
	start time.Time
	store *bucket.Store
}

func (m *memory) now() quota.Micros { return 1<<40 + quota.MicrosOf(time.Since(m.start)) }

func (m *memory) Take(_ context.Context, t enforce.Take) (enforce.TakeResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	admitted, verdicts := m.store.Take(now, t.Asks)
	return enforce.TakeResult{Now: now, Admitted: admitted, Verdicts: verdicts}, nil
}

func (m *memory) Charge(_ context.Context, incarnation string, charges []bucket.Charge) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.store.Charge(m.now(), incarnation, charges)
}

// decider returns a decision on a value of a descriptor of Rules.
func decider(descriptor string) (func(value string) error, error) {
	m := &memory{start: time.Now(), store: bucket.NewStore()}
	m.store.Incarnate(m.now(), "one")
	blob, err := configuration()
	if err != nil {
		return nil, err
	}
	if err := m.store.MarkFirst("one"); err != nil {
		return nil, err
	}
	if err := m.store.Adopt(m.now(), "one", 1, blob); err != nil {
		return nil, err
	}
	cur, prev := m.store.Config()
	a, err := lease.Adopt("here", 0, m.store.State(m.now()), cur, prev)
	if err != nil {
		return nil, err
	}
	e := enforce.New(enforce.Config{Store: m})
	e.Adopt(a)
	return func(value string) error {
		// A key of its own for each value would be admitted once.
		if descriptor == "spent" {
			value = "0"
		}
		_, err := e.Decide(context.Background(), time.Since(m.start), enforce.Request{
			Domain: "bench", Descriptors: []enforce.Descriptor{{Entries: []rules.Entry{{Key: descriptor, Value: value}}}},
		})
		if err != nil {
			return fmt.Errorf("decide in process: %w", err)
		}
		return nil
	}, nil
}
