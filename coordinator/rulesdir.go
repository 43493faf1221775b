package coordinator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// settleTime is how long the directory must be quiet before it is read: an
// editor writes a file in several steps.
const settleTime = 150 * time.Millisecond

// errNoDocuments keeps the rules when the directory is empty, as it is before a
// volume is mounted.
var errNoDocuments = errors.New("no *.yaml or *.yml in it; to have no rules, keep a document with a domain and no descriptors")

// rulesDir keeps the rules of the cluster equal to a directory. Every node reads
// it; the leader proposes what is new. A directory with a mistake changes
// nothing, and is reported once; a node whose cluster has no rules at all is not
// ready meanwhile.
type rulesDir struct {
	node    *Node
	kick    chan struct{}
	failed  atomic.Bool            // the directory as it is now is not in force
	problem atomic.Pointer[string] // what is wrong with it, nil when nothing is known to be

	digest  [32]byte       // of what was read last
	invalid error          // why that cannot be used, nil when it can
	want    []quota.Source // what was read last, if it is good
	refused [32]byte       // digest of what the ledger refused
}

func newRulesDir(n *Node) *rulesDir {
	r := &rulesDir{node: n, kick: make(chan struct{}, 1)}
	r.failed.Store(true)
	return r
}

// tellRules makes the directory be looked at, as a term begins.
func (n *Node) tellRules() {
	if n.rules == nil {
		return
	}
	select {
	case n.rules.kick <- struct{}{}:
	default:
	}
}

// watch reads the directory whenever it changes, and every RulesPoll: a change
// behind a symbolic link or on a network volume makes no event.
func (r *rulesDir) watch(ctx context.Context) error {
	dir := r.node.cfg.RulesDir
	var events chan fsnotify.Event // nil, and so silent, without a watcher
	var troubles chan error
	w, err := fsnotify.NewWatcher()
	if err == nil {
		defer w.Close()
		events, troubles = w.Events, w.Errors
		err = w.Add(dir)
	}
	if err != nil {
		r.node.log.Warn("rules directory cannot be watched, only polled", slog.String("dir", dir), slog.Any("error", err))
	}
	poll := time.NewTicker(r.node.cfg.RulesPoll)
	defer poll.Stop()
	var settled <-chan time.Time
	for {
		if r.load() {
			r.apply(ctx)
		}
	wait:
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-events:
				settled = time.After(settleTime)
			case <-settled:
				settled = nil
				break wait
			case err := <-troubles:
				r.node.log.Warn("events of the rules directory were lost, the poll finds what changed", slog.String("dir", dir), slog.Any("error", err))
			case <-poll.C:
				break wait
			case <-r.kick:
				break wait
			}
		}
	}
}

// load reads the directory and reports whether its documents are good.
func (r *rulesDir) load() bool {
	sources, err := readRules(r.node.cfg.RulesDir)
	if err == nil {
		if digest := digestOf(sources); digest != r.digest {
			r.digest = digest
			_, r.invalid = rules.Parse(sources)
		}
		err = r.invalid
	}
	if err != nil {
		r.report(err)
		return false
	}
	r.want = sources
	if r.digest != r.refused {
		r.problem.Store(nil)
	}
	return true
}

// report logs a problem once, until another one or none is there.
func (r *rulesDir) report(err error) {
	r.failed.Store(true)
	problem := err.Error()
	if old := r.problem.Swap(&problem); old != nil && *old == problem {
		return
	}
	r.node.metrics.rulesFailures.Inc()
	r.node.log.Error("rules are not loaded: those in force stay, and a new cluster has none", slog.String("dir", r.node.cfg.RulesDir), slog.String("problems", problem))
}

// apply proposes the documents if this node leads and the ledger has others.
func (r *rulesDir) apply(ctx context.Context) {
	var same bool
	r.node.fsm.View(func(l *ledger.Ledger) { same = slices.Equal(l.Current().Sources, r.want) })
	if same {
		r.inForce()
		return
	}
	r.failed.Store(true) // until somebody leads, or for the directories to be equal again
	t := r.node.serving.Load()
	if t == nil || r.refused == r.digest {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.node.cfg.RaftTimeouts.Apply)
	defer cancel()
	errs, err := r.node.Propose(ctx, ledger.SetRules{Sources: r.want})
	switch {
	case err != nil:
		r.node.log.Warn("rules could not be proposed, trying again", slog.Any("error", err))
	case errs[0] != nil:
		r.refused = r.digest
		r.report(errs[0])
	default:
		r.inForce()
		r.node.log.Info("rules are in force at the coordinator", slog.String("dir", r.node.cfg.RulesDir), slog.Int("documents", len(r.want)))
	}
}

func (r *rulesDir) inForce() {
	r.failed.Store(false)
	r.problem.Store(nil)
	r.node.tellHealth()
}

// ready says why a node that takes its rules from a directory is not ready, nil
// when it is: rules, be they older ones, are in force. With none the regions
// have nothing to decide by, and the operator who starts the cluster must hear
// of it.
func (r *rulesDir) ready() error {
	var any bool
	r.node.fsm.View(func(l *ledger.Ledger) { any = l.Current().RulesVersion > 0 })
	if any {
		return nil
	}
	if p := r.problem.Load(); p != nil {
		return fmt.Errorf("no rules are in force: %s", *p)
	}
	return fmt.Errorf("no rules are in force yet: those in %s wait for the leader", r.node.cfg.RulesDir)
}

// readRules reads all documents of a directory, sorted by name. Kubernetes
// mounts a directory in which each file is a link through ..data, and swaps that
// link: hidden names are skipped, or each document would be there twice, and the
// reading is repeated when the swap happens meanwhile.
func readRules(dir string) ([]quota.Source, error) {
	for range 5 {
		before, _ := os.Readlink(filepath.Join(dir, "..data"))
		sources, err := readOnce(dir)
		if after, _ := os.Readlink(filepath.Join(dir, "..data")); after == before {
			return sources, err
		}
	}
	return nil, fmt.Errorf("read rules in %s: the directory is swapped all the time", dir)
}

func readOnce(dir string) ([]quota.Source, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	var out []quota.Source
	total := 0
	for _, e := range entries { // sorted by name
		name := e.Name()
		if ext := filepath.Ext(name); strings.HasPrefix(name, ".") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := os.Stat(path) // follows links
		if err != nil {
			return nil, fmt.Errorf("read rules: %w", err)
		}
		if !info.Mode().IsRegular() {
			continue
		}
		text, err := readBounded(path, rules.MaxBytes-total)
		if err != nil {
			return nil, fmt.Errorf("read rules: %w", err)
		}
		total += len(text)
		out = append(out, quota.Source{Name: name, Text: text})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read rules in %s: %w", dir, errNoDocuments)
	}
	return out, nil
}

func readBounded(path string, limit int) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return "", err
	}
	if len(b) > limit {
		return "", fmt.Errorf("%s: all documents together have more than %d MiB", path, rules.MaxBytes>>20)
	}
	return string(b), nil
}

func digestOf(sources []quota.Source) [32]byte {
	h := sha256.New()
	for _, s := range sources {
		fmt.Fprintf(h, "%d %s %d %s", len(s.Name), s.Name, len(s.Text), s.Text)
	}
	return [32]byte(h.Sum(nil))
}
