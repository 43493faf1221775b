package check

import (
	"math/bits"

	"github.com/quorate/quorate/coordinator/quota"
)

// wide is a signed 128-bit integer in two's complement. It holds micro-tokens
// times a period in microseconds, so that no rate ever has to be rounded:
// 2^53 micro-tokens times a period of a year are below 2^98, and a rate times
// any time.Duration is below 2^116.
type wide struct {
	hi int64
	lo uint64
}

// product returns a*b for b >= 0.
func product(a, b int64) wide {
	if a < 0 {
		return wide{}.minus(product(-a, b))
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return wide{int64(hi), lo}
}

func (a wide) plus(b wide) wide {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(uint64(a.hi), uint64(b.hi), carry)
	return wide{int64(hi), lo}
}

func (a wide) minus(b wide) wide {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(uint64(a.hi), uint64(b.hi), borrow)
	return wide{int64(hi), lo}
}

func (a wide) less(b wide) bool {
	return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo
}

// floorOver returns floor(a/d) for d > 0, saturated at ±MaxTokens.
func (a wide) floorOver(d int64) quota.Tokens {
	if a.hi < 0 {
		return -wide{}.minus(a).ceilOver(d)
	}
	if uint64(a.hi) >= uint64(d) {
		return quota.MaxTokens
	}
	q, _ := bits.Div64(uint64(a.hi), a.lo, uint64(d))
	return quota.Tokens(min(q, uint64(quota.MaxTokens)))
}

// ceilOver returns ceil(a/d) for d > 0, saturated at ±MaxTokens.
func (a wide) ceilOver(d int64) quota.Tokens {
	if a.hi < 0 {
		return -wide{}.minus(a).floorOver(d)
	}
	if uint64(a.hi) >= uint64(d) {
		return quota.MaxTokens
	}
	q, r := bits.Div64(uint64(a.hi), a.lo, uint64(d))
	if r != 0 {
		q++
	}
	return quota.Tokens(min(q, uint64(quota.MaxTokens)))
}
