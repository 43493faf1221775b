package agentbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// Config says what to measure.
type Config struct {
	Workloads   []Workload
	Concurrency []int
	Rounds      int
	Time        time.Duration // of one measurement
	// Peer, when set, is the shell command of another RLS server that is measured, too:
	// see startPeer. It has to know the domain and the descriptors of Rules.
	Peer string
	// Profile, when set, is the file for a CPU profile of the agent.
	Profile string
	// Progress, when set, is told what is measured next.
	Progress func(done, all int, what string)
}

// Result is one system under one workload.
type Result struct {
	Workload    string `json:"workload"`
	Concurrency int    `json:"concurrency"`
	System      string `json:"system"`
	// HalfLoad says that requests came at half the rate that the system had reached
	// with as many callers, and not as fast as they were answered.
	HalfLoad bool `json:"half_load"`

	PerSecond float64 `json:"decisions_per_s"`
	ServerUS  float64 `json:"server_cpu_us"` // CPU time of a decision
	RedisUS   float64 `json:"redis_cpu_us"`
	P50MS     float64 `json:"p50_ms"`
	P99MS     float64 `json:"p99_ms"`
	// Calls is script calls for each decision, Commands all that Redis executed,
	// those inside of scripts included.
	Calls    float64 `json:"redis_calls"`
	Commands float64 `json:"redis_commands"`
	// RoundTripP99MS is what a PING took meanwhile, at half load only.
	RoundTripP99MS float64 `json:"redis_round_trip_p99_ms,omitempty"`
}

// PerCPUSecond is the decisions that a second of CPU time buys, of server and Redis.
func (r Result) PerCPUSecond() float64 { return 1e6 / (r.ServerUS + r.RedisUS) }

// system is one that runs.
type system struct {
	name   string
	server *process
	redis  *redistest.Server // nil: it needs none
	load   *load
}

// Run measures everything and returns the medians.
func Run(ctx context.Context, cfg Config) (results []Result, err error) {
	systems, err := startAll(cfg)
	defer func() {
		for _, s := range systems {
			err = errors.Join(err, s.stop())
		}
	}()
	if err != nil {
		return nil, err
	}
	type point struct {
		workload, concurrency int
		system                string
		half                  bool
	}
	var order []point
	runs := make(map[point][]Result)
	done, all := 0, cfg.Rounds*len(cfg.Workloads)*len(systems)*(len(cfg.Concurrency)+1)
	note := func(p point, r Result) {
		if len(runs[p]) == 0 {
			order = append(order, p)
		}
		runs[p] = append(runs[p], r)
		done++
	}
	for range cfg.Rounds {
		for wi, w := range cfg.Workloads {
			requests := w.requests()
			peak := make(map[string]float64)
			for _, c := range cfg.Concurrency {
				for _, s := range systems {
					cfg.tell(done, all, fmt.Sprintf("%s, %d callers, %s", w.Name, c, s.name))
					r, err := s.measure(ctx, w, requests, c, 0, cfg.Time)
					if err != nil {
						return nil, fmt.Errorf("measure %s with %s: %w", s.name, w.Name, err)
					}
					peak[s.name] = max(peak[s.name], r.PerSecond)
					note(point{wi, c, s.name, false}, r)
				}
			}
			for _, s := range systems {
				cfg.tell(done, all, fmt.Sprintf("%s, half load, %s", w.Name, s.name))
				c := slices.Max(cfg.Concurrency)
				r, err := s.measure(ctx, w, requests, c, peak[s.name]/2, cfg.Time)
				if err != nil {
					return nil, fmt.Errorf("measure %s with %s: %w", s.name, w.Name, err)
				}
				note(point{wi, c, s.name, true}, r)
			}
		}
	}
	for _, p := range order {
		results = append(results, median(runs[p]))
	}
	return results, nil
}

func (cfg Config) tell(done, all int, what string) {
	if cfg.Progress != nil {
		cfg.Progress(done, all, what)
	}
}

