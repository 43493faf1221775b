package main

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/cmd/internal/cli"
)

// shown returns what `config show` says of the settings of Redis that are not at
// their defaults.
func shown(t *testing.T, env map[string]string, args ...string) (have map[string]any, stderr string, code int) {
	t.Helper()
	for k, v := range env {
		t.Setenv(k, v)
	}
	code, stdout, stderr := run(t.Context(), append([]string{"config", "show", "-o", "json"}, args...)...)
	if code != cli.OK {
		return nil, stderr, code
	}
	var out struct {
		Settings []struct {
			Key, Origin string
			Value       any
		}
	}
	if err := json.Unmarshal([]byte(stdout), &out); err != nil {
		t.Fatal(err)
	}
	have = map[string]any{}
	for _, s := range out.Settings {
		if strings.HasPrefix(s.Key, "redis") && s.Origin != "default" {
			have[s.Key] = s.Value
		}
	}
	return have, stderr, code
}

func TestVariablesOfEnvoyproxyRatelimit(t *testing.T) {
	for _, tc := range []struct {
		reason string
		env    map[string]string
		args   []string
		want   map[string]any
		warn   []string
	}{
		{"one server", map[string]string{"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": "redis:6379", "REDIS_TYPE": "SINGLE"}, nil, map[string]any{"redis": "redis://redis:6379"}, nil},
		{
			"with TLS and a password", map[string]string{
				"REDIS_URL": "r:1", "REDIS_TLS": "true", "REDIS_AUTH": "s3cret", "REDIS_TLS_CACERT": "/ca",
				"REDIS_TLS_CLIENT_CERT": "/c", "REDIS_TLS_CLIENT_KEY": "/k", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION": "true",
			}, nil, map[string]any{
				"redis": "rediss://r:1", "redis_password": "(secret)", "redis_tls_ca": "/ca", "redis_tls_cert": "/c", "redis_tls_key": "/k",
				"redis_tls_skip_hostname": true,
			}, nil,
		},
		{"a user", map[string]string{"REDIS_URL": "r:1", "REDIS_AUTH": "me:s3cret:x"}, nil, map[string]any{"redis": "redis://r:1", "redis_username": "me", "redis_password": "(secret)"}, nil},
		{"a socket, as its default says", map[string]string{"REDIS_URL": "/var/run/nutcracker/rate limit.sock"}, nil, map[string]any{"redis": "unix:///var/run/nutcracker/rate%20limit.sock"}, nil},
		{
			"sentinels", map[string]string{"REDIS_TYPE": "SENTINEL", "REDIS_URL": "mymaster,s1:26379, s2:26379", "REDIS_SENTINEL_AUTH": "su:s3cret"}, nil,
			map[string]any{"redis": "redis+sentinel://s1:26379,s2:26379/mymaster", "redis_sentinel_username": "su", "redis_sentinel_password": "(secret)"}, nil,
		},
		{
			"a cluster with its pool", map[string]string{"REDIS_TYPE": "cluster", "REDIS_URL": "a:1,b:2", "REDIS_POOL_SIZE": "7", "CACHE_KEY_PREFIX": "rl:", "REDIS_TIMEOUT": "50ms"}, nil,
			map[string]any{"redis": "redis+cluster://a:1,b:2", "redis_pool_size": 7.0, "redis_prefix": "rl:", "redis_timeout": "50ms"}, nil,
		},
		{"our own setting wins whole", map[string]string{"REDIS_URL": "r:1", "REDIS_AUTH": "s3cret"}, []string{"--redis=redis://mine:2"}, map[string]any{"redis": "redis://mine:2"},
			[]string{"REDIS_URL is not used: redis comes from flag --redis", "REDIS_AUTH is not used"}},
		{"nothing without an address", map[string]string{"REDIS_AUTH": "s3cret"}, nil, map[string]any{}, []string{"REDIS_AUTH is not used: REDIS_URL is not set"}},
		{"what has no counterpart", map[string]string{
			"REDIS_URL": "r:1", "REDIS_PIPELINE_WINDOW": "150us", "REDIS_PERSECOND_URL": "x", "REDIS_TLS_CACERT": "/ca", "REDIS_SENTINEL_AUTH": "s3cret",
			"MEMCACHE_SRV": "x", "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION": "true",
		}, nil, map[string]any{"redis": "redis://r:1"}, []string{
			"REDIS_PIPELINE_WINDOW is not used", "REDIS_PERSECOND_URL is not used", "REDIS_TLS_CACERT is not used: REDIS_TLS is not true",
			"REDIS_SENTINEL_AUTH is not used", "MEMCACHE_SRV is not used", "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION is not used",
		}},
		{"a long wait is told", map[string]string{"REDIS_URL": "r:1", "REDIS_TIMEOUT": "10s"}, nil, map[string]any{"redis": "redis://r:1", "redis_timeout": "10s"}, []string{"REDIS_TIMEOUT lets a request wait 10s"}},
		{"what Kubernetes adds for a service called redis", map[string]string{"REDIS_PORT": "tcp://10.0.0.1:6379", "REDIS_SERVICE_HOST": "10.0.0.1"}, nil, map[string]any{}, nil},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			have, stderr, code := shown(t, tc.env, tc.args...)
			if code != cli.OK || !maps.Equal(have, tc.want) {
				t.Errorf("exit code %d\nhave %v\nwant %v\n%s", code, have, tc.want, stderr)
			}
			for _, w := range tc.warn {
				if !strings.Contains(stderr, w) {
					t.Errorf("no %q in\n%s", w, stderr)
				}
			}
			if len(tc.warn) == 0 && stderr != "" {
				t.Errorf("want no warning, have\n%s", stderr)
			}
			if strings.Contains(stderr, "s3cret") {
				t.Errorf("a password is shown:\n%s", stderr)
			}
		})
	}
}

