package quota

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func capacities() *rapid.Generator[Capacity] {
	return rapid.Custom(func(t *rapid.T) Capacity {
		return Capacity{
			Rate: Rate{
				Tokens: Tokens(rapid.Int64Range(0, int64(MaxTokens)).Draw(t, "rate")),
				Per:    Micros(rapid.Int64Range(1, 400*86400*int64(Second)).Draw(t, "per")),
			},
			Burst: Tokens(rapid.Int64Range(0, int64(MaxTokens)).Draw(t, "burst")),
		}
	})
}

// The oracle counts in arbitrary precision: level + floor(rate*elapsed/per), and
// no more than MaxTokens at once.
func TestRefillMatchesBigIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := capacities().Draw(t, "capacity")
		level := Tokens(rapid.Int64Range(-int64(MaxTokens), int64(MaxTokens)).Draw(t, "level"))
		elapsed := Micros(rapid.Int64Range(0, 1<<52).Draw(t, "elapsed"))
		have, unspent := c.Refill(level, elapsed)

		product := new(big.Int).Mul(big.NewInt(int64(c.Rate.Tokens)), big.NewInt(int64(elapsed)))
		gained, rem := new(big.Int).QuoRem(product, big.NewInt(int64(c.Rate.Per)), new(big.Int))
		if most := big.NewInt(int64(MaxTokens)); gained.Cmp(most) > 0 {
			gained, rem = most, new(big.Int)
		}
		want := new(big.Int).Add(big.NewInt(int64(level)), gained)
		if level >= c.Burst || want.Cmp(big.NewInt(int64(c.Burst))) >= 0 {
			if have != c.Burst || unspent != 0 {
				t.Fatalf("refill of %v from %d over %d: have %d unspent %d, want a full bucket", c, level, elapsed, have, unspent)
			}
			return
		}
		wantUnspent := int64(0)
		if c.Rate.Tokens > 0 {
			wantUnspent = new(big.Int).Quo(rem, big.NewInt(int64(c.Rate.Tokens))).Int64()
		}
		if int64(have) != want.Int64() || int64(unspent) != wantUnspent {
			t.Fatalf("refill of %v from %d over %d: have %d unspent %d, want %v unspent %d", c, level, elapsed, have, unspent, want, wantUnspent)
		}
	})
}

// Refilling in steps never gains more than refilling at once, and loses less
// than one micro-token a step.
func TestRefillInStepsFavoursTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := capacities().Draw(t, "capacity")
		steps := rapid.SliceOfN(rapid.Int64Range(0, int64(Second)), 1, 50).Draw(t, "steps")
		var at, now Micros
		var level Tokens
		for _, s := range steps {
			now += Micros(s)
			filled, unspent := c.Refill(level, now-at)
			level, at = filled, now-unspent
		}
		once, _ := c.Refill(0, now)
		if level > once || level < once-Tokens(len(steps)) {
			t.Fatalf("in %d steps: have %d, at once %d", len(steps), level, once)
		}
	})
}

func TestTimeToIsTheFirstMomentThatHasTheTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := capacities().Draw(t, "capacity")
		want := Tokens(rapid.Int64Range(0, int64(c.Burst)).Draw(t, "want"))
		level := Tokens(rapid.Int64Range(max(-int64(Second), int64(want-MaxTokens)), int64(c.Burst)).Draw(t, "level"))
		wait, ok := c.TimeTo(level, want)
		if !ok {
			return
		}
		if have, _ := c.Refill(level, wait); have < want {
			t.Fatalf("after %d: have %d, want %d", wait, have, want)
		}
		if wait > 0 {
			if have, _ := c.Refill(level, wait-1); have >= want {
				t.Fatalf("a microsecond before %d: have %d already", wait, have)
			}
		}
	})
}

func TestRateInAnotherPeriodRoundsUp(t *testing.T) {
	for _, tt := range []struct {
		reason string
		rate   Rate
		per    Micros
		want   Tokens
	}{
		{"the same period is exact", Rate{7 * Token, Second}, Second, 7 * Token},
		{"a longer period multiplies", Rate{7 * Token, Second}, 60 * Second, 420 * Token},
		{"a remainder counts as one more", Rate{1, 3 * Second}, Second, 1},
		{"nothing stays nothing", Rate{0, Second}, 60 * Second, 0},
	} {
		if have := tt.rate.In(tt.per); have.Tokens != tt.want || have.Per != tt.per {
			t.Errorf("%s: have %v, want %v per %v", tt.reason, have, tt.want, tt.per)
		}
	}
}

func TestTokensPrintAsWholeTokens(t *testing.T) {
	for tokens, want := range map[Tokens]string{
		0: "0", Token: "1", 2_500_000: "2.5", 1: "0.000001", -Token: "-1", -1: "-0.000001", MaxTokens: "9007199254.740991",
	} {
		if have := tokens.String(); have != want {
			t.Errorf("%d micro-tokens: have %s, want %s", int64(tokens), have, want)
		}
	}
}
