package main

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/cmd/internal/settings"
)

// unused are variables of envoyproxy/ratelimit about its store that have no
// counterpart here, each with the reason.
var unused = map[string]string{
	"REDIS_PIPELINE_WINDOW":                   "requests for the same key share calls without a waiting time",
	"REDIS_PIPELINE_LIMIT":                    "requests for the same key share calls without a waiting time",
	"REDIS_CLUSTER_PIPELINE_PARALLELISM":      "requests for the same key share calls without a waiting time",
	"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION":    "an agent without Redis stays healthy and decides by on_store_failure",
	"REDIS_STARTUP_INITIAL_INTERVAL":          "an agent starts without Redis and keeps trying",
	"REDIS_STARTUP_MAX_INTERVAL":              "an agent starts without Redis and keeps trying",
	"REDIS_STARTUP_MAX_ELAPSED_TIME":          "an agent starts without Redis and keeps trying",
	"REDIS_POOL_ON_EMPTY_BEHAVIOR":            "a request waits for a connection within redis_timeout",
	"REDIS_POOL_ON_EMPTY_WAIT_DURATION":       "a request waits for a connection within redis_timeout",
	"EXPIRATION_JITTER_MAX_SECONDS":           "records expire when their buckets are full",
	"LOCAL_CACHE_SIZE_IN_BYTES":               "the memory of denials has a fixed size",
	"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "a denied request is never counted",
}

// used are those that are understood.
var used = []string{
	"REDIS_URL", "REDIS_TYPE", "REDIS_SOCKET_TYPE", "REDIS_AUTH", "REDIS_SENTINEL_AUTH", "REDIS_TLS", "REDIS_TLS_CLIENT_CERT",
	"REDIS_TLS_CLIENT_KEY", "REDIS_TLS_CACERT", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "REDIS_POOL_SIZE", "REDIS_TIMEOUT", "CACHE_KEY_PREFIX",
}

// envoyproxy understands what a user of envoyproxy/ratelimit has set for its
// store. If redis itself is set here, those variables are not mixed into it.
func envoyproxy(env map[string]string, own func(key string) string) (f settings.Foreign) {
	r := reading{env: env, f: &f}
	if origin := own("redis"); origin != "" {
		for _, name := range used {
			if env[name] != "" {
				r.warn(name, "redis comes from "+origin)
			}
		}
	} else {
		r.connection()
	}
	for name, why := range unused {
		if env[name] != "" {
			r.warn(name, why)
		}
	}
	r.perSecond()
	if b := env["BACKEND_TYPE"]; b != "" && !strings.EqualFold(b, "redis") {
		r.bad("BACKEND_TYPE", fmt.Sprintf("%q: buckets can only be kept in Redis; set redis and unset this", b))
	}
	slices.Sort(f.Warnings)
	return f
}

type reading struct {
	env map[string]string
	f   *settings.Foreign
}

func (r *reading) warn(name, why string) {
	r.f.Warnings = append(r.f.Warnings, "environment variable "+name+" is not used: "+why)
}

func (r *reading) bad(name, what string) {
	r.f.Problems = append(r.f.Problems, settings.Problem{Where: "environment variable " + name, Message: what})
}

func (r *reading) give(key, text, from string) {
	r.f.Values = append(r.f.Values, settings.Value{Key: key, Text: text, From: from})
}

// flag reads a variable that is true or false.
func (r *reading) flag(name string) bool {
	if r.env[name] == "" {
		return false
	}
	b, err := strconv.ParseBool(r.env[name])
	if err != nil {
		r.bad(name, fmt.Sprintf("want true or false, have %q", r.env[name]))
	}
	return b
}

