package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/scenario"
)

var update = flag.Bool("update", false, "rewrite ../testdata/*.txt with what happens now")

// Every scenario gives the report that lies beside it, bit for bit, and keeps every
// promise. Review a change of it as a drawing: does anybody starve, does a lease
// swing?
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		golden := strings.TrimSuffix(file, ".yaml") + ".txt"
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			s.Plan.KeepLeases = true
			result, err := sim.Run(s.Plan, s.Seed)
			if err != nil {
				t.Fatal(err)
			}
			var have bytes.Buffer
			if err := (Run{About: s.About, Plan: s.Plan, Result: result}).Write(&have); err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(have.String(), "\n") {
				if len(line) > 80 {
					t.Errorf("line %d has %d columns: %s", i+1, len(line), line)
				}
			}
			if result.Broken() {
				t.Errorf("a promise was broken: %v", result.Violations)
			}
			if *update {
				if err := os.WriteFile(golden, have.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if have.String() != string(want) {
				t.Errorf("%s differs; run with -update and review the diff. Have:\n%s", golden, have.String())
			}
		})
	}
}
