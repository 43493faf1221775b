package demand

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

func hit(k string, cost int64, admitted bool, level, burst int64) Observation {
	return Observation{
		Key: quota.Key(k), Cost: quota.Tokens(cost) * quota.Token, Admitted: admitted,
		Level: quota.Tokens(level) * quota.Token, Burst: quota.Tokens(burst) * quota.Token, Epoch: 3,
	}
}

func TestUrgent(t *testing.T) {
	type step struct {
		name    string
		o       Observation
		collect bool
		want    bool
	}
	steps := []step{
		{name: "plenty left", o: hit("a", 1, true, 9, 10), want: false},
		{name: "at half is not below half", o: hit("a", 1, true, 5, 10), want: false},
		{name: "falls below half", o: hit("a", 1, true, 4, 10), want: true},
		{name: "stays below half", o: hit("a", 1, true, 3, 10), want: false},
		{name: "back at half is not enough", o: hit("a", 0, true, 6, 10), want: false},
		{name: "below half again without having recovered", o: hit("a", 1, true, 4, 10), want: false},
		{name: "recovers", o: hit("a", 0, true, 8, 10), want: false},
		{name: "falls below half after recovering", o: hit("a", 5, true, 3, 10), want: true},
		{name: "first denial", o: hit("a", 5, false, 3, 10), want: true},
		{name: "second denial", o: hit("a", 5, false, 3, 10), want: false},
		{name: "denial in the next window", o: hit("a", 5, false, 3, 10), collect: true, want: false},
		{name: "a window without denials", o: hit("a", 1, true, 3, 10), collect: true, want: false},
		{name: "denial after a window without", o: hit("a", 5, false, 3, 10), collect: true, want: true},
		{name: "nothing held: denies for the first time", o: hit("b", 1, false, 0, 0), want: true},
	}
	tr := New(Config{})
	now := quota.Micros(0)
	for _, s := range steps {
		if s.collect {
			now += quota.Second / 10
			tr.Collect(now)
		}
		if have := tr.Observe(s.o); have != s.want {
			t.Errorf("%s: have %v, want %v", s.name, have, s.want)
		}
	}
}

func TestCollectSumsAWindow(t *testing.T) {
	tr := New(Config{})
	tr.Collect(5 * quota.Second)
	tr.Observe(hit("a", 1, true, 9, 10))
	tr.Observe(hit("a", 3, true, 6, 10))
	tr.Observe(hit("a", 7, false, 6, 10))
	tr.Observe(hit("b", 1, true, 1, 2))
	if have := tr.Changed(); have != 2 {
		t.Errorf("changed: have %d, want 2", have)
	}
	have := tr.Collect(6 * quota.Second)
	want := []quota.Usage{
		{Key: "a", Window: time.Second, Admitted: 4 * quota.Token, Denied: 7 * quota.Token, Largest: 7 * quota.Token, Level: 6 * quota.Token, Burst: 10 * quota.Token, Epoch: 3},
		{Key: "b", Window: time.Second, Admitted: quota.Token, Largest: quota.Token, Level: quota.Token, Burst: 2 * quota.Token, Epoch: 3},
	}
	if !slices.Equal(have, want) {
		t.Errorf("have %+v\nwant %+v", have, want)
	}
	if have := tr.Collect(6*quota.Second + 1); len(have) != 0 {
		t.Errorf("unchanged keys are not reported again: have %+v", have)
	}
}

func TestIdleKeySaysSoOnce(t *testing.T) {
	tr := New(Config{Idle: time.Second})
	tr.Observe(hit("a", 2, true, 8, 10))
	tr.Collect(quota.Second)
	if have := tr.Collect(quota.Second + quota.Second/2); len(have) != 0 {
		t.Fatalf("not idle yet: have %+v", have)
	}
	have := tr.Collect(2 * quota.Second)
	want := []quota.Usage{{Key: "a", Window: time.Second, Level: 8 * quota.Token, Burst: 10 * quota.Token, Epoch: 3}}
	if !slices.Equal(have, want) {
		t.Errorf("have %+v, want %+v", have, want)
	}
	if have := tr.Collect(9 * quota.Second); len(have) != 0 {
		t.Errorf("said already: have %+v", have)
	}
	if n := len(tr.shard("a").keys); n != 0 {
		t.Errorf("an idle key is forgotten: have %d keys", n)
	}
}

