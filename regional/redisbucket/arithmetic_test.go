package redisbucket

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/enforce"
)

func TestK01NoJumpToFullOncePerPeriod(t *testing.T) {
	inAll(t, user("unit: minute, requests_per_unit: 3"), func(t *testing.T, algorithm string, a *agent) {
		// Three at once and then one in a third of the period. What counts in windows has
		// three in each, and the counter rounds up what is left of the one before.
		within(t, "in three periods", a.stream(0, 3*minute, 6*quota.Second, 1), algorithm, map[string][2]int64{
			tokens: {11, 12}, leaky: {11, 12}, fixed: {9, 9}, log: {9, 9}, counter: {6, 9},
		})
	})
}

func TestK02RefillIsCreditedUnderSteadyLoad(t *testing.T) {
	inEach(t, []string{tokens, leaky}, user("unit: second, unit_multiplier: 30, requests_per_unit: 10"), func(t *testing.T, _ string, a *agent) {
		if n := a.stream(0, 11*quota.Second, quota.Second, 1); n != 11 || a.left() != 2 {
			t.Errorf("have %d admitted and %d left, want 11 and 2", n, a.left())
		}
	})
}

// K03 and K48: no record has a lifetime here, so each is there long after its period. It
// holds as much as none, and no more.
func TestK03K48AnIdleLimitIsWholeAndNoMore(t *testing.T) {
	inAll(t, user("unit: minute, requests_per_unit: 10"), func(t *testing.T, _ string, a *agent) {
		a.want("one", 1, true)
		if have := a.at(10 * minute).left(); have != 10 {
			t.Errorf("have %d left, want 10", have)
		}
		a.want("all of it", 10, true)
		a.want("and no more", 1, false)
		a.at(12*minute).want("spent and whole again", 10, true)
	})
}

func TestK04LargeLimitsLoseNothingToRounding(t *testing.T) {
	inAll(t, user("unit: minute, requests_per_unit: 10000"), func(t *testing.T, _ string, a *agent) {
		for i := range quota.Micros(20) {
			a.at(i*6*quota.Second).want("one", 1, true)
			if have := a.left(); have < 9980 {
				t.Fatalf("take %d: have %d left, want 9980 at least", i+1, have)
			}
		}
	})
}

// K05, K19 and K50: a record is there after the first request, and lives for as long as
// the limit needs to be whole again: its period, of the counter two, and what is added for
// clocks that differ.
func TestK05K19K50RecordsLiveAsLongAsTheyAreNeeded(t *testing.T) {
	units := map[string]quota.Micros{"second": quota.Second, "minute": minute, "hour": hour, "day": day, "week": 7 * day, "month": 30 * day, "year": 365 * day}
	for _, algorithm := range algorithms {
		for _, n := range []int64{1, 1000, 10_000, 1_000_000_000} {
			doc := ""
			lengths := map[string]quota.Micros{}
			for unit, length := range units {
				if algorithm == fixed && length < minute || algorithm == log && n > 10_000 {
					continue // the rules refuse it
				}
				lengths[unit] = length
				doc += fmt.Sprintf("- {key: %s, rate_limit: {unit: %s, requests_per_unit: %d, quota: {WITH}}}\n", unit, unit, n)
			}
			if doc == "" {
				continue
			}
			t.Run(fmt.Sprint(algorithm, " ", n), func(t *testing.T) {
				a := newAgent(t, algorithm, doc, false)
				for unit, length := range lengths {
					if s := a.one(hits(unit+"=a", n)); s.Over {
						t.Fatalf("%s: have %+v", unit, s)
					}
					life := a.life(unit + "=a")
					least := length
					if algorithm == fixed && length > day {
						least = 1 // of a week, a month and a year some is over
					}
					if life < least || life > 2*length+3*minute {
						t.Errorf("%d a %s: the record lives %v", n, unit, life.Duration())
					}
				}
			})
		}
	}
}

func TestK06K21NoUnderfillAndNoRateAboveResolution(t *testing.T) {
	for _, perSecond := range []int64{2000, 8000} {
		limit := fmt.Sprintf("unit: minute, requests_per_unit: %d", 60*perSecond)
		inEach(t, []string{tokens, leaky, fixed, counter}, user(limit), func(t *testing.T, algorithm string, a *agent) {
			// Five times as much as is allowed. The first minute spends the burst, too.
			a.stream(0, minute, quota.Second/4, perSecond*5/4)
			a.stream(minute-quota.Second, minute, quota.Second/100, perSecond/20)
			if have := a.stream(minute, 2*minute, quota.Second/20, perSecond/4); have < 60*perSecond*99/100 || have > 60*perSecond*101/100 {
				t.Errorf("have %d in a minute, want %d within 1 %%", have, 60*perSecond)
			}
		})
	}
	// The log's largest.
	inEach(t, []string{log}, user("unit: second, requests_per_unit: 10000"), func(t *testing.T, _ string, a *agent) {
		for i := range quota.Micros(3) {
			if have := a.stream(i*quota.Second, (i+1)*quota.Second, 5*ms, 250); have < 9900 || have > 10_000 {
				t.Errorf("have %d in a second, want 10000 within 1 %%", have)
			}
		}
	})
}

