package deployments

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/redisbucket"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
	"github.com/quorate/quorate/sim/live"
)

func TestMain(m *testing.M) {
	live.Main()
	os.Exit(m.Run())
}

func TestRulesLoad(t *testing.T) {
	files, err := filepath.Glob("rules/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var sources []quota.Source // of one rule set: quoratectl takes the directory
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, quota.Source{Name: file, Text: string(text)})
	}
	set, err := rules.Parse(sources)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, r := range set.Rules() {
		have = append(have, r.ID)
	}
	if want := []string{"api/account", "api/action=login|remote_address", "api/generic_key=all", "api/user", "models/team", "partners/partner"}; !slices.Equal(slices.Sorted(slices.Values(have)), want) {
		t.Errorf("have %v, want %v", have, want)
	}
}

// The sample settings are read by the binaries that they are for.
func TestSettingsLoad(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ binary, file, want string }{
		{"quorate-coordinator", "coordinator.yaml", "n1=coordinator-1:7601"},
		{"quorate-agent", "agent.yaml", "coordinator-3:7600"},
		{"quorate-agent", "agent-cluster.yaml", "redis+cluster://redis-1:6379"},
	} {
		binary := filepath.Join(dir, tt.binary)
		if out, err := exec.Command("go", "build", "-o", binary, "../cmd/"+tt.binary).CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", tt.binary, err, out)
		}
		out, err := exec.Command(binary, "config", "show", "--origin", "--config", tt.file).CombinedOutput()
		if err != nil || !strings.Contains(string(out), tt.want) || !strings.Contains(string(out), tt.file) {
			t.Errorf("%s config show of %s: %v, want %q from the file in\n%s", tt.binary, tt.file, err, tt.want, out)
		}
	}
}

// The sample with passwords and certificates in files is read once there are such
// files.
func TestSentinelSettingsLoad(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("agent-sentinel.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"redis-password", "sentinel-password"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("s3cret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "agent.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "/etc/quorate", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", "../cmd/quorate-agent", "config", "show", "--origin", "--config", file).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "sentinel-3:26379/region") || strings.Contains(string(out), "s3cret") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The rights of the sample are those that the agent asks for, and Redis takes them.
func TestRedisUsersLoad(t *testing.T) {
	text, err := os.ReadFile("redis-users.acl")
	if err != nil {
		t.Fatal(err)
	}
	if have, want := strings.TrimSpace(string(text)), strings.TrimPrefix(redisbucket.ACL("quorate", "quorate:", true), "ACL SETUSER "); have != "user "+want {
		t.Fatalf("have %q, want %q", have, "user "+want)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil || !strings.Contains(string(readme), redisbucket.ACL("quorate", "quorate:", true)) {
		t.Errorf("the README has other rights: %v", err)
	}
	file, err := filepath.Abs("redis-users.acl")
	if err != nil {
		t.Fatal(err)
	}
	r := redistest.Run(t, "--aclfile", file)
	s, err := redisbucket.New(redisbucket.Config{
		URL: r.URL(), Access: redisbucket.Access{Username: "quorate", Password: "PASSWORD"}, Timeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.State(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
