package caller

import (
	"context"
	"time"

	"github.com/quorate/quorate/regional/enforce"
)

// DefaultMaxDelay is how long a call may be held back where nothing else is said:
// shorter than clients and proxies usually wait (Envoy 15 s, nginx 60 s).
const DefaultMaxDelay = 10 * time.Second

// maxDelay is how long a call can be held back: most, or until the deadline of ctx.
func maxDelay(ctx context.Context, most time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(1, min(most, time.Until(deadline)))
	}
	return most
}

// hold waits until an admitted call may be served. What is left to wait is nothing, so
// clients are told no Delay.
func hold(ctx context.Context, d enforce.Decision) (enforce.Decision, error) {
	if d.Over || d.Delay <= 0 {
		return d, nil
	}
	timer := time.NewTimer(d.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		d.Delay = 0
		return d, nil
	case <-ctx.Done():
		return enforce.Decision{}, ctx.Err()
	}
}
