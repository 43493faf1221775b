package coordinator

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stepping is set for a test binary whose wall clock steps.
const stepping = "QUORATE_TEST_WALL_CLOCK_STEPS"

// K81: a wall clock that steps by an hour, forward and back, several times a
// second, on the leader, on its followers and on the agents. Nothing is given away
// twice, and no session ends before its time or lives beyond it. No process can
// step the clock that it shares with the machine, so tests of sessions run again in
// a binary that is built with a time package of its own; the monotonic clock in it
// runs on undisturbed, as it does when an operator sets the date.
func TestK81SessionsSurviveAWallClockThatSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("builds everything once more, with another time package")
	}
	tests := []string{
		"TestWallClockStepsHere",
		"TestK72LeasesSurviveTheLeader",
		"TestK73SessionEndsInTime",
		"TestK77RollingRestartIsNotNoticed",
		"TestK79IsolatedLeaderRenewsNothing",
	}
	args := []string{"test", "-count=1", "-vet=off", "-trimpath", "-v", "-timeout=4m", "-overlay", overlay(t), "-run", "^(" + strings.Join(tests, "|") + ")$", "."}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), stepping+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, name := range tests { // a test that is gone would not fail
		if !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Errorf("%s did not run:\n%s", name, out)
		}
	}
}

// overlay writes the description of a build in which time.Now steps.
func overlay(t *testing.T) string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	const steps = "\tsec += [...]int64{0, 3600, 0, -3600}[uint64(mono)/300_000_000%4]\n"
	if strings.Count(string(source), reads) != 1 {
		t.Fatalf("%s of this Go reads the clock in another way; adapt the test", original)
	}
	dir := t.TempDir()
	stepped, list := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	write(t, stepped, strings.Replace(string(source), reads, reads+steps, 1))
	text, err := json.Marshal(map[string]map[string]string{"Replace": {original: stepped}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, list, string(text))
	return list
}

// The test of the test: in that binary the two clocks part.
func TestWallClockStepsHere(t *testing.T) {
	if os.Getenv(stepping) == "" {
		t.Skip("the wall clock of this binary does not step")
	}
	began := time.Now()
	eventually(t, "the wall clock steps", func() bool {
		now := time.Now()
		wall, passed := now.Round(0).Sub(began.Round(0)), now.Sub(began)
		return (wall - passed).Abs() > 50*time.Minute
	})
}
