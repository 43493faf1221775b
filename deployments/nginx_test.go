//go:build nginx

package deployments

import (
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

// startNginx runs nginx/nginx.conf with its ports replaced and returns where it listens.
func startNginx(t *testing.T, agent, upstream string) string {
	t.Helper()
	binary, err := exec.LookPath("nginx")
	if err != nil {
		t.Fatalf("run this by `make test-nginx`, with nginx in the PATH: %v", err)
	}
	text, err := os.ReadFile("nginx/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	dir, listen := t.TempDir(), freePort(t)
	replace := []string{"127.0.0.1:10080", "127.0.0.1:" + listen, "127.0.0.1:8080", agent, "127.0.0.1:9000", strings.TrimPrefix(upstream, "http://")}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			t.Fatalf("nginx/nginx.conf does not contain %q", replace[i])
		}
	}
	config := strings.NewReplacer(replace...).Replace(string(text))
	// Debian's build keeps bodies and logs in directories of root.
	config = strings.Replace(config, "http {", "http {\n  access_log off;\n  client_body_temp_path body;\n  proxy_temp_path proxy;\n"+
		"  fastcgi_temp_path fastcgi;\n  uwsgi_temp_path uwsgi;\n  scgi_temp_path scgi;\n", 1)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-p", dir, "-c", file, "-e", "stderr", "-g", "daemon off; master_process off; pid nginx.pid;")
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("nginx: %s", log.String())
		}
	})
	await(t, "nginx listens", func() error {
		conn, err := net.DialTimeout("tcp", "127.0.0.1:"+listen, time.Second)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return "http://127.0.0.1:" + listen
}

// K86: auth_request answers 500 where the agent says 429. With the shipped recipe the
// client sees what the agent said, and a 503 while there is no agent.
func TestK86NginxPassesADenialOn(t *testing.T) {
	w, upstream := twoRegions(t)
	agent := w.Region("eu").Agent(0)
	url := startNginx(t, agent.HTTPAddr(), upstream)
	admitted, denied := 0, 0
	for range 12 {
		a := get(t, url+"/login")
		switch a.code {
		case http.StatusOK:
			admitted++
			if a.header.Get("Retry-After") != "" || a.header.Get("X-RateLimit-Limit") != "5" {
				t.Errorf("admitted: have headers %v", a.header)
			}
		case http.StatusTooManyRequests:
			denied++
			if s, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || s < 1 || s > 60 || a.header.Get("X-RateLimit-Remaining") != "0" {
				t.Errorf("denied: have headers %v", a.header)
			}
		default:
			t.Fatalf("have status %d, want 200 or 429", a.code)
		}
	}
	if admitted == 0 || denied == 0 {
		t.Errorf("have %d admitted and %d denied, want both", admitted, denied)
	}
	agent.Kill()
	if a := get(t, url+"/login"); a.code != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "" {
		t.Errorf("without the agent: have status %d, headers %v", a.code, a.header)
	}
}
