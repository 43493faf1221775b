package raftnode

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// ErrMismatch means that this node's configuration contradicts its data
// directory or another node.
var ErrMismatch = errors.New("initial cluster does not match")

// Keys of the stable store; raft's own have no slash.
var (
	keyNode    = []byte("quorate/node")
	keyMembers = []byte("quorate/initial-cluster")
)

// identify binds the data directory to this node and to the initial cluster, or
// refuses a directory that is bound to others.
func identify(cfg Config, store raft.StableStore) error {
	for _, v := range []struct {
		key        []byte
		what, want string
	}{
		{keyNode, "--node", cfg.Node},
		{keyMembers, "--initial-cluster", clusterText(cfg.InitialCluster)},
	} {
		have, err := store.Get(v.key)
		switch {
		case errors.Is(err, raftboltdb.ErrKeyNotFound) || err == nil && len(have) == 0:
			if err := store.Set(v.key, []byte(v.want)); err != nil {
				return fmt.Errorf("write identity: %w", err)
			}
		case err != nil:
			return fmt.Errorf("read identity: %w", err)
		case string(have) != v.want:
			return fmt.Errorf("%w: data directory %s was made with %s %s, now it is %s; keep the first value, or give this node an empty directory",
				ErrMismatch, cfg.DataDir, v.what, have, v.want)
		}
	}
	return nil
}

// bootstrap makes a node with an empty data directory a member of the initial
// cluster. All nodes do it with the same list, so it does not matter who is
// first. Where a cluster exists already it does nothing: then the directory has
// been lost, and to start from the list again could found a second cluster.
func bootstrap(cfg Config, s *stream, logs raft.LogStore, stable raft.StableStore, snaps raft.SnapshotStore, trans raft.Transport, conf *raft.Config) error {
	cluster, err := askAll(cfg, s)
	if err != nil {
		return err
	}
	if cluster != "" {
		cfg.Logger.Warn("data directory is empty but the cluster exists: waiting for its leader to send the state; "+
			"if this node has lost a directory it had, remove it from the cluster and add it again under another name",
			slog.String("cluster", cluster), slog.String("node", cfg.Node))
		return nil
	}
	var members raft.Configuration
	for _, m := range cfg.InitialCluster {
		members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(m.Node), Address: raft.ServerAddress(m.Address)})
	}
	if err := raft.BootstrapCluster(conf, logs, stable, snaps, trans, members); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	cfg.Logger.Info("joined the initial cluster", slog.String("node", cfg.Node), slog.String("members", clusterText(cfg.InitialCluster)))
	return nil
}

// askAll asks all other nodes for the cluster they know, until one names it,
// all have answered that they know none, or the wait is over.
func askAll(cfg Config, s *stream) (cluster string, err error) {
	want := clusterText(cfg.InitialCluster)
	deadline := time.Now().Add(cfg.BootstrapWait)
	pending := map[string]string{}
	for _, m := range cfg.InitialCluster {
		if m.Node != cfg.Node {
			pending[m.Node] = m.Address
		}
	}
	for len(pending) > 0 && time.Now().Before(deadline) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		answers := map[string]hello{}
		for node, address := range pending {
			wg.Go(func() {
				h, askErr := s.ask(address, max(time.Until(deadline), 100*time.Millisecond))
				mu.Lock()
				defer mu.Unlock()
				if askErr == nil {
					answers[node] = h
				} else if errors.Is(askErr, ErrRefused) {
					err = askErr
				}
			})
		}
		wg.Wait()
		if err != nil {
			return "", fmt.Errorf("ask the other nodes: %w", err)
		}
		for node, h := range answers {
			switch {
			case h.Node != node:
				return "", fmt.Errorf("%w: %s answers as node %s, the list says %s", ErrMismatch, pending[node], h.Node, node)
			case h.Members != want:
				return "", fmt.Errorf("%w: node %s has --initial-cluster %s, this node %s; give all nodes the same list", ErrMismatch, node, h.Members, want)
			case h.Cluster != "":
				return h.Cluster, nil
			case !h.Resuming:
				delete(pending, node)
			}
		}
		if len(pending) > 0 {
			time.Sleep(min(100*time.Millisecond, max(time.Until(deadline), 0)))
		}
	}
	if len(pending) > 0 {
		var missing []string
		for node := range pending {
			missing = append(missing, node)
		}
		cfg.Logger.Warn("starting without having heard from all nodes of the initial cluster", slog.String("missing", strings.Join(missing, ",")))
	}
	return "", nil
}

func makeDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	return nil
}
