package buckettest

import (
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

const (
	ms     = 1000
	second = quota.Second
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// Taker takes cost tokens from one bucket, at a time after the play's beginning.
type Taker func(at quota.Micros, cost quota.Tokens) bucket.Verdict

// Fresh returns a bucket that nobody has used, in force with the whole of share,
// and full at time 0.
type Fresh func(t *testing.T, share quota.Capacity) Taker

// Per is a capacity of whole tokens.
func Per(tokens uint64, period quota.Micros, burst uint64) quota.Capacity {
	return quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(tokens), Per: period}, Burst: quota.Whole(burst)}
}

// step is one take of a play.
type step struct {
	at    quota.Micros
	cost  int64 // negative: given back
	want  bool
	level string       // afterwards, exactly
	retry quota.Micros // of a denial, rounded up to whole microseconds
}

var plays = []struct {
	name  string
	share quota.Capacity
	steps []step
}{
	{"K02RefillIsCreditedUnderSteadyLoad", Per(10, 30*second, 10), []step{
		{0, 1, true, "9", 0}, {second, 1, true, "8.333333", 0}, {2 * second, 1, true, "7.666666", 0},
		{3 * second, 1, true, "7", 0}, {4 * second, 1, true, "6.333333", 0}, {5 * second, 1, true, "5.666666", 0},
		{6 * second, 1, true, "5", 0}, {7 * second, 1, true, "4.333333", 0}, {8 * second, 1, true, "3.666666", 0},
		{9 * second, 1, true, "3", 0}, {10 * second, 1, true, "2.333333", 0}, // 11 used, 3 and a third came back
	}},
	{"K03IdleBucketIsFullAndNoMore", Per(10, second, 10), []step{
		{0, 1, true, "9", 0}, {10 * second, 0, true, "10", 0}, {10 * second, 11, false, "10", bucket.Forever},
	}},
	{"K05FastRateStillCounts", Per(1000, minute, 1000), []step{
		{0, 1, true, "999", 0}, {0, 1, true, "998", 0}, {0, 1, true, "997", 0},
	}},
	{"K07VeryLargeLimitCountsDown", Per(1_000_000, hour, 1_000_000), []step{
		{0, 1, true, "999999", 0}, {0, 1, true, "999998", 0}, {0, 1, true, "999997", 0}, {0, 1, true, "999996", 0},
		{0, 1, true, "999995", 0}, {0, 1, true, "999994", 0}, {0, 1, true, "999993", 0}, {0, 1, true, "999992", 0},
		{0, 1, true, "999991", 0}, {0, 1, true, "999990", 0},
	}},
	{"K08ZeroLimitDenies", Per(0, second, 0), []step{
		{0, 1, false, "0", bucket.Forever}, {second, 1, false, "0", bucket.Forever}, {day, 1, false, "0", bucket.Forever}, {day, 0, true, "0", 0},
	}},
	{"K09ZeroRateAdmitsItsBurstOnce", Per(0, second, 1), []step{
		{0, 1, true, "0", 0}, {0, 1, false, "0", bucket.Forever}, {second, 1, false, "0", bucket.Forever},
		{day, 1, false, "0", bucket.Forever}, {399 * day, 1, false, "0", bucket.Forever},
	}},
	{"K12DeniedRequestBurnsNoTokens", Per(10, 3600*second, 10), []step{
		{0, 8, true, "2", 0}, {0, 5, false, "2", 1080 * second}, {0, 1, true, "1", 0},
	}},
	{"K14HeavyThenLightCostsAddUp", Per(10, minute, 10), []step{
		{0, 8, true, "2", 0}, {0, 1, true, "1", 0}, {0, 1, true, "0", 0}, {0, 1, false, "0", 6 * second},
	}},
	{"K16NoEdgeWhereTheLimitDoubles", Per(10, minute, 10), []step{
		{59_900 * ms, 10, true, "0", 0}, {60_100 * ms, 10, false, "0.033333", 59_800 * ms}, {60_100 * ms, 1, false, "0.033333", 5_800 * ms},
	}},
	{"K20HalfTheWaitIsNotEnough", Per(6, minute, 6), []step{
		{0, 6, true, "0", 0}, {0, 1, false, "0", 10 * second}, {5_100 * ms, 1, false, "0.51", 4_900 * ms},
		{10*second - 1, 1, false, "0.999999", 1}, {10 * second, 1, true, "0", 0},
	}},
	{"K22TimeThatStepsBackRefillsNothingAndLosesNothing", Per(10, second, 10), []step{
		{second, 5, true, "5", 0}, {0, 0, true, "5", 0}, {0, 1, true, "4", 0}, {second, 0, true, "4", 0}, {1100 * ms, 0, true, "5", 0},
	}},
	{"K23ZeroCostOnlyLooks", Per(2, day, 2), []step{
		{0, 0, true, "2", 0}, {0, 0, true, "2", 0}, {0, 0, true, "2", 0}, {0, 0, true, "2", 0}, {0, 0, true, "2", 0},
		{0, 1, true, "1", 0}, {0, 1, true, "0", 0}, {0, 1, false, "0", day / 2}, {0, 0, true, "0", 0},
	}},
	{"K24RefundAtZero", Per(10, day, 10), []step{
		{0, 10, true, "0", 0}, {0, -1, true, "1", 0}, {0, 1, true, "0", 0}, {0, 1, false, "0", day / 10},
		{0, -4, true, "4", 0}, {0, -100, true, "10", 0}, {day, 11, false, "10", bucket.Forever}, // never above the burst
	}},
	{"K24RefundsDoNotFillTheBucketTwice", Per(10, day, 10), []step{
		{0, -5, true, "10", 0}, {0, 10, true, "0", 0}, {day, -5, true, "10", 0}, {day, 10, true, "0", 0}, {day, 1, false, "0", day / 10},
	}},
	{"K27SpentMonthIsSpentUntilItsEnd", Per(100, 30*day, 100), []step{
		{0, 100, true, "0", 0}, {30*day - day/2, 100, false, "98.333333", day / 2}, {30 * day, 100, true, "0", 0},
	}},
	{"K31DayIsNotOverInMilliseconds", Per(10, day, 10), []step{
		{0, 1, true, "9", 0}, {5 * ms, 1, true, "8", 0}, {10 * ms, 1, true, "7.000001", 0},
	}},
	{"K49AskingAtTheVeryEndMovesNothing", Per(1, 10*second, 1), []step{
		{0, 1, true, "0", 0}, {9_999 * ms, 1, false, "0.9999", ms}, {10 * second, 1, true, "0", 0},
		{19_999 * ms, 1, false, "0.9999", ms}, {20 * second, 1, true, "0", 0}, {29_999 * ms, 1, false, "0.9999", ms},
	}},
	{"K81ClockThatJumpsAnHourGivesOneBurstAtMost", Per(10, minute, 10), []step{
		{hour, 10, true, "0", 0}, {2 * hour, 10, true, "0", 0}, // forward: full once
		{hour, 1, false, "0", 6 * second}, {2*hour - 1, 1, false, "0", 6 * second}, // back: nothing, until the clock has caught up
		{2*hour + 6*second, 1, true, "0", 0},
	}},
}

// Run plays all cases.
func Run(t *testing.T, fresh Fresh) {
	for _, p := range plays {
		t.Run(p.name, func(t *testing.T) {
			take := fresh(t, p.share)
			for i, s := range p.steps {
				v := take(s.at, quota.Tokens(s.cost)*quota.Token)
				if v.Admitted != s.want || v.Level.String() != s.level || v.Retry != s.retry {
					t.Fatalf("step %d: have %v with %v left, to be tried again in %d us, want %v with %s, %d us",
						i, v.Admitted, v.Level, v.Retry, s.want, s.level, s.retry)
				}
			}
		})
	}
	for _, s := range streams {
		t.Run(s.name, func(t *testing.T) { s.play(t, fresh) })
	}
	t.Run("K11CostAboveBurstIsNeverSatisfiable", func(t *testing.T) {
		v := fresh(t, Per(5, second, 5))(0, quota.Whole(10))
		if v.Admitted || !v.Never || v.Retry != bucket.Forever || v.Level != quota.Whole(5) {
			t.Errorf("have %+v, want denied for ever with 5 left", v)
		}
	})
}
