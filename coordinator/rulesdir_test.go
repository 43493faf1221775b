package coordinator

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/rules"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func domain(name string) string {
	return "domain: " + name + "\ndescriptors:\n  - key: user\n    rate_limit: {unit: second, requests_per_unit: 100}\n"
}

// mount builds the tree of a Kubernetes volume: files are links through ..data,
// which is swapped as a whole.
func mount(t *testing.T, dir, version string, files map[string]string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		write(t, filepath.Join(dir, version, name), text)
		link := filepath.Join(dir, name)
		if _, err := os.Lstat(link); errors.Is(err, os.ErrNotExist) {
			if err := os.Symlink(filepath.Join("..data", name), link); err != nil {
				t.Fatal(err)
			}
		}
	}
	fresh := filepath.Join(dir, "..data_tmp")
	if err := os.Symlink(version, fresh); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

// inForce waits until the domains in force are these.
func inForce(t *testing.T, n *Node, want string) {
	t.Helper()
	eventually(t, "domains "+want+" are in force", func() bool {
		var have []string
		n.fsm.View(func(l *ledger.Ledger) { have = l.Current().Rules().Domains() })
		return strings.Join(have, ",") == want
	})
}

// K42: each document behind ..data is loaded once.
func TestK42KubernetesVolumeLoadsOnce(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, "..v1", map[string]string{"a.yaml": domain("a"), "b.yml": domain("b"), "notes.txt": "not a document"})
	sources, err := readRules(dir)
	if err != nil || len(sources) != 2 || sources[0].Name != "a.yaml" || sources[1].Name != "b.yml" {
		t.Errorf("have %d documents, %v, want a.yaml and b.yml", len(sources), err)
	}
}

// K43: a swap and a removal are in force within seconds.
func TestK43SwapsAndRemovalsAreSeen(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, "..v1", map[string]string{"a.yaml": domain("a"), "b.yaml": domain("b")})
	c := newCluster(t, 1, func(cfg *Config) { cfg.RulesDir = dir })
	n := c.members[0].node
	inForce(t, n, "a,b")
	mount(t, dir, "..v2", map[string]string{"a.yaml": domain("a2"), "b.yaml": domain("b")})
	inForce(t, n, "a2,b")
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	inForce(t, n, "a2")
	write(t, filepath.Join(dir, "c.yaml"), domain("c"))
	inForce(t, n, "a2,c")
}

// K38: a cluster that starts with a mistake in its rules has none. It says so to
// whoever asks: health checks, the metrics, and the log with the place.
func TestK38FirstStartWithAMistakeIsNotReady(t *testing.T) {
	dir, log := t.TempDir(), &logBuffer{}
	bad := domain("a") + "    detaled_metric: true\n"
	write(t, filepath.Join(dir, "a.yaml"), bad)
	c := newCluster(t, 1, func(cfg *Config) {
		cfg.RulesDir, cfg.Logger = dir, slog.New(slog.NewTextHandler(log, nil))
	})
	m := c.leader()
	defer http.DefaultClient.CloseIdleConnections()
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + m.cfg.AdminAddr + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	const place = "a.yaml:5:5: unknown key `detaled_metric`"
	eventually(t, "the mistake is reported", func() bool { return log.count(place) == 1 })
	if code, body := get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "no rules are in force: "+place) {
		t.Errorf("readyz: have %d %s", code, body)
	}
	if code, _ := get("/livez"); code != http.StatusOK {
		t.Errorf("livez: have %d, want %d: a restart mends no document", code, http.StatusOK)
	}
	_, metrics := get("/metrics")
	for _, want := range []string{"quorate_rules_failures_total 1\n", "quorate_rules_in_force 0\n", "quorate_rules_version 0\n", "quorate_ready 0\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	eu := newAgent(t, c, "eu", "eu-1")
	eu.must()
	m.node.fsm.View(func(l *ledger.Ledger) {
		if n := len(l.Current().Sources); n != 0 {
			t.Errorf("%d documents are in force", n)
		}
	})

	write(t, filepath.Join(dir, "a.yaml"), domain("a"))
	eventually(t, "the node is ready", func() bool { code, _ := get("/readyz"); return code == http.StatusOK })
	inForce(t, m.node, "a")
	eventually(t, "the metrics say so", func() bool {
		_, metrics := get("/metrics")
		return strings.Contains(metrics, "quorate_rules_in_force 1\n")
	})
	write(t, filepath.Join(dir, "a.yaml"), bad) // the old rules are enough to be ready, here and after a restart
	eventually(t, "the mistake is reported again", func() bool { return log.count(place) == 2 })
	c.stop(m)
	c.start(m)
	eventually(t, "the node is ready with the old rules", func() bool { code, _ := get("/readyz"); return code == http.StatusOK })
	if _, metrics := get("/metrics"); !strings.Contains(metrics, "quorate_rules_in_force 0\n") {
		t.Error("the metrics do not say that the directory is not in force")
	}
}

