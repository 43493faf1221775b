package deployments

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/live"
)

func TestMain(m *testing.M) {
	live.Main()
	os.Exit(m.Run())
}

func TestRulesLoad(t *testing.T) {
	text, err := os.ReadFile("rules/api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set, err := rules.Parse([]quota.Source{{Name: "rules/api.yaml", Text: string(text)}})
	if err != nil {
		t.Fatal(err)
	}
	if have := len(set.Rules()); have != 3 {
		t.Errorf("rules/api.yaml: have %d rules, want 3", have)
	}
}

// The sample settings are read by the binaries that they are for.
func TestSettingsLoad(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ binary, file, want string }{
		{"quorate-coordinator", "coordinator.yaml", "n1=coordinator-1:7601"},
		{"quorate-agent", "agent.yaml", "coordinator-3:7600"},
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
