package redisbucket

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Schemes are the forms of Config.URL, for help texts and errors.
const Schemes = "redis[s]://[USER:PASSWORD@]HOST[:PORT][/DB], unix://[USER:PASSWORD@]/PATH[?db=DB], " +
	"redis[s]+cluster://[USER:PASSWORD@]HOST[:PORT],... or redis[s]+sentinel://[USER:PASSWORD@]SENTINEL[:PORT],.../PRIMARY[/DB]"

type kind uint8

const (
	single kind = iota
	sentinel
	cluster
)

// address is what a URL says.
type address struct {
	kind               kind
	network            string // of a single server
	hosts              []string
	primary            string // the name that the sentinels know it by
	db                 int
	username, password string
	tls                bool
}

var errURL = errors.New("is none of " + Schemes)

// parseURL reads a URL. Its errors never repeat the text, which may hold a password.
func parseURL(text string) (address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return address{}, errURL
	}
	switch base, form, _ := strings.Cut(scheme, "+"); {
	case base != "redis" && base != "rediss" && scheme != "unix":
		return address{}, errURL
	case form == "" && scheme == base:
		return parseSingle(text)
	case form == "sentinel":
		return parseMany(address{kind: sentinel, tls: base == "rediss"}, rest, "26379")
	case form == "cluster":
		return parseMany(address{kind: cluster, tls: base == "rediss"}, rest, "6379")
	}
	return address{}, errURL
}

// parseSingle reads what go-redis does, so that a URL means here what it means
// elsewhere.
func parseSingle(text string) (address, error) {
	if _, err := url.Parse(text); err != nil {
		var cause *url.Error
		if errors.As(err, &cause) {
			err = cause.Err
		}
		if strings.Contains(err.Error(), "port") {
			return address{}, errors.New("has a port that is no number")
		}
		return address{}, errors.New("is no URL: write characters like %, /, @ and # of user and password as %25, %2F, %40 and %23")
	}
	o, err := redis.ParseURL(text)
	if err != nil {
		return address{}, fmt.Errorf("cannot be used: %s", strings.TrimPrefix(err.Error(), "redis: "))
	}
	return address{
		network: o.Network, hosts: []string{o.Addr}, db: o.DB, username: o.Username, password: o.Password, tls: o.TLSConfig != nil,
	}, nil
}

// parseMany reads a list of hosts and what follows it. net/url takes no lists.
func parseMany(a address, rest, port string) (address, error) {
	rest, query, _ := strings.Cut(rest, "?")
	if query != "" {
		return a, errors.New("takes no ?options")
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		user, password, _ := strings.Cut(hosts[:at], ":")
		var err1, err2 error
		a.username, err1 = url.PathUnescape(user)
		a.password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return a, errors.New("has a user or password with a % that is none: write it as %25")
		}
		hosts = hosts[at+1:]
	}
	for h := range strings.SplitSeq(hosts, ",") {
		addr, err := hostPort(strings.TrimSpace(h), port)
		if err != nil {
			return a, err
		}
		a.hosts = append(a.hosts, addr)
	}
	path = strings.TrimSuffix(path, "/")
	if a.kind == cluster {
		if path != "" && path != "0" {
			return a, fmt.Errorf("ends in /%s, and a cluster has no databases", path)
		}
		return a, nil
	}
	name, db, _ := strings.Cut(path, "/")
	var err error
	if a.primary, err = url.PathUnescape(name); err != nil || a.primary == "" {
		return a, errors.New("does not end in the /NAME by which the sentinels know the primary")
	}
	if db != "" {
		if a.db, err = strconv.Atoi(db); err != nil || a.db < 0 {
			return a, fmt.Errorf("has the database %q, which is no number", db)
		}
	}
	return a, nil
}

// hostPort completes host with the port that is usual.
func hostPort(host, port string) (string, error) {
	if h, p, err := net.SplitHostPort(host); err == nil {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 || h == "" {
			return "", fmt.Errorf("names %q, which is no HOST:PORT", host)
		}
		return host, nil
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if bare == "" || strings.ContainsAny(bare, "[] ") || strings.Contains(bare, ":") && net.ParseIP(bare) == nil {
		return "", fmt.Errorf("names %q, which is no HOST:PORT", host)
	}
	return net.JoinHostPort(bare, port), nil
}
