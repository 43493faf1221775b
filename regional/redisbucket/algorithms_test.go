package redisbucket

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/enforce"
)

func TestK32TwoPeriodsOnOneDescriptor(t *testing.T) {
	const doc = `- key: user
  rate_limits:
  - {name: minute, unit: minute, requests_per_unit: 10, quota: {WITH}}
  - {name: month, unit: month, requests_per_unit: 250, quota: {WITH}}`
	inAll(t, doc, func(t *testing.T, _ string, a *agent) {
		for i := range quota.Micros(25) {
			a.at(i*3*minute).want("ten in a minute", 10, true)
			if s := a.want("and one", 1, false); i < 24 && s.Limit.Name != "minute" {
				t.Fatalf("minute %d: denied by the %s", i+1, s.Limit.Name)
			}
		}
		if s := a.at(90*minute).want("the 251st of the month", 1, false); s.Limit.Name != "month" {
			t.Errorf("denied by the %s", s.Limit.Name)
		}
	})
}

func TestK33DeniedElsewhereIsNotCounted(t *testing.T) {
	const doc = `- {key: group, rate_limit: {unit: hour, requests_per_unit: 10, quota: {WITH}}}
- {key: special, rate_limit: {unit: hour, requests_per_unit: 3, quota: {WITH}}}`
	inAll(t, doc, func(t *testing.T, _ string, a *agent) {
		for i := range 5 {
			if have := a.decide(enforce.Request{Descriptors: []enforce.Descriptor{hits("group=g", 1), hits("special=s", 1)}}).Over; have != (i >= 3) {
				t.Errorf("request %d: over %v", i+1, have)
			}
		}
		if s := a.one(hits("group=g", 0)); s.Remaining != 7 {
			t.Errorf("the group has %d left, want 7", s.Remaining)
		}
	})
}

// K34: a limit that was raised admits what it says a period later at the latest. Until
// then it gives nothing that the limit before would have had to bound: a bucket earns at
// the new rate at once, a window has what it has.
func TestK34ARaisedLimitIsInForce(t *testing.T) {
	inAll(t, user("unit: hour, requests_per_unit: 10"), func(t *testing.T, algorithm string, a *agent) {
		if have := a.stream(0, 50*ms, ms, 1); have != 10 {
			t.Errorf("before: have %d, want 10", have)
		}
		a.adopt(algorithm, user("unit: hour, requests_per_unit: 20"))
		if s := a.at(quota.Second).ask(0); s.Limit.RequestsPerUnit != 20 {
			t.Errorf("have %v", s.Limit)
		}
		within(t, "in the hour that runs", a.stream(quota.Second, hour, minute, 1), algorithm, map[string][2]int64{
			tokens: {19, 20}, leaky: {19, 20}, fixed: {0, 10}, log: {0, 10}, counter: {0, 10},
		})
		// The counter has the hour before for another one.
		if have := a.stream(3*hour, 4*hour, minute, 1); have < 20 {
			t.Errorf("in a later hour: have %d, want 20", have)
		}
	})
}

func TestK35TheNarrowRuleHasItsOwnCount(t *testing.T) {
	const doc = `- {key: user, value: "*", rate_limit: {unit: hour, requests_per_unit: 1000, quota: {WITH}}}
- {key: user, value: m, rate_limit: {unit: hour, requests_per_unit: 10, quota: {WITH}}}`
	inAll(t, doc, func(t *testing.T, _ string, a *agent) {
		for i := range 12 {
			if a.one(hits("user=other", 5)).Over || a.one(hits("user=m", 1)).Over != (i >= 10) {
				t.Errorf("request %d is not answered by its own rule", i+1)
			}
		}
	})
}

func TestK36K37ABucketIsThatOfItsRuleAndValues(t *testing.T) {
	const doc = `- {key: user, rate_limit: {unit: hour, requests_per_unit: 5, quota: {WITH}}}
- {key: route, rate_limit: {unit: hour, requests_per_unit: 100, quota: {WITH}}}`
	inAll(t, doc, func(t *testing.T, _ string, a *agent) {
		for _, user := range []string{"user=a", "user=b"} {
			admitted := 0
			for _, route := range []string{"route=1", "route=2"} {
				for range 3 {
					if !a.decide(enforce.Request{Descriptors: []enforce.Descriptor{hits(route, 1), hits(user, 1)}}).Over {
						admitted++
					}
				}
			}
			if admitted != 5 {
				t.Errorf("%s: admitted %d of 3 and 3, want 5", user, admitted)
			}
		}
	})
}

func TestK46ALoweredLimitIsInForceAtOnce(t *testing.T) {
	for _, used := range []int64{0, 2, 15} {
		inAll(t, user("unit: hour, requests_per_unit: 20"), func(t *testing.T, algorithm string, a *agent) {
			a.ask(used)
			a.adopt(algorithm, user("unit: hour, requests_per_unit: 10"))
			if s := a.at(quota.Second).ask(0); s.Remaining > 10 || s.Limit.RequestsPerUnit != 10 {
				t.Errorf("%d used: have %d left of %d", used, s.Remaining, s.Limit.RequestsPerUnit)
			}
			if s := a.want("twelve of ten", 12, false); !s.Never {
				t.Errorf("have %+v", s)
			}
			if have := a.stream(quota.Second, 2*quota.Second, 50*ms, 1); have > 10 {
				t.Errorf("%d used: %d more are admitted, want 10 at most", used, have)
			}
		})
	}
}

