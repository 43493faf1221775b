package raftnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// Node is one running raft node. All methods are safe for concurrent use.
type Node struct {
	cfg    Config
	raft   *raft.Raft
	ready  atomic.Pointer[raft.Raft] // raft, for the connections that come before it
	bolt   *raftboltdb.BoltStore
	stream *stream
	trans  transport

	failure  chan error // the first fatal error
	failOnce sync.Once
	stop     context.CancelFunc // of the goroutines below
	wg       sync.WaitGroup     // watchLeadership

	leadership leadership
	verifier   verifier
}

// Open opens the stores, joins or resumes the cluster and starts raft. Run must
// follow; it also stops what Open started.
func Open(cfg Config) (_ *Node, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open raft node: %w", err)
	}
	if err := makeDataDir(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("open raft node: %w", err)
	}
	n := &Node{cfg: cfg, failure: make(chan error, 1)}
	n.leadership.changed = make(chan struct{})
	if n.bolt, err = openBolt(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("open raft node: %w", err)
	}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	g := guard{cfg.Timeouts.Stall, n.fail}
	logs, stable := logStore{n.bolt, g}, stableStore{n.bolt, g}
	if err := identify(cfg, stable); err != nil {
		return nil, fmt.Errorf("open raft node: %w", err)
	}
	logger := newRaftLogger(cfg.Logger)
	files, err := raft.NewFileSnapshotStoreWithLogger(cfg.DataDir, snapshotsKept, logger)
	if err != nil {
		return nil, fmt.Errorf("open raft node: %w: %w", ErrDataDir, err)
	}
	snaps := snapshotStore{files, g}
	exists, err := raft.HasExistingState(logs, stable, snaps)
	if err != nil {
		return nil, fmt.Errorf("open raft node: %w: %w", ErrDataDir, err)
	}
	if n.stream, err = newStream(cfg, exists, n.addressOf); err != nil {
		return nil, fmt.Errorf("open raft node: %w", err)
	}
	t := cfg.Timeouts
	n.trans = transport{raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: n.stream, MaxPool: 3, Timeout: max(5*t.Heartbeat, 500*time.Millisecond), Logger: logger,
		// No pipelining. A pipeline whose follower refuses an entry can wait for
		// itself for ever (hashicorp/raft#612): the follower gets heartbeats but no
		// entries while this node leads, and raft never shuts down. One message
		// carries up to 64 entries, and a round is one entry.
		MaxRPCsInFlight: 1,
	}), newAcks()}
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger = raft.ServerID(cfg.Node), logger
	conf.HeartbeatTimeout, conf.ElectionTimeout = t.Heartbeat, t.Election
	conf.LeaderLeaseTimeout, conf.CommitTimeout = t.LeaderLease, t.Commit
	conf.SnapshotThreshold, conf.SnapshotInterval, conf.TrailingLogs = cfg.SnapshotThreshold, cfg.SnapshotInterval, cfg.SnapshotThreshold
	conf.ShutdownOnRemove, conf.NoLegacyTelemetry = false, true
	if !exists {
		if err := bootstrap(cfg, n.stream, logs, stable, snaps, n.trans, conf); err != nil {
			return nil, fmt.Errorf("open raft node: %w", err)
		}
	}
	if n.raft, err = raft.NewRaft(conf, restoreGuard{cfg.FSM, n.fail}, logs, stable, snaps, n.trans); err != nil {
		return nil, fmt.Errorf("open raft node: %w: %w", ErrDataDir, err)
	}
	n.ready.Store(n.raft)
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.wg.Go(func() { n.watchLeadership(ctx) })
	return n, nil
}

// fail ends the node with its first fatal error.
func (n *Node) fail(err error) { n.failOnce.Do(func() { n.failure <- err }) }

// Run waits until ctx ends or the node fails, hands leadership over, stops
// everything and closes the stores. After a failure it returns the error and
// the process should exit: a supervisor's restart is the way to recover.
func (n *Node) Run(ctx context.Context) error {
	var failure error
	select {
	case <-ctx.Done():
		n.handOver()
	case failure = <-n.failure:
		n.cfg.Logger.Error("raft node ends", slog.String("node", n.cfg.Node), slog.Any("error", failure))
	}
	// From here on write errors of stores that are being closed mean nothing.
	n.fail(nil)
	shutdown := n.raft.Shutdown()
	// It waits for what was asked of nodes that may never answer.
	n.stream.Close()
	stopped := within(n.cfg.Timeouts.Transfer, func() error { return shutdown.Error() })
	n.stop()
	n.wg.Wait()
	if stopped != nil {
		// A disk that hangs holds raft's main loop: the stores cannot be closed.
		return errors.Join(failure, fmt.Errorf("shut raft down: %w", stopped))
	}
	return errors.Join(failure, n.close())
}

// handOver gives leadership to another node, if this one leads and another can.
func (n *Node) handOver() {
	if n.raft.State() != raft.Leader || len(n.voters()) < 2 {
		return
	}
	if err := within(n.cfg.Timeouts.Transfer, func() error { return n.raft.LeadershipTransfer().Error() }); err != nil {
		n.cfg.Logger.Warn("leadership was not handed over; the others will elect", slog.Any("error", err))
	}
}

// errLate is the error of within.
var errLate = errors.New("not done within the deadline")

// within returns f's error, or errLate when f takes too long; f then goes on.
func within(limit time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return errLate
	}
}

// close releases what Open acquired, as far as it got.
func (n *Node) close() error {
	if n.trans.NetworkTransport != nil {
		n.trans.Close()
		n.trans.CloseStreams()
	}
	if n.stream != nil {
		n.stream.Close()
	}
	if err := n.bolt.Close(); err != nil {
		return fmt.Errorf("close the log: %w", err)
	}
	return nil
}