func TestReturnKeepsUndeliveredReports(t *testing.T) {
	tr := New(Config{})
	tr.Observe(hit("a", 2, true, 8, 10))
	lost := tr.Collect(quota.Second)
	tr.Observe(hit("a", 3, true, 5, 10))
	tr.Return(lost)
	have := tr.Collect(2 * quota.Second)
	want := []quota.Usage{{Key: "a", Window: 2 * time.Second, Admitted: 5 * quota.Token, Largest: 3 * quota.Token, Level: 5 * quota.Token, Burst: 10 * quota.Token, Epoch: 3}}
	if !slices.Equal(have, want) {
		t.Errorf("have %+v\nwant %+v", have, want)
	}
}

// K96: one-shot keys do not pile up, whether or not anybody collects.
func TestK96KeysAreBounded(t *testing.T) {
	tr := New(Config{MaxKeys: 64, MaxReport: 1000})
	for i := range 100_000 {
		tr.Observe(hit(fmt.Sprint(i), 1, true, 1, 2))
	}
	keys, dirty, gone := 0, 0, 0
	for i := range tr.shards {
		keys += len(tr.shards[i].keys)
		dirty += len(tr.shards[i].dirty)
		gone += len(tr.shards[i].gone)
	}
	if keys > 64 || dirty > 64*3 || gone > 64 {
		t.Errorf("have %d keys, %d dirty, %d gone", keys, dirty, gone)
	}
	if have, want := len(tr.Collect(1)), tr.Changed(); have != keys+gone || want != 0 {
		t.Errorf("collected %d of %d, %d still changed", have, keys+gone, want)
	}
}

func TestMaxReportLeavesTheRestForLater(t *testing.T) {
	tr := New(Config{MaxReport: 10})
	for i := range 35 {
		tr.Observe(hit(fmt.Sprint(i), 1, true, 1, 2))
	}
	seen := map[quota.Key]bool{}
	for range 4 {
		for _, u := range tr.Collect(1) {
			seen[u.Key] = true
		}
	}
	if len(seen) != 35 || tr.Changed() != 0 {
		t.Errorf("have %d keys, %d left", len(seen), tr.Changed())
	}
}

func TestAbsurdCostsSaturate(t *testing.T) {
	tr := New(Config{})
	for range 3 {
		tr.Observe(Observation{Key: "a", Cost: quota.MaxTokens})
	}
	if have := tr.Collect(1)[0].Denied; have != quota.MaxTokens {
		t.Errorf("have %d, want %d", have, quota.MaxTokens)
	}
}

// Every admitted token is in exactly one report, under concurrent use.
func TestK65NothingIsLostOrCountedTwice(t *testing.T) {
	tr := New(Config{MaxReport: 7})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 5000 {
				tr.Observe(hit(fmt.Sprint((i*7+g)%50), 1, true, 1, 2))
			}
		})
	}
	stop, sums := make(chan struct{}), make(chan quota.Tokens)
	go func() {
		var sum quota.Tokens
		for now := quota.Micros(1); ; now++ {
			for _, u := range tr.Collect(now) {
				sum += u.Admitted
			}
			select {
			case <-stop:
				for tr.Changed() > 0 {
					for _, u := range tr.Collect(now) {
						sum += u.Admitted
					}
				}
				sums <- sum
				return
			default:
			}
		}
	}()
	wg.Wait()
	close(stop)
	if have, want := <-sums, 20_000*quota.Token; have != want {
		t.Errorf("have %v, want %v", have, want)
	}
}

func BenchmarkObserve(b *testing.B) {
	tr := New(Config{})
	o := hit("domain|user=alice", 1, true, 9, 10)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			tr.Observe(o)
		}
	})
}
