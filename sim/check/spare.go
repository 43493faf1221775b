package check

import "github.com/quorate/quorate/coordinator/quota"

// Spare counts what was denied although one central bucket had it. The bucket is
// charged with all that was admitted, and with each denial that it had the tokens
// for: a central limiter would have admitted it, so those tokens are gone and excuse
// no further denial. What is counted is therefore what could have been admitted on
// top of what was; a token that is lost counts once, when somebody is denied for it,
// and not with every denial from then on. It is not safe for concurrent use.
type Spare struct {
	bucket
	denied quota.Tokens
}

// NewSpare returns a counter over a central bucket that is full.
func NewSpare(limit quota.Capacity) *Spare { return &Spare{bucket: newBucket(limit)} }

// Admit notes that cost was admitted at the time at. Where the bucket has given the
// tokens to a denial before, it is in debt.
func (s *Spare) Admit(at quota.Micros, cost quota.Tokens) {
	s.advance(at)
	s.level = s.level.minus(s.costOf(cost))
}

// Deny notes that cost was denied at the time at, and reports whether it counts.
func (s *Spare) Deny(at quota.Micros, cost quota.Tokens) bool {
	s.advance(at)
	left := s.level.minus(s.costOf(cost))
	if left.hi < 0 {
		return false
	}
	s.level = left
	s.denied += cost
	return true
}

// Denied returns the sum of the costs that count.
func (s *Spare) Denied() quota.Tokens { return s.denied }