func TestK07VeryLargeLimitsCountDown(t *testing.T) {
	inEach(t, []string{tokens, leaky, fixed, counter}, user("unit: hour, requests_per_unit: 1000000"), func(t *testing.T, _ string, a *agent) {
		for i := range uint32(10) {
			if s := a.want("a call", 1, true); s.Remaining != 999_999-i {
				t.Errorf("call %d: have %d left", i+1, s.Remaining)
			}
		}
	})
}

func TestK08K09NothingIsNotEverything(t *testing.T) {
	inAll(t, user("unit: minute, requests_per_unit: 0"), func(t *testing.T, _ string, a *agent) {
		for i := range quota.Micros(5) {
			if s := a.at(i*minute).want("of nothing", 1, false); !s.Never {
				t.Errorf("have %+v", s)
			}
		}
	})
	inAll(t, user("unit: day, requests_per_unit: 1"), func(t *testing.T, _ string, a *agent) {
		for i := range quota.Micros(5) {
			a.at(i*hour).want("the one of the day", 1, i == 0)
		}
	})
}

func TestK11CostAboveTheLimitIsNeverSatisfiable(t *testing.T) {
	inAll(t, user("unit: minute, requests_per_unit: 5"), func(t *testing.T, _ string, a *agent) {
		if s := a.want("ten of five", 10, false); !s.Never || s.Remaining != 0 || s.Retry < time.Minute {
			t.Errorf("have %+v", s)
		}
		if have := a.left(); have != 5 {
			t.Errorf("have %d left, want 5", have)
		}
	})
}

func TestK12DeniedRequestBurnsNothing(t *testing.T) {
	inAll(t, user("unit: hour, requests_per_unit: 10"), func(t *testing.T, _ string, a *agent) {
		a.want("use 8", 8, true)
		a.want("ask 5", 5, false)
		if s := a.want("ask 1", 1, true); s.Remaining != 1 {
			t.Errorf("have %d left, want 1", s.Remaining)
		}
	})
}

// K13: what is remembered is not off by one, neither at the first denial nor after it.
func TestK13TheLastOneIsAdmitted(t *testing.T) {
	inAll(t, user("unit: hour, requests_per_unit: 10"), func(t *testing.T, _ string, a *agent) {
		a.want("nine", 9, true)
		a.want("two of one", 2, false)
		a.want("two of one again", 2, false)
		a.want("the tenth", 1, true)
		a.want("the eleventh", 1, false)
		a.want("the eleventh again", 1, false)
	})
}

func TestK14HeavyThenLightCostsAddUp(t *testing.T) {
	inAll(t, user("unit: minute, requests_per_unit: 10"), func(t *testing.T, _ string, a *agent) {
		for i, cost := range []int64{8, 1, 1, 1} {
			a.at(quota.Micros(i)*quota.Second).want("heavy, then light", cost, i < 3)
		}
	})
}

func TestK15HitsOfOneMomentAllCount(t *testing.T) {
	inAll(t, user("unit: minute, requests_per_unit: 19"), func(t *testing.T, _ string, a *agent) {
		for i := range 40 {
			a.want("at one moment", 1, i < 19)
		}
	})
}

// K16: around an edge a fixed window admits twice its limit, as the README says of it,
// and nothing else does.
func TestK16OnlyAFixedWindowDoublesAtItsEdge(t *testing.T) {
	inAll(t, user("unit: minute, requests_per_unit: 10"), func(t *testing.T, algorithm string, a *agent) {
		have := a.stream(minute-100*ms, minute-90*ms, ms, 1) + a.stream(minute+100*ms, minute+110*ms, ms, 1)
		within(t, "around the edge", have, algorithm, map[string][2]int64{
			tokens: {10, 10}, leaky: {10, 10}, fixed: {20, 20}, log: {10, 10}, counter: {10, 11},
		})
	})
}

// K17: a greedy client after an idle time. A bucket has its burst and its rate, and a
// burst of one is how it comes close to its rate.
func TestK17WhatAGreedyClientHasInOneMinute(t *testing.T) {
	const from = 3*minute + 30*quota.Second
	const limit = "unit: minute, requests_per_unit: 15"
	inAll(t, user(limit), func(t *testing.T, algorithm string, a *agent) {
		within(t, "in a minute", a.stream(from, from+minute, 500*ms, 1), algorithm, map[string][2]int64{
			tokens: {29, 29}, leaky: {29, 29}, fixed: {30, 30}, log: {15, 15}, counter: {15, 22},
		})
	})
	inEach(t, []string{tokens, leaky}, "- {key: user, rate_limit: {"+limit+", quota: {burst: 1, WITH}}}", func(t *testing.T, _ string, a *agent) {
		if have := a.stream(from, from+minute, 500*ms, 1); have != 15 {
			t.Errorf("with a burst of 1: have %d, want 15", have)
		}
	})
}

