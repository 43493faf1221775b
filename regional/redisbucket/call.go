package redisbucket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/quorate/quorate/regional/enforce"
)

// ints is a script call whose reply is a list of integers. go-redis sends a
// command again after a lost reply, up to three times, unless the command itself
// forbids it: an option of the client does not cover every client and pipeline.
type ints struct{ *redis.IntSliceCmd }

func newInts(ctx context.Context, args []any) ints {
	return ints{redis.NewIntSliceCmd(ctx, args...)}
}

// NoRetry forbids go-redis to send the script again.
func (ints) NoRetry() bool { return true }

// Clone keeps a copy from being retried too.
func (c ints) Clone() redis.Cmder {
	return ints{c.IntSliceCmd.Clone().(*redis.IntSliceCmd)}
}

// values is a script call whose reply has texts in it.
type values struct{ *redis.SliceCmd }

func newValues(ctx context.Context, args []any) values {
	return values{redis.NewSliceCmd(ctx, args...)}
}

// NoRetry forbids go-redis to send the script again.
func (values) NoRetry() bool { return true }

// Clone keeps a copy from being retried too.
func (c values) Clone() redis.Cmder {
	return values{c.SliceCmd.Clone().(*redis.SliceCmd)}
}

// processor is a client or one connection of it.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// run sends a script with the given keys and arguments and returns a reply of
// integers.
func (s *Store) run(ctx context.Context, sc *script, keys []string, argv ...any) ([]int64, error) {
	var reply []int64
	err := s.guard(ctx, sc.name, func(c *redis.Client) error {
		var err error
		reply, err = runInts(ctx, c, sc, evalsha(sc, keys, argv))
		return err
	})
	if err == nil && len(reply) == 0 {
		return nil, fmt.Errorf("%s in regional store: empty reply: %w", sc.name, enforce.ErrStoreDown)
	}
	return reply, err
}

// runValues is run for a reply with texts.
func (s *Store) runValues(ctx context.Context, sc *script, keys []string, argv ...any) ([]any, error) {
	var reply []any
	err := s.guard(ctx, sc.name, func(c *redis.Client) error {
		var err error
		reply, err = runValues(ctx, c, sc, evalsha(sc, keys, argv))
		return err
	})
	return reply, err
}

// evalsha returns the words of a script call.
func evalsha(sc *script, keys []string, argv []any) []any {
	args := make([]any, 0, 3+len(keys)+len(argv))
	args = append(args, "evalsha", sc.sha, len(keys))
	for _, k := range keys {
		args = append(args, k)
	}
	return append(args, argv...)
}

// runInts sends a script, and once more with its source when the server did not
// know it: then it has not run.
func runInts(ctx context.Context, p processor, sc *script, args []any) ([]int64, error) {
	cmd := newInts(ctx, args)
	err := p.Process(ctx, cmd)
	if noScript(err) {
		args[0], args[1] = "eval", sc.source
		cmd = newInts(ctx, args)
		err = p.Process(ctx, cmd)
	}
	return cmd.Val(), err
}

func runValues(ctx context.Context, p processor, sc *script, args []any) ([]any, error) {
	cmd := newValues(ctx, args)
	err := p.Process(ctx, cmd)
	if noScript(err) {
		args[0], args[1] = "eval", sc.source
		cmd = newValues(ctx, args)
		err = p.Process(ctx, cmd)
	}
	return cmd.Val(), err
}

func noScript(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") }

// guard runs f on the client behind the circuit breaker and turns its failure
// into enforce.ErrStoreDown with the cause.
func (s *Store) guard(ctx context.Context, op string, f func(c *redis.Client) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s in regional store: %w: %w", op, enforce.ErrStoreDown, err)
	}
	began, c := time.Now(), s.client.Load()
	_, err := s.breaker.Execute(func() (struct{}, error) { return struct{}{}, f(c) })
	if err == nil {
		s.metrics.took(op, time.Since(began))
		return nil
	}
	if demoted(err) || unreachable(err) && s.breaker.State() == gobreaker.StateOpen {
		s.forsake(c, err)
	}
	s.metrics.failed(op, reason(err))
	return fmt.Errorf("%s in regional store: %w: %w", op, enforce.ErrStoreDown, err)
}

// tripAfter failures in a row open the breaker.
const tripAfter = 5

func (s *Store) newBreaker() *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "regional store",
		MaxRequests: 1,
		Timeout:     s.cfg.Probe,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		// A caller that gave up and a pool that is busy say nothing about the server.
		IsExcluded: func(err error) bool {
			return errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrPoolTimeout)
		},
		OnStateChange: func(_ string, from, to gobreaker.State) {
			// A cluster has a breaker for each partition, and one line is enough.
			switch {
			case from == gobreaker.StateClosed && s.tripped.Add(1) == 1:
				s.metrics.breaker(false)
				s.log.Warn("regional store does not answer: failing fast", "probe_every", s.cfg.Probe)
			case to == gobreaker.StateClosed && s.tripped.Add(-1) == 0:
				s.metrics.breaker(true)
				s.log.Info("regional store answers again")
			}
		},
	})
}

// reason is the label of a failure.
func reason(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return "breaker_open"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, redis.ErrPoolTimeout):
		return "pool_busy"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, errNotUsable):
		return "not_usable"
	case errors.Is(err, errRights):
		return "not_permitted"
	}
	return "error"
}
