package regional

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, alone(t), "user", "1") // 10 a second, burst 3
		began := time.Now()
		for i, want := range []time.Duration{0, 0, 0, 100 * time.Millisecond, 200 * time.Millisecond} {
			if err := l.Wait(t.Context()); err != nil || time.Since(began) != want {
				t.Errorf("wait %d: want nil at %v, have %v at %v", i+1, want, err, time.Since(began))
			}
		}
	})
}

func TestWaitThatCannotSucceedReturnsAtOnceAndTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := alone(t)
		within := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
		if d, err := limiter(t, a, "user", "1").AllowN(t.Context(), 2); err != nil || d.Over {
			t.Fatalf("have %+v, %v", d, err)
		}
		for why, c := range map[string]struct {
			on   *Limiter
			ctx  context.Context
			n    int
			want error
		}{
			"two tokens take 100 ms": {limiter(t, a, "user", "1"), within(99 * time.Millisecond), 2, ErrDeadline},
			"above the burst":        {limiter(t, a, "user", "1"), t.Context(), 4, ErrNever},
			"a zero limit":           {limiter(t, a, "zero", "1"), t.Context(), 1, ErrNever},
		} {
			began := time.Now()
			err := c.on.WaitN(c.ctx, c.n)
			var denied *DeniedError
			if !errors.Is(err, c.want) || !errors.As(err, &denied) || time.Since(began) != 0 {
				t.Errorf("%s: want %v at once, have %v after %v", why, c.want, err, time.Since(began))
			}
			if !denied.Decision.Over || !strings.Contains(err.Error(), "rate limit shop/") {
				t.Errorf("%s: does not say which rule: %v", why, err)
			}
		}
		if d, err := limiter(t, a, "user", "1").Allow(t.Context()); err != nil || d.Over {
			t.Errorf("something was taken: %+v, %v", d, err)
		}
		if err := limiter(t, a, "user", "1").WaitN(within(201*time.Millisecond), 2); err != nil {
			t.Errorf("a deadline that suffices: have %v", err)
		}
	})
}

func TestWaitsAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, alone(t), "user", "1")
		if _, err := l.AllowN(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		var order []int
		done := make(chan int)
		for i, n := range []int{3, 1, 2} { // the cheap one does not overtake
			go func() {
				if err := l.WaitN(t.Context(), n); err != nil {
					t.Error(err)
				}
				done <- i
			}()
			synctest.Wait()
		}
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		if err := l.Wait(short); !errors.Is(err, ErrDeadline) || time.Since(began) != 0 {
			t.Errorf("behind somebody who waits longer: have %v after %v", err, time.Since(began))
		}
		for range 3 {
			order = append(order, <-done)
		}
		if !slices.Equal(order, []int{0, 1, 2}) || time.Since(began) != 600*time.Millisecond {
			t.Errorf("have the order %v in %v", order, time.Since(began))
		}
	})
}

func TestWaitThatIsGivenUpTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, alone(t), "user", "1")
		if _, err := l.AllowN(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		for range 2 { // the head of the line, and one behind it
			go func() { failed <- l.WaitN(ctx, 3) }()
			synctest.Wait()
		}
		time.Sleep(100 * time.Millisecond)
		cancel()
		for range 2 {
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("have %v", err)
			}
		}
		if d, err := l.Allow(t.Context()); err != nil || d.Over {
			t.Errorf("the token of 100 ms is gone: %+v, %v", d, err)
		}
		if n := len(l.agent.lines.byName); n != 0 {
			t.Errorf("%d lines are left", n)
		}
	})
}

func TestWaitsEndWithTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := alone(t)
		l := limiter(t, a, "daily", "1")
		if _, err := l.AllowN(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error)
		for range 2 {
			go func() { failed <- l.Wait(t.Context()) }()
			synctest.Wait()
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-failed; !errors.Is(err, ErrStopped) {
				t.Errorf("have %v", err)
			}
		}
	})
}