// K49 and K67: who is denied moves nothing, neither at the end of a period nor by asking
// all the time: the same is admitted with and without him.
func TestK49K67AskingMovesNothing(t *testing.T) {
	admitted := map[string][]int64{}
	for name, probes := range map[string][]quota.Micros{
		"asked now and then":            nil,
		"asked in the last millisecond": {minute - ms},
		"asked all the time":            {1 * ms, 2 * ms, 30 * quota.Second, minute - 2*ms, minute - 1},
		"asked for more than there is":  {minute - ms, minute - ms + 1},
	} {
		inAll(t, user("unit: minute, requests_per_unit: 5"), func(t *testing.T, algorithm string, a *agent) {
			var have []int64
			for i := range quota.Micros(6) {
				have = append(have, a.stream(i*minute, i*minute+ms, ms/8, 1))
				for _, at := range probes {
					a.at(i*minute+at).want("a probe of more than the limit has left", 5, false)
				}
			}
			if want := admitted[algorithm]; want == nil {
				admitted[algorithm] = have
			} else if !slices.Equal(have, want) {
				t.Errorf("%s: have %v in each minute, want %v", name, have, want)
			}
			if algorithm != counter && !slices.Equal(have, []int64{5, 5, 5, 5, 5, 5}) {
				t.Errorf("have %v in each minute, want 5", have)
			}
		})
	}
	inAll(t, user("unit: minute, requests_per_unit: 5"), func(t *testing.T, algorithm string, a *agent) {
		a.stream(0, minute, 6*quota.Second, 1)
		for i := range quota.Micros(5) {
			within(t, "while asking all the time", a.stream((i+1)*minute, (i+2)*minute, 6*quota.Second, 1), algorithm, map[string][2]int64{
				tokens: {5, 5}, leaky: {5, 5}, fixed: {5, 5}, log: {5, 5}, counter: {4, 6},
			})
		}
	})
}

func TestK51ScriptsThatAreGoneAreSentAgain(t *testing.T) {
	inAll(t, user("unit: hour, requests_per_unit: 10"), func(t *testing.T, _ string, a *agent) {
		for i := range 12 {
			if _, err := shared.Do("SCRIPT", "FLUSH"); err != nil {
				t.Fatal(err)
			}
			a.want("after a flush", 1, i < 10)
		}
	})
}

func TestK59K61ParallelRequestsShareTheLimit(t *testing.T) {
	for _, tc := range []struct{ limit, callers int64 }{{1, 50}, {150, 400}} {
		inAll(t, user(fmt.Sprintf("unit: hour, requests_per_unit: %d", tc.limit)), func(t *testing.T, _ string, a *agent) {
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for range tc.callers {
				wg.Go(func() {
					if !a.ask(1).Over {
						admitted.Add(1)
					}
				})
			}
			wg.Wait()
			if admitted.Load() != tc.limit {
				t.Errorf("have %d of %d at once, want %d", admitted.Load(), tc.callers, tc.limit)
			}
		})
	}
}

func TestK62OneRecordForEachUser(t *testing.T) {
	inAll(t, user("unit: hour, requests_per_unit: 50"), func(t *testing.T, _ string, a *agent) {
		for i := range 300 {
			a.one(hits(fmt.Sprint("user=", i%3), 1))
			a.one(hits(fmt.Sprint("user=look", i), 0))
		}
		keys, err := a.s.client.Load().Keys(t.Context(), a.s.bucketKey("*")).Result()
		if err != nil || len(keys) != 3 {
			t.Errorf("have %d records, %v, want 3", len(keys), err)
		}
	})
}

// K64: ten agents draw ahead from one bucket, and spend no more than it has.
func TestK64DrawingAheadIsNoOverspend(t *testing.T) {
	for _, algorithm := range []string{tokens, leaky} {
		t.Run(algorithm, func(t *testing.T) {
			first := newAgent(t, algorithm, user("unit: minute, requests_per_unit: 5000"), true)
			agents := []*enforce.Enforcer{first.e}
			for range 9 {
				e := enforce.New(enforce.Config{Store: first.s, RememberDenials: true, Allowances: true})
				e.Adopt(first.e.Adoption())
				agents = append(agents, e)
			}
			admitted, ahead := 0, 0
			const lasts, each = 4 * quota.Second, 5 * ms
			for at := quota.Micros(0); at < lasts; at += each {
				first.at(at)
				for _, e := range agents {
					first.e = e
					dec := first.decide(enforce.Request{Descriptors: []enforce.Descriptor{hits("user=a", 1)}})
					if !dec.Over {
						admitted++
					}
					if dec.FromAllowance {
						ahead++
					}
				}
			}
			const most = 5000 + 5000*int(lasts)/int(minute)
			if admitted > most || admitted < most*98/100 || ahead == 0 {
				t.Errorf("have %d admitted, %d of them from what was drawn ahead, want at most %d", admitted, ahead, most)
			}
		})
	}
}

// K69: the period becomes shorter while requests come.
func TestK69AShorterPeriodIsInForceAtTheNextRequest(t *testing.T) {
	inAll(t, user("unit: hour, requests_per_unit: 100"), func(t *testing.T, algorithm string, a *agent) {
		a.want("by the old rule", 30, true)
		a.adopt(algorithm, user("unit: minute, requests_per_unit: 10"))
		if s := a.at(quota.Second).ask(1); s.Limit.RequestsPerUnit != 10 || s.Reset > 2*time.Minute {
			t.Errorf("the next request: have %+v", s)
		}
		if s := a.want("more than the new rule has", 11, false); !s.Never {
			t.Errorf("have %+v", s)
		}
		if have := a.stream(2*minute, 3*minute, 2*quota.Second, 1); have < 10 || have > 20 {
			t.Errorf("a period later: have %d in a minute of 10", have)
		}
	})
}
