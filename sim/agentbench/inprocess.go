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

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/lease"
	"github.com/quorate/quorate/regional/memory"
)

// Process is what one decision in this process costs, without any transport.
type Process struct {
	Name        string  `json:"name"`
	NS          float64 `json:"ns"`
	Allocations float64 `json:"allocations"`
}

// InProcess measures decisions on 10,000 keys by one caller, and on one key, as medians
// of interleaved rounds.
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
	allowed, err := allower()
	if err != nil {
		return nil, err
	}
	limiters := newLimiters()
	systems := []struct {
		name   string
		decide func(key string) error
	}{
		{"golang.org/x/time/rate in a sharded map", func(key string) error { limiters.allow(key); return nil }},
		{"quorate, with a store that is a map in memory", admits},
		{"quorate, a key that is denied", denies},
		{"the sharded map, one key", func(string) error { limiters.allow("0"); return nil }},
		{"quorate, one key, with an allowance", allowed},
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

// decider returns a decision on a value of a descriptor of Rules, by a store without
// Redis: what is left is the agent's own part.
func decider(descriptor string) (func(value string) error, error) {
	start, ctx := time.Now(), context.Background()
	e, err := enforcer(ctx, enforce.Config{RememberDenials: true})
	if err != nil {
		return nil, err
	}
	return func(value string) error {
		// A key of its own for each value would be admitted once.
		if descriptor == "spent" {
			value = "0"
		}
		_, err := e.Decide(ctx, time.Since(start), enforce.Request{
			Domain: "bench", Descriptors: []enforce.Descriptor{{Entries: []rules.Entry{{Key: descriptor, Value: value}}}},
		})
		if err != nil {
			return fmt.Errorf("decide in process: %w", err)
		}
		return nil
	}, nil
}

// allower returns a decision on one key, of which the agent draws ahead.
func allower() (func(string) error, error) {
	start, ctx := time.Now(), context.Background()
	e, err := enforcer(ctx, enforce.Config{Allowances: true})
	if err != nil {
		return nil, err
	}
	req := enforce.Request{
		Domain: "bench", Descriptors: []enforce.Descriptor{{Entries: []rules.Entry{{Key: "user", Value: "0"}}}},
	}
	var d enforce.Decision
	return func(string) error {
		if err := e.DecideInto(ctx, time.Since(start), req, &d); err != nil {
			return fmt.Errorf("decide in process: %w", err)
		}
		return nil
	}, nil
}

// enforcer returns one with Rules and a store that is a map in memory.
func enforcer(ctx context.Context, cfg enforce.Config) (*enforce.Enforcer, error) {
	m, err := memory.WithRules("here", Rules)
	if err != nil {
		return nil, err
	}
	st, err := m.State(ctx)
	if err != nil {
		return nil, err
	}
	cur, prev, err := m.Config(ctx)
	if err != nil {
		return nil, err
	}
	a, err := lease.Adopt("here", 0, st, cur, prev)
	if err != nil {
		return nil, err
	}
	cfg.Store = m
	e := enforce.New(cfg)
	e.Adopt(a)
	return e, nil
}
