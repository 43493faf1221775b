package redisbucket

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// shared is the server of the tests that neither stop nor slow it. Each test has
// its own key prefix there.
var shared *redistest.Server

func TestMain(m *testing.M) {
	var err error
	if shared, err = redistest.Start(redistest.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, "these tests need a real Redis:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code == 0 {
		// After Close go-redis sleeps on for up to a second where it could not dial.
		if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

var prefixes atomic.Int64

func newPrefix() string { return fmt.Sprintf("t%d:", prefixes.Add(1)) }

// patient is for tests that do not try the timeouts: a busy machine may be slow.
const patient = 5 * time.Second

// openAt returns a store on addr with its own prefix.
func openAt(tb testing.TB, url string, change func(*Config)) *Store {
	tb.Helper()
	cfg := Config{URL: url, Prefix: newPrefix(), Timeout: patient, DialTimeout: patient, Budget: patient}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// failing is a test of testing or of rapid.
type failing interface {
	Helper()
	Fatal(args ...any)
}

// state reads the region's state.
func state(tb failing, s *Store) bucket.State {
	tb.Helper()
	st, err := s.State(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return st
}

// connected renews session 5 for a minute and returns the state.
func connected(tb failing, s *Store) bucket.State {
	tb.Helper()
	st := state(tb, s)
	if err := s.Renew(context.Background(), st.Incarnation, 5, st.Now+60*quota.Second); err != nil {
		tb.Fatal(err)
	}
	return state(tb, s)
}

func per(tokens uint64, period quota.Micros, burst uint64) quota.Capacity {
	return quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(tokens), Per: period}, Burst: quota.Whole(burst)}
}

func full(c quota.Capacity) bucket.Standing { return bucket.Standing{Capacity: c, Base: c.Burst} }

func ask(key quota.Key, cost uint64, st bucket.Standing) bucket.Ask {
	return bucket.Ask{Key: key, Cost: quota.Whole(cost), Standing: st}
}

func of(st bucket.State, asks ...bucket.Ask) enforce.Take {
	return enforce.Take{Incarnation: st.Incarnation, Config: st.Config, Asks: asks}
}

func take(tb failing, s *Store, t enforce.Take) enforce.TakeResult {
	tb.Helper()
	res, err := s.Take(context.Background(), t)
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

// eventually polls a real process until ok, for at most limit.
func eventually(tb testing.TB, limit time.Duration, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// withTestClock puts a clock that the test sets in the place of TIME, and a field
// of the record in the place of its lifetime. Only tests can: no argument of a
// script is a time.
func withTestClock(source string) string {
	for _, r := range [][2]string{
		{"redis.call('TIME')", "redis.call('HMGET', 'test:clock', 's', 'us')"},
		{"call('PEXPIRE', key, ttl)", "call('HSET', key, 'ttl', ttl)"},
		{"local CHUNK = 768", "local CHUNK = 40"}, // many chunks in short histories
	} {
		source = strings.ReplaceAll(source, r[0], r[1])
	}
	return source
}
