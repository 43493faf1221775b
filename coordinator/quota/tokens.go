package quota

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Tokens is an amount of tokens in micro-tokens: one request of cost 1 is
// Token. A level may be negative (debt); a burst and a cost never are.
type Tokens int64

const (
	// Token is one whole token.
	Token Tokens = 1_000_000
	// MaxTokens is the largest amount that may appear anywhere: 2^53-1
	// micro-tokens, about 9.0e9 tokens. Beyond it a Redis script could not
	// represent the value exactly.
	MaxTokens Tokens = 1<<53 - 1
	// MaxWhole is the largest requests_per_unit and burst a rule may ask for,
	// in whole tokens (the uint32 of the Envoy API).
	MaxWhole = 1<<32 - 1
)

// Whole returns n whole tokens. It saturates at MaxTokens.
func Whole(n uint64) Tokens {
	if n > uint64(MaxTokens/Token) {
		return MaxTokens
	}
	return Tokens(n) * Token
}

// Floor returns the number of whole tokens in t, rounded towards minus infinity.
func (t Tokens) Floor() int64 {
	q := int64(t / Token)
	if t%Token < 0 {
		q--
	}
	return q
}

// String prints t in whole tokens, with up to six decimals.
func (t Tokens) String() string {
	sign := ""
	u := uint64(t)
	if t < 0 {
		sign, u = "-", -u
	}
	s := sign + strconv.FormatUint(u/uint64(Token), 10)
	if frac := u % uint64(Token); frac != 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%06d", frac), "0")
	}
	return s
}

// Micros is a point on, or a length of, a clock in whole microseconds: the
// resolution of Redis TIME and of the ledger clock.
type Micros int64

// Second is one second in microseconds.
const Second Micros = 1_000_000

// MicrosOf truncates d to whole microseconds.
func MicrosOf(d time.Duration) Micros { return Micros(d / time.Microsecond) }

// Duration converts m to a time.Duration.
func (m Micros) Duration() time.Duration { return time.Duration(m) * time.Microsecond }

// Rate is a refill rate: Tokens every Per. Per is the period of the limit the
// rate belongs to, so that the rates of all leases of one limit share one
// denominator and add up exactly.
type Rate struct {
	Tokens Tokens
	Per    Micros
}

// PerSecond returns the rate in whole tokens a second, for display only.
func (r Rate) PerSecond() float64 {
	if r.Per <= 0 {
		return 0
	}
	return float64(r.Tokens) / float64(Token) / (float64(r.Per) / float64(Second))
}

// In returns r with the denominator per, rounded up: what a holder of r can
// gain at most, counted in the new period.
func (r Rate) In(per Micros) Rate {
	if r.Per == per || r.Per <= 0 {
		return Rate{Tokens: r.Tokens, Per: per}
	}
	return Rate{Tokens: mulDivUp(r.Tokens, int64(per), int64(r.Per)), Per: per}
}

// String prints the rate as tokens per period.
func (r Rate) String() string {
	return r.Tokens.String() + "/" + r.Per.Duration().String()
}

// Capacity is what bounds tokens: a refill rate and a burst. A lease, the pool
// and a standing share are each a Capacity with a level.
type Capacity struct {
	Rate  Rate
	Burst Tokens
}

// Max returns the larger of a and b in each dimension. Both must have the same
// period, or one of them must be zero.
func (a Capacity) Max(b Capacity) Capacity {
	m := a
	if m.Rate.Per == 0 {
		m.Rate.Per = b.Rate.Per
	}
	m.Rate.Tokens = max(a.Rate.Tokens, b.Rate.Tokens)
	m.Burst = max(a.Burst, b.Burst)
	return m
}

// Add returns a + b in each dimension. Both must have the same period, or one
// of them must be zero.
func (a Capacity) Add(b Capacity) Capacity {
	if a.Rate.Per == 0 {
		a.Rate.Per = b.Rate.Per
	}
	a.Rate.Tokens += b.Rate.Tokens
	a.Burst += b.Burst
	return a
}

// Sub returns a - b in each dimension; the result may be negative.
func (a Capacity) Sub(b Capacity) Capacity {
	if a.Rate.Per == 0 {
		a.Rate.Per = b.Rate.Per
	}
	a.Rate.Tokens -= b.Rate.Tokens
	a.Burst -= b.Burst
	return a
}

// Covers reports whether a is at least b in both dimensions.
func (a Capacity) Covers(b Capacity) bool {
	return a.Rate.Tokens >= b.Rate.Tokens && a.Burst >= b.Burst
}

// In returns c with its rate in the period per, rounded up.
func (c Capacity) In(per Micros) Capacity { return Capacity{Rate: c.Rate.In(per), Burst: c.Burst} }

// IsZero reports whether c admits nothing ever.
func (c Capacity) IsZero() bool { return c.Rate.Tokens == 0 && c.Burst == 0 }

// String prints the capacity as rate and burst.
func (c Capacity) String() string { return c.Rate.String() + " burst " + c.Burst.String() }

// mulDiv returns floor(a*b/c) and the remainder, for a, b >= 0 and c > 0.
// It saturates when the quotient exceeds MaxTokens.
func mulDiv(a Tokens, b, c int64) (quo Tokens, rem int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return MaxTokens, 0
	}
	q, r := bits.Div64(hi, lo, uint64(c))
	if q > uint64(MaxTokens) {
		return MaxTokens, 0
	}
	return Tokens(q), int64(r)
}

func mulDivUp(a Tokens, b, c int64) Tokens {
	q, r := mulDiv(a, b, c)
	if r != 0 && q < MaxTokens {
		q++
	}
	return q
}

// Refill returns the level that a bucket of capacity c has after elapsed, and
// the part of elapsed that has not been turned into tokens yet: the caller
// advances the bucket's timestamp only by the rest, so that rounding never
// accumulates. A full bucket has turned all of it. The level is never above the
// burst afterwards; a negative elapsed counts as zero; a gain beyond MaxTokens
// is cut to it and the rest of elapsed given up.
//
//	gained  = min(MaxTokens, floor(rate.tokens * elapsed / rate.per))
//	unspent = floor((rate.tokens * elapsed mod rate.per) / rate.tokens)
func (c Capacity) Refill(level Tokens, elapsed Micros) (filled Tokens, unspent Micros) {
	elapsed = max(elapsed, 0)
	if level >= c.Burst {
		return c.Burst, 0
	}
	if c.Rate.Tokens <= 0 || c.Rate.Per <= 0 {
		return level, 0
	}
	gained, rem := mulDiv(c.Rate.Tokens, int64(elapsed), int64(c.Rate.Per))
	// Written so that a saturated gain cannot overflow.
	if gained >= c.Burst-level {
		return c.Burst, 0
	}
	return level + gained, Micros(rem / int64(c.Rate.Tokens))
}

// TimeTo returns how long a bucket at level needs, from its timestamp, until it
// holds want, rounded up to a microsecond; ok is false when it never will. What
// it lacks beyond MaxTokens it gains with a second refill only.
func (c Capacity) TimeTo(level, want Tokens) (wait Micros, ok bool) {
	if level >= want {
		return 0, true
	}
	if want > c.Burst || c.Rate.Tokens <= 0 || c.Rate.Per <= 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(want-level), uint64(c.Rate.Per))
	if hi >= uint64(c.Rate.Tokens) {
		return 0, false
	}
	q, r := bits.Div64(hi, lo, uint64(c.Rate.Tokens))
	if q >= 1<<53-1 {
		return 0, false
	}
	if r != 0 {
		q++
	}
	return Micros(q), true
}
