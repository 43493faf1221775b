package redisbucket

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// go-redis writes to stderr through a logger of the whole process, a line for
// each failed attempt and beside the agent's own log. What it says there it also
// returns as an error, which is logged with its cause and not without end.
func init() { logging.Disable() }

// dial returns a client that has no connection yet.
func (s *Store) dial() (*redis.Client, error) {
	opt, err := redis.ParseURL(s.cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("open regional store: %w", err)
	}
	// RESP2 without identity: a connection costs no round trip beside our own.
	opt.Protocol = 2
	opt.DisableIdentity = true
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	opt.MaxRetries = -1
	opt.DialerRetries = 1
	opt.DialTimeout = s.cfg.DialTimeout
	opt.ReadTimeout, opt.WriteTimeout, opt.PoolTimeout = s.cfg.Timeout, s.cfg.Timeout, s.cfg.Timeout
	opt.ContextTimeoutEnabled = true
	opt.PoolSize = s.cfg.PoolSize
	opt.OnConnect = func(ctx context.Context, cn *redis.Conn) error { return s.identify(ctx, cn, true) }
	return redis.NewClient(opt), nil
}

// demoted reports whether err says that the server behind a connection is not,
// or not any more, a primary to keep buckets on.
func demoted(err error) bool {
	return errors.Is(err, errNotUsable) || redis.HasErrorPrefix(err, "READONLY")
}

// forsake gives up all connections of a client when one of them leads to a
// server that was demoted. After a fail-over behind one address they are healthy
// and all lead there; found out one by one, they would cost a failed probe each.
func (s *Store) forsake(old *redis.Client) {
	s.mu.Lock()
	n := old.PoolStats().TotalConns
	if s.closed || n == 0 || s.client.Load() != old {
		s.mu.Unlock()
		return
	}
	fresh, err := s.dial()
	if err == nil {
		s.client.Store(fresh)
	}
	s.mu.Unlock()
	if err == nil {
		err = old.Close()
	}
	s.log.Warn("regional store is no primary any more: all connections to it are given up", "connections", n, "err", err)
}

// Close closes all connections.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if err := s.client.Load().Close(); err != nil {
		return fmt.Errorf("close regional store: %w", err)
	}
	return nil
}
