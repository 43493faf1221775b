package quota

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// All regions together never own more than the standing fraction of a limit,
// in burst and in rate.
func TestStandingSharesFitTheirFraction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		burst := Whole(uint64(rapid.Int64Range(1, MaxWhole).Draw(t, "burst")))
		l := Limit{
			Capacity: Capacity{Rate: Rate{Tokens: Whole(uint64(rapid.Int64Range(1, MaxWhole).Draw(t, "rate"))), Per: 60 * Second}, Burst: burst},
			Standing: rapid.Int64Range(0, PPM).Draw(t, "standing"),
		}
		var table Shares
		for i := range rapid.IntRange(1, 6).Draw(t, "regions") {
			table = append(table, Share{Region: string(rune('a' + i)), Weight: rapid.Int64Range(0, MaxWeight).Draw(t, "weight")})
		}
		var sum Capacity
		for _, s := range table {
			c := l.StandingShare(s.Region, table)
			if c.Burst%Token != 0 {
				t.Fatalf("share of %s is not whole: %v", s.Region, c)
			}
			sum = sum.Add(c)
		}
		part, _ := mulDiv(l.Burst, l.Standing, PPM)
		rate, _ := mulDiv(l.Rate.Tokens, l.Standing, PPM)
		if sum.Burst > part || sum.Rate.Tokens > rate {
			t.Fatalf("shares sum to %v, want at most burst %v and rate %v", sum, part, rate)
		}
	})
}

func TestStandingShare(t *testing.T) {
	table := Shares{{"ap", 0}, {"eu", 1}, {"us", 3}}
	limit := func(weights map[string]int64) Limit {
		return Limit{
			Capacity: Capacity{Rate: Rate{Tokens: 1000 * Token, Per: 60 * Second}, Burst: 100 * Token},
			Standing: 100_000, Weights: weights,
		}
	}
	for _, tt := range []struct {
		reason, region string
		weights        map[string]int64
		burst, rate    Tokens
	}{
		{"a quarter of a tenth of 100, rounded down to whole tokens", "eu", nil, 2 * Token, 20 * Token},
		{"three quarters of a tenth", "us", nil, 7 * Token, 70 * Token},
		{"a drained region owns nothing", "ap", nil, 0, 0},
		{"nor does it when the rule gives it a weight", "ap", map[string]int64{"ap": 5}, 0, 0},
		{"the rule's weight replaces the table's", "eu", map[string]int64{"eu": 7}, 7 * Token, 70 * Token},
		{"an unknown region owns nothing", "sa", nil, 0, 0},
	} {
		have := limit(tt.weights).StandingShare(tt.region, table)
		if have.Burst != tt.burst || have.Rate.Tokens != tt.rate {
			t.Errorf("%s: have %v, want burst %v rate %v", tt.reason, have, tt.burst, tt.rate)
		}
	}
}

func TestUsableIsShorterThanWhatTheLeaderWaits(t *testing.T) {
	d := DefaultTiming()
	if have, want := d.Usable(), 9550*time.Millisecond; have != want {
		t.Errorf("usable of the default timing: have %v, want %v", have, want)
	}
}

func TestSteady(t *testing.T) {
	bucket := Capacity{Rate: Rate{Tokens: 5 * Token, Per: Second}, Burst: 100 * Token}
	window := Capacity{Rate: Rate{Per: 60 * Second}, Burst: 120 * Token}
	if have := (Limit{Capacity: bucket}).Steady(bucket); have != bucket.Rate {
		t.Errorf("bucket: have %v", have)
	}
	if have := (Limit{Capacity: window, Window: 60 * Second}).Steady(window); have != (Rate{Tokens: 120 * Token, Per: 60 * Second}) {
		t.Errorf("window: have %v", have)
	}
}