// connection reads where the store is and how to get in.
func (r *reading) connection() {
	withTLS := r.flag("REDIS_TLS")
	if r.env["REDIS_URL"] != "" {
		if text := r.url(withTLS); text != "" {
			r.give("redis", text, "REDIS_URL")
		}
	} else {
		for _, name := range []string{"REDIS_TYPE", "REDIS_SOCKET_TYPE", "REDIS_AUTH", "REDIS_TLS"} {
			if r.env[name] != "" {
				r.warn(name, "REDIS_URL is not set")
			}
		}
		return
	}
	for _, a := range []struct{ name, user, password string }{
		{"REDIS_AUTH", "redis_username", "redis_password"},
		{"REDIS_SENTINEL_AUTH", "redis_sentinel_username", "redis_sentinel_password"},
	} {
		if r.env[a.name] == "" {
			continue
		}
		if a.name == "REDIS_SENTINEL_AUTH" && !strings.EqualFold(r.env["REDIS_TYPE"], "sentinel") && !strings.Contains(r.env["REDIS_URL"], "+sentinel://") {
			r.warn(a.name, "REDIS_TYPE is not SENTINEL")
			continue
		}
		user, password, both := strings.Cut(r.env[a.name], ":")
		if !both {
			user, password = "", user
		}
		if user != "" {
			r.give(a.user, user, a.name)
		}
		r.give(a.password, password, a.name)
	}
	for _, v := range [][2]string{
		{"REDIS_TLS_CACERT", "redis_tls_ca"}, {"REDIS_TLS_CLIENT_CERT", "redis_tls_cert"}, {"REDIS_TLS_CLIENT_KEY", "redis_tls_key"},
		{"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "redis_tls_skip_hostname"},
	} {
		switch {
		case r.env[v[0]] == "":
		case !withTLS:
			r.warn(v[0], "REDIS_TLS is not true")
		default:
			r.give(v[1], r.env[v[0]], v[0])
		}
	}
	for _, v := range [][2]string{{"REDIS_POOL_SIZE", "redis_pool_size"}, {"REDIS_TIMEOUT", "redis_timeout"}, {"CACHE_KEY_PREFIX", "redis_prefix"}} {
		if r.env[v[0]] != "" {
			r.give(v[1], r.env[v[0]], v[0])
		}
	}
	if d, err := time.ParseDuration(r.env["REDIS_TIMEOUT"]); err == nil && d > time.Second {
		r.f.Warnings = append(r.f.Warnings, fmt.Sprintf(
			"environment variable REDIS_TIMEOUT lets a request wait %s for a Redis that does not answer; redis_timeout is 25ms without it", d))
	}
}

// url returns what REDIS_URL means as a URL of ours.
func (r *reading) url(withTLS bool) string {
	text, scheme := strings.TrimSpace(r.env["REDIS_URL"]), "redis"
	if withTLS {
		scheme = "rediss"
	}
	if strings.Contains(text, "://") {
		return text // a URL already
	}
	hosts := strings.Split(text, ",")
	for i := range hosts {
		hosts[i] = strings.TrimSpace(hosts[i])
	}
	switch kind := strings.ToUpper(r.env["REDIS_TYPE"]); kind {
	case "", "SINGLE":
	case "CLUSTER":
		return scheme + "+cluster://" + strings.Join(hosts, ",")
	case "SENTINEL":
		if len(hosts) < 2 {
			r.bad("REDIS_URL", "for sentinels, give the name of the primary and then them: NAME,HOST:26379,HOST:26379")
			return ""
		}
		return scheme + "+sentinel://" + strings.Join(hosts[1:], ",") + "/" + url.PathEscape(hosts[0])
	default:
		r.bad("REDIS_TYPE", fmt.Sprintf("%q is none of SINGLE, SENTINEL, CLUSTER", kind))
		return ""
	}
	// Its default for the socket is unix, which few mean: a path says so itself.
	socket := strings.ToLower(r.env["REDIS_SOCKET_TYPE"])
	switch {
	case len(hosts) > 1:
		r.bad("REDIS_URL", "has several addresses: set REDIS_TYPE to SENTINEL or CLUSTER")
	case socket != "" && socket != "tcp" && socket != "unix":
		r.bad("REDIS_SOCKET_TYPE", fmt.Sprintf("%q is neither tcp nor unix", socket))
	case socket == "unix" || socket == "" && strings.HasPrefix(text, "/"):
		if withTLS {
			r.bad("REDIS_TLS", "a unix socket has no TLS")
			return ""
		}
		return "unix://" + (&url.URL{Path: text}).EscapedPath()
	default:
		return scheme + "://" + text
	}
	return ""
}

// perSecond refuses the second store that envoyproxy/ratelimit can have.
func (r *reading) perSecond() {
	if r.flag("REDIS_PERSECOND") {
		r.bad("REDIS_PERSECOND", "a second Redis for limits per second is not supported: a region has one Redis, and all its limits are in it; unset this and all REDIS_PERSECOND_ variables")
		return
	}
	for name, value := range r.env {
		if value != "" && strings.HasPrefix(name, "REDIS_PERSECOND_") {
			r.warn(name, "a region has one Redis, and all its limits are in it")
		}
		if value != "" && strings.HasPrefix(name, "MEMCACHE_") {
			r.warn(name, "buckets are kept in Redis")
		}
	}
}
