package regional

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/memory"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// ownDoc gives all of every limit to standing shares: an agent that is alone
// serves it whole.
const ownDoc = `
domain: shop
descriptors:
- {key: user, rate_limit: {unit: second, requests_per_unit: 10, quota: {burst: 3, standing_share: 1}}}
- {key: daily, rate_limit: {unit: day, requests_per_unit: 4, quota: {standing_share: 1}}}
- {key: model, rate_limit: {unit: second, requests_per_unit: 10, quota: {burst: 20, max_debt: 10, standing_share: 1}}}
- {key: zero, rate_limit: {unit: second, requests_per_unit: 0}}
- {key: smooth, rate_limit: {unit: second, requests_per_unit: 10, quota: {algorithm: leaky_bucket, shape: true, burst: 5, standing_share: 1}}}
- {key: free, rate_limit: {unlimited: true}}
`

// alone starts an agent with ownDoc in this process, without ports. In a bubble of
// synctest all of it lives in virtual time.
func alone(t testing.TB) *Agent {
	t.Helper()
	store, err := memory.WithRules("here", ownDoc)
	if err != nil {
		t.Fatal(err)
	}
	return aloneOn(t, store)
}

// aloneOn is alone on a store that has the rules.
func aloneOn(t testing.TB, store Store) *Agent {
	t.Helper()
	a, err := Open(t.Context(), Config{Region: "here", Alone: true, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func limiter(t testing.TB, a *Agent, key, value string) *Limiter {
	t.Helper()
	l, err := a.Limiter("shop", Entry{Key: key, Value: value})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := alone(t)
		for i, c := range []struct {
			why  string
			on   *Limiter
			n    int
			over bool
			left uint32
		}{
			{"a look at a full bucket", limiter(t, a, "user", "1"), 0, false, 3},
			{"two of three", limiter(t, a, "user", "1"), 2, false, 1},
			{"the other value has a bucket of its own", limiter(t, a, "user", "2"), 3, false, 0},
			{"more than is left takes nothing", limiter(t, a, "user", "1"), 2, true, 0},
			{"what is left", limiter(t, a, "user", "1"), 1, false, 0},
			{"an empty bucket", limiter(t, a, "user", "1"), 1, true, 0},
			{"more than ever fits", limiter(t, a, "user", "3"), 4, true, 0},
			{"more than 2^32", limiter(t, a, "user", "3"), 1 << 40, true, 0},
			{"a zero limit", limiter(t, a, "zero", "1"), 1, true, 0},
			{"no rule", limiter(t, a, "nobody", "1"), 1, false, 0},
		} {
			d, err := c.on.AllowN(t.Context(), c.n)
			if err != nil || d.Over != c.over || d.Statuses[0].Remaining != c.left {
				t.Errorf("%d: %s: want over %v with %d left, have %+v, %v", i, c.why, c.over, c.left, d, err)
			}
		}
		time.Sleep(100 * time.Millisecond) // one token
		if d, err := limiter(t, a, "user", "1").Allow(t.Context()); err != nil || d.Over {
			t.Errorf("after its time: have %+v, %v", d, err)
		}
	})
}

func TestLimiterErrors(t *testing.T) {
	a := alone(t)
	ctx := t.Context()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	keyed := func(domain string, entries func([]Entry, int) []Entry) error {
		_, err := NewKeyed(a, domain, entries)
		return err
	}
	bare, err := NewKeyed(a, "shop", func(to []Entry, _ int) []Entry { return to })
	if err != nil {
		t.Fatal(err)
	}
	strictly, err := NewKeyed(a, "shop", func(to []Entry, _ int) []Entry { return append(to, Entry{Key: "nobody"}) })
	if err != nil {
		t.Fatal(err)
	}
	two := func(_ any, err error) error { return err }
	for why, c := range map[string]struct{ have, want error }{
		"no domain":                    {two(a.Limiter("", Entry{Key: "user"})), ErrArgument},
		"no entries":                   {two(a.Limiter("shop")), ErrArgument},
		"an entry without a key":       {two(a.Limiter("shop", Entry{Value: "1"})), ErrArgument},
		"keyed: no domain":             {keyed("", func(to []Entry, _ int) []Entry { return to }), ErrArgument},
		"keyed: no function":           {keyed("shop", nil), ErrArgument},
		"keyed: no entries":            {two(bare.Allow(ctx, 1)), ErrArgument},
		"keyed: no entries to wait on": {bare.Wait(ctx, 1), ErrArgument},
		"keyed: strict without a rule": {two(strictly.Strict().Allow(ctx, 1)), ErrNoRule},
		"a negative cost":              {two(limiter(t, a, "user", "1").AllowN(ctx, -1)), ErrArgument},
		"to wait for a negative cost":  {limiter(t, a, "user", "1").WaitN(ctx, -1), ErrArgument},
		"strict without a rule":        {two(limiter(t, a, "nobody", "1").Strict().Allow(ctx)), ErrNoRule},
		"strict with a rule":           {two(limiter(t, a, "free", "1").Strict().Allow(ctx)), nil},
		"a context that has ended":     {two(limiter(t, a, "user", "1").Allow(gone)), context.Canceled},
		"to wait with such a context":  {limiter(t, a, "user", "1").Wait(gone), context.Canceled},
	} {
		if !errors.Is(c.have, c.want) || c.want == nil && c.have != nil {
			t.Errorf("%s: want %v, have %v", why, c.want, c.have)
		}
	}
}

func TestKeyedAndLimiterShareTheBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := alone(t)
		perUser, err := NewKeyed(a, "shop", func(to []Entry, user int) []Entry {
			return append(to, Entry{Key: "user", Value: fmt.Sprint(user)})
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			var d Decision
			if i%2 == 0 {
				d, err = perUser.Allow(t.Context(), 7)
			} else {
				d, err = limiter(t, a, "user", "7").Allow(t.Context())
			}
			if err != nil || d.Over != (i == 3) {
				t.Errorf("request %d: have %+v, %v", i+1, d, err)
			}
		}
		if d, err := perUser.AllowN(t.Context(), 8, 3); err != nil || d.Over {
			t.Errorf("another user: have %+v, %v", d, err)
		}
		began := time.Now()
		if err := perUser.WaitN(t.Context(), 8, 2); err != nil || time.Since(began) != 200*time.Millisecond {
			t.Errorf("two tokens at ten a second: have %v after %v", err, time.Since(began))
		}
	})
}