func TestK18SixPerMinuteAreSixAtOnce(t *testing.T) {
	inAll(t, user("unit: minute, requests_per_unit: 6"), func(t *testing.T, _ string, a *agent) {
		for range 5 {
			a.want("five at once", 1, true)
		}
	})
}

func TestK20HalfTheWaitIsNotEnough(t *testing.T) {
	inAll(t, user("unit: minute, requests_per_unit: 6"), func(t *testing.T, _ string, a *agent) {
		a.want("all", 6, true)
		wait := quota.MicrosOf(a.want("drained", 1, false).Retry)
		a.at(wait*51/100).want("after half the wait", 1, false)
		a.at(wait-minute/10_000).want("just before its end", 1, false)
		a.at(wait+minute/10).want("after it", 1, true)
	})
}

// K22: a clock that steps back makes no record look old.
func TestK22AClockThatStepsBackKeepsWhatIsUsed(t *testing.T) {
	inAll(t, user("unit: hour, requests_per_unit: 10"), func(t *testing.T, _ string, a *agent) {
		a.at(minute).want("all", 10, true)
		for _, at := range []quota.Micros{minute - 1, 30 * quota.Second, 0, minute} {
			a.at(at).want("before it was used", 1, false)
		}
	})
}

func TestK23ZeroWeights(t *testing.T) {
	inAll(t, user("unit: hour, requests_per_unit: 2"), func(t *testing.T, _ string, a *agent) {
		for range 5 {
			if s := a.want("a look", 0, true); s.Remaining != 2 {
				t.Errorf("have %d left, want 2", s.Remaining)
			}
		}
		d := hits("user=a", 0)
		d.Hits = nil // a request's weight of 0 counts 1
		if a.decide(enforce.Request{Descriptors: []enforce.Descriptor{d}}).Over {
			t.Error("the first was denied")
		}
		a.want("the second", 1, true)
		a.want("the third", 1, false)
		a.want("a look at nothing", 0, true)
	})
}

func TestK24RefundAtZero(t *testing.T) {
	inAll(t, user("unit: day, requests_per_unit: 10"), func(t *testing.T, _ string, a *agent) {
		a.want("all", 10, true)
		a.want("more", 1, false)
		if s := a.want("one back", -1, true); s.Remaining != 1 {
			t.Errorf("have %d left, want 1", s.Remaining)
		}
		a.want("and used", 1, true)
		a.want("no more", 1, false)
		a.want("more than was used", -100, true)
		if have := a.left(); have > 10 {
			t.Errorf("have %d left of 10", have)
		}
	})
}

// K25: what was used beyond the limit leaves nothing of it.
func TestK25ASettlementAboveTheLimitCounts(t *testing.T) {
	inAll(t, user("unit: hour, requests_per_unit: 10"), func(t *testing.T, _ string, a *agent) {
		a.want("the estimate", 1, true)
		d := hits("user=a", 0)
		d.Hits = nil
		req, err := enforce.Settlement(enforce.Request{Descriptors: []enforce.Descriptor{d}}, 1, 15)
		if err != nil {
			t.Fatal(err)
		}
		a.decide(req)
		a.want("what was used is 15", 1, false)
	})
}

// K27: a month of 31 days is counted for 31 days.
func TestK27ASpentMonthIsSpentUntilItsEnd(t *testing.T) {
	of := func(month time.Month, d, h int) quota.Micros {
		return quota.Micros(time.Date(2024, month, d, h, 0, 0, 0, time.UTC).UnixMicro()) - midnight
	}
	inEach(t, []string{fixed}, user("unit: month, requests_per_unit: 100"), func(t *testing.T, _ string, a *agent) {
		a.at(of(1, 1, 0)).want("all of January", 100, true)
		if life := a.life("user=a"); life < 31*day {
			t.Errorf("the record lives %v", life.Duration())
		}
		a.at(of(1, 31, 12)).want("on the 31st", 1, false)
		a.at(of(2, 1, 0)).want("February", 100, true)
	})
}

func TestK28AYearHasMoreThan360Days(t *testing.T) {
	first := quota.Micros(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()) - midnight
	inAll(t, user("unit: year, requests_per_unit: 1"), func(t *testing.T, _ string, a *agent) {
		a.at(first).want("the one of the year", 1, true)
		a.at(first+360*day+hour).want("on day 361", 1, false)
		a.at(first+365*day-1).want("at its very end", 1, false)
	})
}

func TestK31ADayIsNotOverInMilliseconds(t *testing.T) {
	inAll(t, user("unit: day, requests_per_unit: 10"), func(t *testing.T, _ string, a *agent) {
		for i := range quota.Micros(3) {
			if s := a.at(hour+i*5*ms).want("in 10 ms", 1, true); s.Remaining != 9-uint32(i) {
				t.Errorf("have %d left, want %d", s.Remaining, 9-i)
			}
		}
	})
}
