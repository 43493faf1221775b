package regional

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/regional/enforce"
)

// maxDelay is how long a wait can be held back by shaped limits: until the deadline of
// ctx. Without one it is 0, for any delay.
func maxDelay(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(1, time.Until(deadline))
	}
	return 0
}

// tooLate reports whether d denies because the delay would have been longer than that.
func tooLate(d Decision) bool {
	return d.Over && slices.ContainsFunc(d.Statuses, func(s enforce.Status) bool { return s.Over && s.Reason == enforce.DelayTooLong })
}

// hold waits out a delay. The tokens are taken already, so an error costs them.
func hold(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < delay {
		return fmt.Errorf("rate limit: admitted behind others, and charged: %w", ErrDeadline)
	}
	turn := time.Now().Add(delay)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		if !time.Now().Before(turn) {
			return nil // the deadline is the turn, and both have come
		}
		return ctx.Err()
	}
}
