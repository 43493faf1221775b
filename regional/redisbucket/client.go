package redisbucket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// go-redis writes to stderr through a logger of the whole process, a line for
// each failed attempt and beside the agent's own log. What it says there it also
// returns as an error, which is logged with its cause and not without end.
func init() { logging.Disable() }

// dial returns a client that has no connection yet. Nothing is ever sent again
// by it: what may be is marked on the command (call.go), and options of the client
// do not reach everywhere.
func (s *Store) dial() *redis.Client {
	at := s.address
	// RESP2 without identity: a connection costs no round trip beside our own.
	o := &redis.Options{
		Network: at.network, Addr: at.hosts[0], DB: at.db, Username: at.username, Password: at.password, TLSConfig: s.tls(),
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		MaxRetries:               -1, DialerRetries: 1, DialTimeout: s.cfg.DialTimeout,
		ReadTimeout: s.cfg.Timeout, WriteTimeout: s.cfg.Timeout, PoolTimeout: s.cfg.Timeout,
		ContextTimeoutEnabled: true, PoolSize: s.cfg.PoolSize, OnConnect: s.connected,
	}
	if at.kind != sentinel {
		return redis.NewClient(o)
	}
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: at.primary, SentinelAddrs: at.hosts, SentinelUsername: s.cfg.SentinelUsername, SentinelPassword: s.cfg.SentinelPassword,
		DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		Protocol: o.Protocol, DisableIdentity: true, MaxRetries: o.MaxRetries, DialerRetries: o.DialerRetries, DialTimeout: o.DialTimeout,
		ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, PoolTimeout: o.PoolTimeout,
		ContextTimeoutEnabled: true, PoolSize: o.PoolSize,
		// Pipelines share the connections of all other calls.
		PipelinePoolSize: -1,
	})
	// Set here, OnConnect is not run on the connections to the sentinels.
	c.Options().OnConnect = s.connected
	return c
}

// tls returns the TLS configuration of a connection, nil for none. Without a
// server name in it the name is the host that is dialled.
func (s *Store) tls() *tls.Config {
	switch {
	case !s.address.tls:
		return nil
	case s.cfg.TLS != nil:
		return s.cfg.TLS.Clone()
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}

// connected makes a new connection fit for use.
func (s *Store) connected(ctx context.Context, cn *redis.Conn) error {
	return s.identify(ctx, cn, true)
}

// demoted reports whether err says that the server behind a connection is not,
// or not any more, a primary to keep buckets on.
func demoted(err error) bool {
	return errors.Is(err, errNotUsable) || redis.HasErrorPrefix(err, "READONLY")
}

// unreachable reports whether err says that there was no connection to send on.
func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// forsake gives up a client for a fresh one, in two cases.
//
// One of its connections leads to a server that was demoted: after a fail-over
// behind one address the others are healthy and lead there, too. Found out one by
// one, they would cost a failed probe each.
//
// The server cannot be reached and calls fail fast: go-redis then dials only once
// a second, and asks only the sentinel that it knows. A fresh client dials at the
// next probe, and any sentinel.
func (s *Store) forsake(old *redis.Client, err error) {
	s.mu.Lock()
	n := old.PoolStats().TotalConns
	lost := demoted(err)
	if s.closed || s.client.Load() != old || lost && n == 0 {
		s.mu.Unlock()
		return
	}
	s.client.Store(s.dial())
	s.mu.Unlock()
	err = old.Close()
	if lost {
		s.log.Warn("regional store is no primary any more: all connections to it are given up", "connections", n, "err", err)
	}
}

// Close closes all connections; what waits fails.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for i := range s.lanes {
		s.lanes[i].close()
	}
	var err error
	if s.cluster != nil {
		err = s.cluster.client.Close()
	} else {
		err = s.client.Load().Close()
	}
	s.flushes.Wait()
	if err != nil {
		return fmt.Errorf("close regional store: %w", err)
	}
	return nil
}
