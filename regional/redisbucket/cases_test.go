package redisbucket

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

const day = 86400 * quota.Second

// parallel takes 1 from key n times at once and returns how many were admitted.
func parallel(tb testing.TB, s *Store, n int, a bucket.Ask) int64 {
	tb.Helper()
	st := state(tb, s)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			res, err := s.Take(context.Background(), of(st, a))
			if err != nil {
				tb.Error(err)
			}
			if res.Admitted {
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	return admitted.Load()
}

func TestParallelTakes(t *testing.T) {
	s := openAt(t, shared.URL(), nil)
	for _, tc := range []struct {
		name string
		n    int
		a    bucket.Ask
		want int64
	}{
		{"K08 a zero limit denies without an error", 200, ask("zero", 1, full(per(0, quota.Second, 0))), 0},
		{"K09 a zero rate admits its burst once", 50, ask("once", 1, full(per(0, quota.Second, 1))), 1},
		{"K59 fifty at once share one token", 50, ask("one", 1, full(per(1, day, 1))), 1},
		{"K61 four hundred callers on one key", 400, ask("hot", 1, full(per(1, day, 150))), 150},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if have := parallel(t, s, tc.n, tc.a); have != tc.want {
				t.Errorf("admitted: want %d, have %d", tc.want, have)
			}
		})
	}
}

func TestRecordsExpireInTime(t *testing.T) {
	s := openAt(t, shared.URL(), nil)
	st := connected(t, s)
	for _, tc := range []struct {
		name     string
		a        bucket.Ask
		min, max int64 // milliseconds
	}{
		{"K05 a fast rate is still stored", ask("fast", 1, full(per(1_000_000, quota.Second, 1_000_000))), 500, 1_001},
		{"K50 a minute is sixty seconds", ask("minute", 60, full(per(60, 60*quota.Second, 60))), 60_000, 61_001},
		{"K27 a month's state lives as long as the month", ask("month", 100, full(per(100, 30*day, 100))), 30*86_400_000 - 1000, 30*86_400_000 + 1_001},
		{"K19 a slow rate", ask("year", 1, full(per(1, 365*day, 1))), 365*86_400_000 - 1000, 365*86_400_000 + 1_001},
		{"K19 a rate of zero lives long, not for ever", ask("never", 1, full(per(0, day, 1))), 7299 * 86_400_000, 7300 * 86_400_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if res := take(t, s, of(st, tc.a)); !res.Admitted {
				t.Fatalf("want admitted, have %+v", res)
			}
			ms, err := s.client.Load().PTTL(context.Background(), s.bucketKey(tc.a.Key)).Result()
			if err != nil || ms.Milliseconds() < tc.min || ms.Milliseconds() > tc.max {
				t.Errorf("lifetime: want %d to %d ms, have %v %v", tc.min, tc.max, ms, err)
			}
		})
	}
}

// K48: a record that lost its lifetime is refilled by time like any other.
func TestK48ARecordWithoutLifetimeRecovers(t *testing.T) {
	s := openAt(t, shared.URL(), nil)
	st := state(t, s)
	share := full(per(1000, quota.Second, 10))
	take(t, s, of(st, ask("k", 10, share)))
	if err := s.client.Load().Persist(context.Background(), s.bucketKey("k")).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, patient, "a token", func() bool { return take(t, s, of(st, ask("k", 1, share))).Admitted })
	if ms, err := s.client.Load().PTTL(context.Background(), s.bucketKey("k")).Result(); err != nil || ms <= 0 {
		t.Errorf("the next write gives it a lifetime: have %v %v", ms, err)
	}
}

func TestK53KeysWithBracesAndSpaces(t *testing.T) {
	s := openAt(t, shared.URL(), nil)
	st := state(t, s)
	share := full(per(1, day, 1))
	set, err := rules.Parse([]quota.Source{{Name: "rules.yaml", Text: "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]"}})
	if err != nil {
		t.Fatal(err)
	}
	ofValue := func(v string) quota.Key {
		e := []rules.Entry{{Key: "k", Value: v}}
		return set.Match("d", e).Key("d", e, 0)
	}
	keys := []quota.Key{"a{b}c", "{", "}", "", "a b", "a\nb", "ü"} // should any ever come unescaped
	for _, v := range []string{"a{b}c", "{", "}", "", "a b", "a\nb", "ü", "{}", "}{", "a", "a}", strings.Repeat("{x}\n", 1024)} {
		keys = append(keys, ofValue(v))
	}
	for _, k := range keys {
		if res := take(t, s, of(st, ask(k, 1, share))); !res.Admitted {
			t.Errorf("%q shares a bucket with another key", k)
		}
		if res := take(t, s, of(st, ask(k, 1, share))); res.Admitted {
			t.Errorf("%q is not counted", k)
		}
	}
	// What a client sends in braces decides no slot: one hot tag would put all on
	// one node of a cluster.
	cluster := redistest.Run(t, "--cluster-enabled", "yes")
	slots := make(map[string]bool)
	const users = 300
	for i := range users {
		slot, err := cluster.Do("CLUSTER", "KEYSLOT", s.bucketKey(ofValue("{hot}"+strconv.Itoa(i))))
		if err != nil {
			t.Fatal(err)
		}
		slots[slot] = true
	}
	// 300 balls in 16,384 urns: three collisions are expected.
	if len(slots) < users*9/10 {
		t.Errorf("%d users are in %d slots", users, len(slots))
	}
}

