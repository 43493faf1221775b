package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/coordinator/rules"
)

// The largest rules that are valid go to the cluster and come back, by every
// command that carries them.
func TestLargestRulesTravel(t *testing.T) {
	c, err := startCluster()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	text := firstRules + strings.Repeat("#", rules.MaxBytes-len(firstRules)-1) + "\n"
	file := filepath.Join(t.TempDir(), "api.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, talk bytes.Buffer
		line := append(args, "--endpoints", strings.Join(c.endpoints(), ","), "--timeout", "30s", "-o", "json")
		if code := cli.Run(t.Context(), newRoot(), line, &out, &talk); code != want {
			t.Errorf("%s: have exit code %d, want %d\n%s", args[:2], code, want, talk.String())
		}
		return out.String(), talk.String()
	}
	run(cli.OK, "rules", "diff", "-f", file) // nothing but a comment differs
	run(cli.OK, "rules", "apply", "-f", file)
	stdout, _ := run(cli.OK, "rules", "get")
	var have struct {
		Documents []struct{ Text string }
	}
	if err := json.Unmarshal([]byte(stdout), &have); err != nil {
		t.Fatal(err)
	}
	if len(have.Documents) != 1 || have.Documents[0].Text != text {
		t.Errorf("have %d documents, want the one that was applied", len(have.Documents))
	}

	if err := os.WriteFile(file, []byte(text+"#"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr := run(cli.Usage, "rules", "apply", "-f", file); !strings.Contains(stderr, "api.yaml") || !strings.Contains(stderr, "larger than 4 MiB") {
		t.Errorf("one byte more: have %q", stderr)
	}
}
