package live

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// parentVariable makes this binary a program with a World, for the test below.
const parentVariable = "QUORATE_LIVE_TEST_PARENT"

// parent starts a World, stops some of its processes, says their ids and waits.
func parent() error {
	opts := Options{
		Coordinators: 1, Dir: os.Getenv(parentVariable), Regions: []RegionSpec{{Name: "eu", Agents: 2, Store: StoreSentinel}},
	}
	if CanMount() == nil {
		opts.SmallDisks = []string{"n1"}
	}
	opts.Timing, opts.Raft = quick()
	ctx, cancel := timeout()
	defer cancel()
	w, err := Start(ctx, opts)
	if err != nil {
		return err
	}
	eu := w.Region("eu")
	// Whoever is stopped cannot see that its parent is gone.
	if err := errors.Join(eu.Agent(0).Freeze(), eu.PauseStore()); err != nil {
		return errors.Join(err, w.Close())
	}
	pids := []int{w.reaper.cmd.Process.Pid}
	for _, p := range w.processes() {
		pids = append(pids, p.cmd.Process.Pid)
	}
	for _, s := range slices.Concat(eu.store.pair.watched.Servers, eu.store.pair.watched.Sentinels) {
		pids = append(pids, s.PID())
	}
	if err := json.NewEncoder(os.Stdout).Encode(pids); err != nil {
		return err
	}
	select {}
}

func TestNothingOutlivesAKilledParent(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a process per node")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), parentVariable+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	killed := cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if err := errors.Join(err, killed); err != nil {
		t.Fatalf("the parent did not come to say what it started: %v", err)
	}
	var pids []int
	if err := json.Unmarshal([]byte(line), &pids); err != nil {
		t.Fatal(err)
	}
	if len(pids) != 1+1+2+2+3 {
		t.Errorf("have %d processes, want the reaper, a coordinator, two agents, two servers and three Sentinels", len(pids))
	}
	t.Cleanup(func() { // what is left is why the test has failed, and it must not stay
		for _, pid := range pids {
			if !ended(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	for _, pid := range pids {
		until(t, fmt.Sprintf("process %d ends", pid), func() bool { return ended(pid) })
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err == nil && strings.Contains(string(mounts), dir) {
		t.Error("a disk is still mounted")
	}
}

// ended reports whether a process is gone, or a zombie that nobody waits for.
func ended(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err == nil && strings.HasPrefix(rest, "Z")
}

// A World ends what it started also when it cannot begin.
func TestNothingIsLeftOfAWorldThatCannotStart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a process per node")
	}
	opts := Options{
		Coordinators: 1, Dir: t.TempDir(), Rules: "domain: [", Patience: 3 * time.Second,
		Regions: []RegionSpec{{Name: "eu", Store: StoreSentinel}},
	}
	opts.Timing, opts.Raft = quick()
	w, err := Start(t.Context(), opts)
	if err == nil {
		t.Fatal(errors.Join(errors.New("rules that are no YAML were taken"), w.Close()))
	}
	// The temporary directory names what belongs to this World on every command line.
	found, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("no /proc to look for processes")
	}
	for _, p := range found {
		line, err := os.ReadFile("/proc/" + p.Name() + "/cmdline")
		if err == nil && strings.Contains(string(line), opts.Dir) {
			t.Errorf("process %s is left: %s", p.Name(), strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
}