// What is only looked at, and what only asks for headers, leaves nothing behind: each
// counted key is one record, however often it was asked for.
func TestK62OneRecordForEachKey(t *testing.T) {
	s := openAt(t, shared.URL(), nil)
	st := state(t, s)
	records := func() int {
		keys, err := s.client.Load().Keys(context.Background(), s.bucketKey("*")).Result()
		if err != nil {
			t.Fatal(err)
		}
		return len(keys)
	}
	share := full(per(50, day, 50))
	for i := range 1000 {
		k := quota.Key(strconv.Itoa(i % 10))
		if res := take(t, s, of(st, ask(k, 1, share))); res.Admitted != (i < 500) {
			t.Fatalf("take %d: admitted %v", i, res.Admitted)
		}
	}
	if have := records(); have != 10 {
		t.Errorf("1000 takes from 10 keys left %d records", have)
	}
	for i := range 1000 {
		take(t, s, of(st, ask(quota.Key(strconv.Itoa(i)), 0, share)))
	}
	if have := records(); have != 10 {
		t.Errorf("looking at 1000 keys left %d records, want the 10 that were charged", have)
	}
}

func TestTakeIsStaleWhenTheRegionMovedOn(t *testing.T) {
	ctx := context.Background()
	s := openAt(t, shared.URL(), nil)
	old := state(t, s)
	if err := s.Adopt(ctx, old.Incarnation, 3, []byte("three")); err != nil {
		t.Fatal(err)
	}
	share := full(per(1, day, 1))
	if _, err := s.Take(ctx, of(old, ask("k", 1, share))); !errors.Is(err, enforce.ErrStale) {
		t.Errorf("another configuration: want %v, have %v", enforce.ErrStale, err)
	}
	if res := take(t, s, of(state(t, s), ask("k", 1, share))); !res.Admitted {
		t.Error("a stale take charged the bucket")
	}
}

func TestAmountsThatScriptsCannotComputeAreRefused(t *testing.T) {
	ctx := context.Background()
	s := openAt(t, shared.URL(), nil)
	st := state(t, s)
	for name, err := range map[string]error{
		"absurd refund":   second(s.Take(ctx, of(st, bucket.Ask{Key: "k", Cost: -quota.MaxTokens - 1}))),
		"negative debt":   second(s.Take(ctx, of(st, bucket.Ask{Key: "k", Debt: -1}))),
		"period too long": second(s.Take(ctx, of(st, ask("k", 1, full(per(1, bucket.MaxPeriod+1, 1)))))),
		"burst too large": second(s.Take(ctx, of(st, ask("k", 1, full(quota.Capacity{Burst: quota.MaxTokens + 1}))))),
		"negative charge": s.Charge(ctx, st.Incarnation, []bucket.Charge{{Key: "k", Tokens: -1}}),
		"negative credit": second(s.Apply(ctx, st.Incarnation, []bucket.ApplyAsk{{Assignment: quota.Assignment{Key: "k", Credit: -1}}})),
	} {
		if !errors.Is(err, bucket.ErrRange) {
			t.Errorf("%s: want %v, have %v", name, bucket.ErrRange, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestManyChargesAndDebt(t *testing.T) {
	ctx := context.Background()
	s := openAt(t, shared.URL(), nil)
	share := full(per(1, day, 10))
	var charges []bucket.Charge
	for i := range 2*chargeBatch + 1 {
		charges = append(charges, bucket.Charge{Key: quota.Key(strconv.Itoa(i % 7)), Tokens: quota.Whole(1), Standing: share})
	}
	if err := s.Charge(ctx, state(t, s).Incarnation, charges); err != nil {
		t.Fatal(err)
	}
	if rec, ok, err := s.Read(ctx, "0"); err != nil || !ok || rec.Level != -quota.Whole(19) {
		t.Errorf("want -19 after 29 charges, have %v %v %v", rec.Level, ok, err)
	}
}

func TestReadFindsNothingAndWritesNothing(t *testing.T) {
	s := openAt(t, shared.URL(), nil)
	if _, ok, err := s.Read(context.Background(), "none"); ok || err != nil {
		t.Errorf("want nothing, have %v %v", ok, err)
	}
	if n, err := s.client.Load().Exists(context.Background(), s.bucketKey("none")).Result(); n != 0 || err != nil {
		t.Errorf("reading made a record: %d %v", n, err)
	}
}

func TestEvictionPolicyIsWarnedAbout(t *testing.T) {
	for policy, want := range map[string]bool{"noeviction": false, "allkeys-lru": true} {
		r := redistest.Run(t, "--maxmemory-policy", policy)
		var log bytes.Buffer
		state(t, openAt(t, r.URL(), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }))
		if have := strings.Contains(log.String(), "noeviction"); have != want {
			t.Errorf("%s: warned %v, want %v: %s", policy, have, want, &log)
		}
	}
}

func TestValidateReturnsAllProblems(t *testing.T) {
	err := Config{URL: "http://x", Prefix: "a{", Timeout: -1, PoolSize: -1}.Validate()
	for _, want := range []string{"URL", "braces", "timeout", "pool size"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want a word about %s, have %v", want, err)
		}
	}
	if err := (Config{URL: "redis://localhost:6379/1"}).Validate(); err != nil {
		t.Error(err)
	}
}