// K41: a bad document changes nothing, and is reported once with its place.
func TestK41BadDocumentKeepsTheOldSet(t *testing.T) {
	dir, log := t.TempDir(), &logBuffer{}
	write(t, filepath.Join(dir, "a.yaml"), domain("a"))
	write(t, filepath.Join(dir, "b.yaml"), domain("b"))
	c := newCluster(t, 1, func(cfg *Config) {
		cfg.RulesDir, cfg.Logger = dir, slog.New(slog.NewTextHandler(log, nil))
	})
	n := c.members[0].node
	inForce(t, n, "a,b")
	write(t, filepath.Join(dir, "b.yaml"), "domain: b\nbroken: true\n")
	eventually(t, "the problem is reported", func() bool { return log.count("b.yaml:2:") == 1 && n.rules.failed.Load() })
	write(t, filepath.Join(dir, "a.yaml"), domain("a")+"\n# a harmless edit\n")
	write(t, filepath.Join(dir, "readme.md"), "no document")
	inForce(t, n, "a,b")
	write(t, filepath.Join(dir, "b.yaml"), domain("b3"))
	inForce(t, n, "a,b3")
	eventually(t, "all is well again", func() bool { return !n.rules.failed.Load() })
	if n := log.count("b.yaml:2:"); n != 1 {
		t.Errorf("the problem was reported %d times, want once", n)
	}
}

func TestEmptyDirectoryKeepsTheRules(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), domain("a"))
	c := newCluster(t, 1, func(cfg *Config) { cfg.RulesDir = dir })
	n := c.members[0].node
	inForce(t, n, "a")
	if err := os.Remove(filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the empty directory is a problem", n.rules.failed.Load)
	inForce(t, n, "a")
}

// A new leader makes the rules those of its own directory.
func TestRulesFollowTheLeadersDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), domain("a"))
	c := newCluster(t, 3, func(cfg *Config) { cfg.RulesDir = dir })
	old := c.leader()
	inForce(t, old.node, "a")
	c.kill(old)
	write(t, filepath.Join(dir, "a.yaml"), domain("a2"))
	inForce(t, c.leader().node, "a2")
}

func TestApplyIsRefusedWhereADirectoryRules(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), domain("a"))
	c := newCluster(t, 1, func(cfg *Config) { cfg.RulesDir = dir })
	inForce(t, c.members[0].node, "a")
	sources := []*quoratev1.Source{{Name: "b.yaml", Text: domain("b")}}
	client := admin(t, c.leader())
	_, err := client.ApplyRules(context.Background(), &quoratev1.ApplyRulesRequest{Sources: sources})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), dir) {
		t.Errorf("have %v, want FAILED_PRECONDITION that names %s", err, dir)
	}
	resp, err := client.ApplyRules(context.Background(), &quoratev1.ApplyRulesRequest{Sources: sources, DryRun: true})
	if err != nil || !resp.GetChanged() {
		t.Errorf("dry run: have %v, %v", resp, err)
	}
}

func TestDocumentsTooLargeAreAProblem(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), "#"+strings.Repeat("x", rules.MaxBytes))
	if _, err := readRules(dir); err == nil || !strings.Contains(err.Error(), "a.yaml: all documents together have more than 4 MiB") {
		t.Errorf("have %v", err)
	}
}