func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, alone(t), "user", "1")
		reserve := func(n int) Reservation {
			r, err := l.ReserveN(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if r := reserve(3); !r.OK() || r.Delay() != 0 || r.Cancel() != 3 {
			t.Errorf("three of three: have %+v", r)
		}
		r := reserve(2)
		if r.OK() || r.Delay() != 200*time.Millisecond || r.Cancel() != 0 || r.Decision().Statuses[0].Rule == nil {
			t.Errorf("two of none: have %+v", r)
		}
		time.Sleep(r.Delay())
		if r := reserve(2); !r.OK() {
			t.Errorf("after the delay: have %+v", r)
		}
		if r := reserve(4); r.OK() || r.Delay() != InfDuration {
			t.Errorf("more than ever fits: have %+v", r)
		}
		if _, err := l.ReserveN(t.Context(), -1); !errors.Is(err, ErrArgument) {
			t.Errorf("a negative cost: have %v", err)
		}
	})
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := Open(ctx, Config{Region: "here", Alone: true, Store: memory.New()})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no rules adopted yet") {
			t.Errorf("have %v", err)
		}
	})
	if _, err := Open(t.Context(), Config{Region: "here"}); !errors.Is(err, ErrConfig) {
		t.Errorf("have %v", err)
	}
	if err := (Config{Region: "here", Alone: true, Coordinators: []string{"c:1"}, Redis: Embedded}).Validate(); !errors.Is(err, ErrConfig) {
		t.Errorf("alone with a coordinator: have %v", err)
	}
}

func TestBeforeRulesAndAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := Start(Config{Region: "here", Alone: true, Store: memory.New()})
		if err != nil {
			t.Fatal(err)
		}
		l := limiter(t, a, "user", "1")
		if _, err := l.Allow(t.Context()); !errors.Is(err, ErrNotReady) {
			t.Errorf("before there are rules: have %v", err)
		}
		if err := l.Wait(t.Context()); !errors.Is(err, ErrNotReady) {
			t.Errorf("to wait before there are rules: have %v", err)
		}
		for range 2 {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := l.Allow(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("after the end: have %v", err)
		}
		if err := a.AwaitReady(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("to wait for it after the end: have %v", err)
		}
	})
}

