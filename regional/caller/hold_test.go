package caller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/regional/enforce"
)

func TestCallsAreHeldBack(t *testing.T) {
	const second = time.Second
	for why, c := range map[string]struct {
		configured, deadline, gone time.Duration // 0: none
		d                          enforce.Decision
		most, took                 time.Duration
		want                       error
	}{
		"no delay":                   {0, 0, 0, enforce.Decision{}, DefaultMaxDelay, 0, nil},
		"its turn":                   {0, 0, 0, enforce.Decision{Delay: second}, DefaultMaxDelay, second, nil},
		"behind others that came":    {second, 0, 0, enforce.Decision{Delay: 2 * second}, second, 2 * second, nil},
		"denied":                     {3 * second, 0, 0, enforce.Decision{Over: true, Retry: second}, 3 * second, 0, nil},
		"a deadline":                 {0, 4 * second, 0, enforce.Decision{Delay: second}, 4 * second, second, nil},
		"a deadline that is later":   {second, 4 * second, 0, enforce.Decision{Delay: second}, second, second, nil},
		"a deadline that is over":    {second, -second, 0, enforce.Decision{Delay: second}, 1, 0, context.DeadlineExceeded},
		"a deadline that cuts in":    {0, second, 0, enforce.Decision{Delay: 2 * second}, second, second, context.DeadlineExceeded},
		"a caller that goes away":    {0, 0, second, enforce.Decision{Delay: 2 * second}, DefaultMaxDelay, second, context.Canceled},
		"one that goes away at once": {0, 0, -second, enforce.Decision{Delay: 2 * second}, DefaultMaxDelay, 0, context.Canceled},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, err := New(Config[call]{
				Decide: func(_ context.Context, r enforce.Request) (enforce.Decision, error) {
					if r.MaxDelay != c.most {
						t.Errorf("%s: want a MaxDelay of %v, have %v", why, c.most, r.MaxDelay)
					}
					return c.d, nil
				},
				Domain: "shop", Descriptors: [][]Key[call]{{key("user", Share)}}, OnFailure: Deny, MaxDelay: c.configured,
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.deadline != 0 {
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
				defer cancel()
			}
			if c.gone != 0 {
				defer time.AfterFunc(max(c.gone, 0), cancel).Stop()
				synctest.Wait()
			}
			began := time.Now()
			d, err := g.Ask(ctx, call{})
			if took := time.Since(began); took != c.took || !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s: have %v after %v", why, err, took)
			}
			if d.Delay != 0 || d.Over != c.d.Over {
				t.Errorf("%s: have %+v", why, d)
			}
		})
	}
	if _, err := New(Config[call]{MaxDelay: -1}); !errors.Is(err, ErrConfig) {
		t.Errorf("a MaxDelay below zero: have %v", err)
	}
}