func TestVariablesOfEnvoyproxyRatelimitThatCannotBe(t *testing.T) {
	for _, tc := range []struct {
		reason string
		env    map[string]string
		want   string
	}{
		{"a second Redis", map[string]string{"REDIS_URL": "r:1", "REDIS_PERSECOND": "true"}, "REDIS_PERSECOND: a second Redis"},
		{"another kind of store", map[string]string{"BACKEND_TYPE": "memcache"}, "BACKEND_TYPE"},
		{"an unknown type", map[string]string{"REDIS_URL": "r:1", "REDIS_TYPE": "RING"}, `"RING" is none of SINGLE, SENTINEL, CLUSTER`},
		{"an unknown socket", map[string]string{"REDIS_URL": "r:1", "REDIS_SOCKET_TYPE": "udp"}, `"udp" is neither`},
		{"sentinels without sentinels", map[string]string{"REDIS_URL": "mymaster", "REDIS_TYPE": "SENTINEL"}, "NAME,HOST"},
		{"many addresses of one server", map[string]string{"REDIS_URL": "a:1,b:2"}, "SENTINEL or CLUSTER"},
		{"TLS on a socket", map[string]string{"REDIS_URL": "/s", "REDIS_TLS": "true"}, "no TLS"},
		{"a flag that is none", map[string]string{"REDIS_URL": "r:1", "REDIS_TLS": "yes"}, `want true or false, have "yes"`},
		{"a pool that is none", map[string]string{"REDIS_URL": "r:1", "REDIS_POOL_SIZE": "many"}, "environment variable REDIS_POOL_SIZE: want a whole number"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if _, stderr, code := shown(t, tc.env); code != cli.Usage || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, want %q in\n%s", code, tc.want, stderr)
			}
		})
	}
}

func TestRedisAccess(t *testing.T) {
	for _, tc := range []struct {
		reason string
		o      redisOptions
		want   string
		tls    bool
	}{
		{"nothing", redisOptions{}, "", false},
		{"a name", redisOptions{ServerName: "redis.test"}, "", true},
		{"any host", redisOptions{AnyHost: true}, "", true},
		{"anyone", redisOptions{Anyone: true}, "", true},
		{"both", redisOptions{AnyHost: true, Anyone: true}, "keep one", true},
		{"any host of this name", redisOptions{AnyHost: true, ServerName: "x"}, "keep one", true},
		{"a file that is not there", redisOptions{CA: "/no/such/ca"}, "/no/such/ca", false},
	} {
		a, err := tc.o.access()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) || (a.TLS != nil) != tc.tls {
			t.Errorf("%s: have %v, %v", tc.reason, a.TLS, err)
		}
	}
	_, _, stderr := run(t.Context(), "--region", "eu", "--coordinators", "127.0.0.1:1", "--redis", "rediss://127.0.0.1:1",
		"--redis-tls-insecure-skip-verify", "--grpc-addr", "192.0.2.1:1", "--http-addr", "", "--admin-addr", "")
	if !strings.Contains(stderr, "certificate of Redis is not checked") {
		t.Errorf("not loud:\n%s", stderr)
	}
}

func TestAnyHostStillNeedsTheCA(t *testing.T) {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason, host string
		o            redisOptions
		ok           bool
	}{
		{"the CA signed it for another host", "redis.test", redisOptions{CA: file, AnyHost: true}, true},
		{"another CA", "redis.test", redisOptions{AnyHost: true}, false},
		{"the name counts without the setting", "redis.test", redisOptions{CA: file}, false},
		{"a name of the certificate is given", "redis.test", redisOptions{CA: file, ServerName: "example.com"}, true},
		{"anyone", "redis.test", redisOptions{Anyone: true}, true},
	} {
		a, err := tc.o.access()
		if err != nil {
			t.Fatal(err)
		}
		if a.TLS.ServerName == "" {
			a.TLS.ServerName = tc.host
		}
		conn, err := tls.Dial("tcp", srv.Listener.Addr().String(), a.TLS)
		if (err == nil) != tc.ok {
			t.Errorf("%s: have %v, want success %v", tc.reason, err, tc.ok)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}
