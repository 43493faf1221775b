package deployments

import (
	"os"
	"os/exec"
	"path/filepath"
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
	var all []quota.Source
	for name, want := range map[string]int{"rules/api.yaml": 3, "rules/partners.yaml": 1} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source := quota.Source{Name: name, Text: string(text)}
		set, err := rules.Parse([]quota.Source{source})
		if err != nil {
			t.Fatal(err)
		}
		if have := len(set.Rules()); have != want {
			t.Errorf("%s: have %d rules, want %d", name, have, want)
		}
		all = append(all, source)
	}
	if _, err := rules.Parse(all); err != nil {
		t.Errorf("together: %v", err)
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
