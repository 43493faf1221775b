package bucket

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/coordinator/quota"
)

// Errors of the store operations. None of them changed anything.
var (
	// ErrIncarnation: the store lives another incarnation than the caller named.
	ErrIncarnation = errors.New("the store has another incarnation: read its state again")
	// ErrOldSession: the session is not the one the region has, or is ended.
	ErrOldSession = errors.New("not the current session of this region")
	// ErrExpired: the session's deadline has passed; renew it first.
	ErrExpired = errors.New("the session's deadline has passed in this region")
	// ErrStaleEpoch: a newer assignment of the session was applied before.
	ErrStaleEpoch = errors.New("a newer assignment was applied before")
	// ErrSettling: it is applied, but agents may still use more than it says. The share is
	// lent and not all agents know it yet: ask again after Notice. Or more is drawn ahead
	// than the region has now: ask again after DrawSpan.
	ErrSettling = errors.New("applied, but agents of the region may still use more than it leaves them")
	// ErrOldConfig: a newer configuration was adopted before.
	ErrOldConfig = errors.New("a newer configuration was adopted before")
	// ErrRange: an amount is negative, too large, or its period too long.
	ErrRange = errors.New("amount out of range")
)

// Valid returns ErrRange unless the scripts can compute with c exactly.
func Valid(c quota.Capacity) error {
	if c.Burst < 0 || c.Burst > quota.MaxTokens || c.Rate.Tokens < 0 || c.Rate.Tokens > quota.MaxTokens ||
		c.Rate.Per < 0 || c.Rate.Per > MaxPeriod {
		return fmt.Errorf("capacity %d per %d us, burst %d: %w", c.Rate.Tokens, c.Rate.Per, c.Burst, ErrRange)
	}
	return nil
}

// Valid returns ErrRange unless the scripts can compute with s exactly.
func (s Standing) Valid() error {
	if s.Base < 0 || s.Base > quota.MaxTokens || s.Since < 0 || s.Since > Forever || s.From < 0 || s.From > Forever || s.Lasts < 0 || s.Lasts > maxLife {
		return fmt.Errorf("standing base %d since %d, from %d, lasts %d: %w", s.Base, s.Since, s.From, s.Lasts, ErrRange)
	}
	if s.Window != NoWindow && (s.Rate.Per <= 0 || s.Rate.Tokens != 0 || s.Lasts != 0) {
		return fmt.Errorf("sliding window of %d us with a rate of %d, lasts %d: %w", s.Rate.Per, s.Rate.Tokens, s.Lasts, ErrRange)
	}
	return Valid(s.Capacity)
}

// Valid returns ErrRange unless the scripts can compute with a exactly.
func (a *Ask) Valid() error {
	if a.Debt != 0 && a.Standing.Window != NoWindow {
		return fmt.Errorf("debt of %d micro-tokens in a sliding window: %w", a.Debt, ErrRange)
	}
	if a.Cost < -quota.MaxTokens || a.Cost > quota.MaxTokens || a.Debt < 0 || a.Debt > quota.MaxTokens || a.Ahead < 0 || a.Ahead > quota.MaxTokens {
		return fmt.Errorf("cost %d, debt %d, ahead %d micro-tokens: %w", a.Cost, a.Debt, a.Ahead, ErrRange)
	}
	return a.Standing.Valid()
}

// ValidAmount returns ErrRange unless t is a charge or a credit.
func ValidAmount(t quota.Tokens) error {
	if t < 0 || t > quota.MaxTokens {
		return fmt.Errorf("%d micro-tokens: %w", t, ErrRange)
	}
	return nil
}