// What quorate-agent does, an application does: rules and leases come from the
// coordinator, buckets are in the region's Redis, and the last one to leave gives the
// leases back.
func TestOpenBesideAnAgent(t *testing.T) {
	c := startCoordinator(t, rulesDoc)
	whole := quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(5), Per: 86400 * quota.Second}, Burst: quota.Whole(5)}
	c.grant = func(r quota.SyncRequest) (out []quota.Assignment) {
		for _, u := range r.Usage {
			if strings.Contains(string(u.Key), "small") && u.Epoch == 0 {
				out = append(out, quota.Assignment{Key: u.Key, Session: 1, Epoch: 1, Lease: whole, Credit: whole.Burst})
			}
		}
		return out
	}
	server := redistest.Run(t)
	reg := prometheus.NewRegistry()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := Open(ctx, Config{
		Region: "eu", Coordinators: []string{c.addr}, Redis: server.URL(), RedisTimeout: patience, Registerer: reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	beside := startAgent(t, server.URL(), nil, c.addr)
	beside.ready(t)
	eventually(t, "connected", func() bool { return a.Status().Session == 1 })

	l, err := a.Limiter("api", Entry{Key: "small", Value: "1"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 { // the first one waits for its lease
		if d, err := l.Allow(ctx); err != nil || d.Over || d.Statuses[0].Reason != enforce.WithinLease {
			t.Fatalf("request %d: have %+v, %v", i+1, d, err)
		}
	}
	if !over(beside.ask(t, 1, "small=1")) {
		t.Error("the agent beside it admits what is spent")
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	left := false
	for _, r := range c.requests() {
		left = left || r.Agent == a.cfg.Agent && r.Leaving
	}
	if !left {
		t.Error("it did not say that it leaves")
	}
}

// A region that is one process needs no Redis.
func TestOpenWithAStoreInMemory(t *testing.T) {
	c := startCoordinator(t, rulesDoc)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := Open(ctx, Config{Region: "eu", Coordinators: []string{c.addr}, Store: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := a.Limiter("api", Entry{Key: "user", Value: "1"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 { // half of 8 a day
		if d, err := l.Allow(ctx); err != nil || d.Over != (i == 4) {
			t.Errorf("request %d: have %+v, %v", i+1, d, err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// Whoever waits, whatever it costs, what was admitted is within the bound in every
// interval, and nobody waits longer than all the tokens asked for take.
func TestWaitsKeepTheBound(t *testing.T) {
	const perSecond, burst = 10, 3
	rapid.Check(t, func(rt *rapid.T) {
		costs := rapid.SliceOfN(rapid.IntRange(1, burst), 1, 12).Draw(rt, "costs")
		starts := rapid.SliceOfN(rapid.IntRange(0, 1000), len(costs), len(costs)).Draw(rt, "starts_ms")
		synctest.Test(t, func(t *testing.T) {
			l := limiter(t, alone(t), "user", "1")
			began := time.Now()
			type admission struct {
				at   time.Duration
				cost int
			}
			done := make(chan admission, len(costs))
			total := 0
			for i, n := range costs {
				total += n
				go func() {
					time.Sleep(time.Duration(starts[i]) * time.Millisecond)
					if err := l.WaitN(t.Context(), n); err != nil {
						t.Error(err)
					}
					done <- admission{time.Since(began), n}
				}()
			}
			var all []admission
			for range costs {
				all = append(all, <-done) // in the order of their times
			}
			for i := range all {
				sum := 0
				for j := i; j < len(all); j++ {
					sum += all[j].cost
					if most := burst + perSecond*(all[j].at-all[i].at).Seconds(); float64(sum) > most+1e-6 {
						rt.Fatalf("%d admitted in %v: %v", sum, all[j].at-all[i].at, all)
					}
				}
			}
			if last, most := all[len(all)-1].at, time.Second+time.Duration(total)*100*time.Millisecond; last > most {
				rt.Fatalf("the last one at %v, want %v at most: %v", last, most, all)
			}
		})
	})
}

// A limiter asks without any memory of its own: what is left is the decision's, its
// status and the name of its key.
func TestLimitersAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	a := alone(t)
	l := limiter(t, a, "zero", "1") // denied without the store
	perUser, err := NewKeyed(a, "shop", func(to []Entry, user string) []Entry { return append(to, Entry{Key: "zero", Value: user}) })
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	req := Request{Domain: "shop", Hits: 1, Descriptors: []Descriptor{{Entries: []Entry{{Key: "zero", Value: "1"}}}}}
	count := func(ask func() (Decision, error)) float64 {
		return testing.AllocsPerRun(1000, func() {
			if d, err := ask(); err != nil || !d.Over {
				t.Fatalf("have %+v, %v", d, err)
			}
		})
	}
	bare := count(func() (Decision, error) { return a.Decide(ctx, req) })
	for name, have := range map[string]float64{
		"Limiter.Allow":   count(func() (Decision, error) { return l.Allow(ctx) }),
		"Limiter.Reserve": count(func() (Decision, error) { r, err := l.Reserve(ctx); return r.Decision(), err }),
		"Keyed.Allow":     count(func() (Decision, error) { return perUser.Allow(ctx, "1") }),
	} {
		if have > bare {
			t.Errorf("%s: %v allocations, a bare decision has %v", name, have, bare)
		}
	}
}