func startAll(cfg Config) (systems []*system, err error) {
	names := Systems
	if cfg.Peer != "" {
		names = append(slices.Clone(names), Peer)
	}
	for _, name := range names {
		s := &system{name: name}
		systems = append(systems, s)
		url := ""
		if name != Empty {
			if s.redis, err = redistest.Start(redistest.Options{}); err != nil {
				return systems, err
			}
			url = s.redis.URL()
		}
		file := ""
		if name == Quorate {
			file = cfg.Profile
		}
		if name == Peer {
			s.server, err = startPeer(cfg.Peer, s.redis.Addr())
		} else {
			s.server, err = start(name, url, file)
		}
		if err != nil {
			return systems, err
		}
		if s.load, err = dial(s.server.addr); err != nil {
			return systems, err
		}
	}
	return systems, nil
}

func (s *system) stop() (err error) {
	if s.load != nil {
		err = s.load.close()
	}
	if s.server != nil {
		err = errors.Join(err, s.server.stop())
	}
	if s.redis != nil {
		err = errors.Join(err, s.redis.Stop())
	}
	return err
}

// usage is what a system has used so far.
type usage struct {
	server, redis   time.Duration
	calls, commands int
}

func (s *system) usage() (u usage, err error) {
	if u.server, err = cpuTime(s.server.cmd.Process.Pid); err != nil || s.redis == nil {
		return u, err
	}
	if u.redis, err = cpuTime(s.redis.PID()); err != nil {
		return u, err
	}
	info, err := s.redis.Do("INFO", "commandstats")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(info) {
		rest, ok := strings.CutPrefix(line, "cmdstat_")
		name, rest, found := strings.Cut(rest, ":calls=")
		count, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(count)
		if !ok || !found || err != nil || name == "ping" || name == "info" {
			continue
		}
		u.commands += n
		if name == "evalsha" {
			u.calls += n
		}
	}
	return u, nil
}

// measure puts load on the system for d, after a moment to get warm.
func (s *system) measure(ctx context.Context, w Workload, requests []*rls.RateLimitRequest, callers int, rate float64, d time.Duration) (Result, error) {
	if _, err := s.load.run(ctx, requests, callers, rate, d/5); err != nil {
		return Result{}, err
	}
	before, err := s.usage()
	if err != nil {
		return Result{}, err
	}
	var pings pinger
	if rate > 0 && s.redis != nil {
		pings.start(s.redis.Addr())
	}
	began := time.Now()
	got, err := s.load.run(ctx, requests, callers, rate, d)
	took := time.Since(began)
	trip, pingErr := pings.stop()
	if err := errors.Join(err, pingErr); err != nil {
		return Result{}, err
	}
	after, err := s.usage()
	if err != nil {
		return Result{}, err
	}
	n := float64(len(got.took))
	if denied := float64(got.denied) / n; s.name != Empty && (w.Denied && denied < 0.99 || !w.Denied && denied > 0) {
		return Result{}, fmt.Errorf("%.1f %% of the requests were denied, so the figures would mean something else", 100*denied)
	}
	us := func(t time.Duration) float64 { return t.Seconds() * 1e6 / n }
	ms := func(t time.Duration) float64 { return t.Seconds() * 1e3 }
	return Result{
		Workload: w.Name, Concurrency: callers, System: s.name, HalfLoad: rate > 0,
		PerSecond: n / took.Seconds(), ServerUS: us(after.server - before.server), RedisUS: us(after.redis - before.redis),
		P50MS: ms(got.at(0.5)), P99MS: ms(got.at(0.99)), RoundTripP99MS: ms(trip),
		Calls: float64(after.calls-before.calls) / n, Commands: float64(after.commands-before.commands) / n,
	}, nil
}

// median returns the median of every figure.
func median(runs []Result) Result {
	r := runs[0]
	of := func(f func(*Result) *float64) {
		var v []float64
		for i := range runs {
			v = append(v, *f(&runs[i]))
		}
		slices.Sort(v)
		*f(&r) = v[len(v)/2]
	}
	of(func(r *Result) *float64 { return &r.PerSecond })
	of(func(r *Result) *float64 { return &r.ServerUS })
	of(func(r *Result) *float64 { return &r.RedisUS })
	of(func(r *Result) *float64 { return &r.P50MS })
	of(func(r *Result) *float64 { return &r.P99MS })
	of(func(r *Result) *float64 { return &r.Calls })
	of(func(r *Result) *float64 { return &r.Commands })
	of(func(r *Result) *float64 { return &r.RoundTripP99MS })
	return r
}
