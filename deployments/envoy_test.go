//go:build envoy

package deployments

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// envoyBinary is the Envoy to drive; `make test-envoy` installs one and sets it.
func envoyBinary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("ENVOY")
	if path == "" {
		t.Fatal("ENVOY is not set: run `make test-envoy`, which installs Envoy into .cache and sets it")
	}
	return path
}

// startEnvoy runs a configuration with its ports replaced and returns where it listens.
func startEnvoy(t *testing.T, file, agent, upstream string, edit ...string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	listen := freePort(t)
	replace := append([]string{
		"port_value: 10000", "port_value: " + listen,
		"port_value: 8081", "port_value: " + portOf(t, agent),
		"port_value: 9000", "port_value: " + portOf(t, upstream),
	}, edit...)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			t.Fatalf("%s does not contain %q", file, replace[i])
		}
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "envoy.yaml")
	if err := os.WriteFile(config, []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "envoy.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(envoyBinary(t), "-c", config, "--concurrency", "1", "--disable-hot-restart", "-l", "warning")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			if out, err := os.ReadFile(log.Name()); err == nil {
				t.Logf("envoy: %s", out)
			}
		}
	})
	url := "http://127.0.0.1:" + listen
	await(t, "envoy listens", func() error {
		conn, err := net.DialTimeout("tcp", "127.0.0.1:"+listen, time.Second)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return url
}

// Five logins a minute per address, over two Envoys in two regions: the sixth is
// denied wherever it arrives.
func TestEnvoyHoldsALimitOverTwoRegions(t *testing.T) {
	w, upstream := twoRegions(t)
	eu := startEnvoy(t, "envoy/envoy.yaml", w.Region("eu").Agent(0).GRPCAddr(), upstream)
	us := startEnvoy(t, "envoy/envoy.yaml", w.Region("us").Agent(0).GRPCAddr(), upstream)

	const tries = 40
	ok := map[string]int{}
	began := time.Now()
	var denied answer
	for i := range tries {
		name, url := "eu", eu
		if i%2 == 1 {
			name, url = "us", us
		}
		switch a := get(t, url+"/login"); a.code {
		case http.StatusOK:
			ok[name]++
		case http.StatusTooManyRequests:
			denied = a
		default:
			t.Fatalf("login %d: have status %d", i, a.code)
		}
	}
	allowed := 5 + int(time.Since(began)/(12*time.Second))
	if sum := ok["eu"] + ok["us"]; sum > allowed || sum < 4 {
		t.Errorf("logins admitted in eu and us: have %v, want 4 to %d", ok, allowed)
	}
	if have := denied.header.Get("x-ratelimit-remaining"); have != "0" {
		t.Errorf("x-ratelimit-remaining of a denial: have %q, want 0", have)
	}
	if have := denied.header.Get("x-ratelimit-limit"); !strings.HasPrefix(have, "5") {
		t.Errorf("x-ratelimit-limit of a denial: have %q, want 5…", have)
	}
	if s, err := strconv.Atoi(denied.header.Get("x-ratelimit-reset")); err != nil || s < 1 || s > 60 {
		t.Errorf("x-ratelimit-reset of a denial: have %q, want 1 to 60", denied.header.Get("x-ratelimit-reset"))
	}
}

// Each user has a bucket of their own, and the headers count it down.
func TestEnvoyCountsPerUser(t *testing.T) {
	w, upstream := twoRegions(t)
	url := startEnvoy(t, "envoy/envoy.yaml", w.Region("eu").Agent(0).GRPCAddr(), upstream)
	for _, user := range []string{"ann", "bob", "{}|#%=", "a b"} {
		a := get(t, url+"/", "x-user", user)
		if a.code != http.StatusOK {
			t.Errorf("user %q: have status %d, want 200", user, a.code)
		}
		if !strings.Contains(a.header.Get("x-ratelimit-limit"), "1000") {
			t.Errorf("user %q: x-ratelimit-limit %q does not name the limit of 1000", user, a.header.Get("x-ratelimit-limit"))
		}
	}
}

// While the agent is away Envoy does what failure_mode_deny says.
func TestEnvoyFailureMode(t *testing.T) {
	w, upstream := twoRegions(t)
	agent := w.Region("eu").Agent(0)
	open := startEnvoy(t, "envoy/envoy.yaml", agent.GRPCAddr(), upstream)
	closed := startEnvoy(t, "envoy/envoy.yaml", agent.GRPCAddr(), upstream, "failure_mode_deny: false", "failure_mode_deny: true")
	for _, url := range []string{open, closed} {
		if a := get(t, url+"/", "x-user", "ann"); a.code != http.StatusOK {
			t.Errorf("with the agent: have status %d, want 200", a.code)
		}
	}
	agent.Kill()
	if a := get(t, open+"/", "x-user", "ann"); a.code != http.StatusOK {
		t.Errorf("failure_mode_deny false without the agent: have status %d, want 200", a.code)
	}
	if a := get(t, closed+"/", "x-user", "ann"); a.code != http.StatusInternalServerError {
		t.Errorf("failure_mode_deny true without the agent: have status %d, want 500", a.code)
	}
	if err := agent.Restart(); err != nil {
		t.Fatal(err)
	}
	await(t, "the agent answers again", func() error {
		if a := get(t, closed+"/", "x-user", "ann"); a.code != http.StatusOK {
			return fmt.Errorf("status %d", a.code)
		}
		return nil
	})
}

// A request costs what its answer says, and is charged when that is done: also where the
// bucket has less (K25). Then nobody of the team is let in until the debt is paid.
func TestEnvoyChargesWhatAnAnswerHasCost(t *testing.T) {
	w, upstream := start(t, "rules/models.yaml", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-tokens-used", r.Header.Get("x-cost"))
	})
	url := startEnvoy(t, "envoy/models.yaml", w.Region("eu").Agent(0).GRPCAddr(), upstream)
	ask := func(team string, cost int) (code, remaining int, header http.Header) {
		a := get(t, url, "x-team", team, "x-cost", strconv.Itoa(cost))
		remaining, err := strconv.Atoi(a.header.Get("x-ratelimit-remaining"))
		if err != nil || a.code != http.StatusOK && a.code != http.StatusTooManyRequests {
			t.Fatalf("team %s: have status %d and headers %v", team, a.code, a.header)
		}
		return a.code, remaining, a.header
	}

	_, before, _ := ask("a", 1000)
	await(t, "1000 tokens are charged", func() error {
		if _, now, _ := ask("a", 0); now > before-500 {
			return fmt.Errorf("%d are left of %d", now, before)
		}
		return nil
	})

	const large = 60_000 // more than the region has, and may owe
	code, n := http.StatusOK, 0
	var header http.Header
	for ; code == http.StatusOK && n < 50; n++ {
		code, _, header = ask("a", large)
	}
	if code != http.StatusTooManyRequests {
		t.Errorf("%d answers of %d tokens were let through, want less than 50", n, large)
	}
	if s, err := strconv.Atoi(header.Get("x-ratelimit-reset")); err != nil || s < 1 {
		t.Errorf("x-ratelimit-reset of a denial: have %q, want 1 or more", header.Get("x-ratelimit-reset"))
	}
	if code, _, _ := ask("b", 0); code != http.StatusOK {
		t.Errorf("another team: have status %d, want 200", code)
	}
}
