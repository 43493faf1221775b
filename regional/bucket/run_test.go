package bucket

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// TestRunsEqualOneRequestAfterTheOther serves random requests in one step and,
// on a copy of the store, one by one: every verdict and every record must be the
// same, whatever the region's session, the modes and the levels are.
func TestRunsEqualOneRequestAfterTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(limit int64, name string) int64 { return rapid.Int64Range(0, limit).Draw(t, name) }
		capacity := func() quota.Capacity {
			return quota.Capacity{
				Rate:  quota.Rate{Tokens: quota.Tokens(amount(1e9, "rate")), Per: quota.Micros(amount(1e8, "per"))},
				Burst: quota.Tokens(amount(100, "burst")),
			}
		}
		s := region()
		now := start + quota.Micros(amount(1e9, "age"))
		if err := s.Renew(now, "one", 1, now+quota.Micros(rapid.Int64Range(-1, 1).Draw(t, "deadline"))); err != nil {
			t.Fatal(err)
		}
		var asks []Ask
		for _, key := range []quota.Key{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "buckets")] {
			st := Standing{Capacity: capacity(), Base: quota.Tokens(amount(100, "base")), Since: now - quota.Micros(amount(1000, "since"))}
			asks = append(asks, Ask{
				Key: key, Standing: st, Mode: Mode(rapid.IntRange(0, 3).Draw(t, "mode")),
				Debt:   quota.Tokens(rapid.SampledFrom([]int64{0, 0, 1, 20, 70, int64(quota.MaxTokens)}).Draw(t, "debt")),
				Settle: rapid.IntRange(0, 4).Draw(t, "settle") == 0,
			})
			switch rapid.IntRange(0, 3).Draw(t, "record") {
			case 0:
				// Refused when the session is over: then there is no record.
				_, _ = s.Apply(now, "one", ApplyAsk{Standing: st, Assignment: quota.Assignment{
					Key: key, Session: 1, Epoch: 1, Lease: capacity(), Credit: quota.Tokens(amount(100, "credit")),
				}})
			case 1:
				if err := s.Charge(now-100, "one", []Charge{{Key: key, Tokens: quota.Tokens(amount(150, "charged")), Standing: st}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		var runs []Run
		for range rapid.IntRange(1, 5).Draw(t, "runs") {
			r := Run{Count: rapid.IntRange(1, 5).Draw(t, "count")}
			for range asks {
				r.Costs = append(r.Costs, quota.Tokens(rapid.Int64Range(-20, 30).Draw(t, "cost")))
			}
			runs = append(runs, r)
		}

		oneByOne := s.Clone()
		before, admitted, _, _ := s.TakeRuns(now, asks, runs)
		for i, r := range runs {
			for place := range r.Count {
				single := append([]Ask(nil), asks...)
				for j := range single {
					single[j].Cost = r.Costs[j]
				}
				ok, want := oneByOne.Take(now, single)
				if have := Verdicts(single, before, place, admitted[i]); ok != (place < admitted[i]) || !reflect.DeepEqual(want, have) {
					t.Fatalf("run %d, request %d: want %v %+v, have %d admitted, %+v", i, place, ok, want, admitted[i], have)
				}
			}
			r.Charge(asks, before, admitted[i])
		}
		for _, a := range asks {
			want, _ := oneByOne.Read(a.Key)
			have, _ := s.Read(a.Key)
			if want != have || s.Life(a.Key) != oneByOne.Life(a.Key) {
				t.Fatalf("record %q: want %+v, have %+v", a.Key, want, have)
			}
		}
	})
}
