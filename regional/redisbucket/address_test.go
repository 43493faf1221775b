package redisbucket

import (
	"crypto/tls"
	"reflect"
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	for _, tc := range []struct {
		text string
		want address
		err  string
	}{
		{"redis://localhost", address{network: "tcp", hosts: []string{"localhost:6379"}}, ""},
		{"redis://u:p%40w@[::1]:1/2", address{network: "tcp", hosts: []string{"[::1]:1"}, db: 2, username: "u", password: "p@w"}, ""},
		{"rediss://h:7", address{network: "tcp", hosts: []string{"h:7"}, tls: true}, ""},
		{"unix:///run/redis.sock?db=3", address{network: "unix", hosts: []string{"/run/redis.sock"}, db: 3}, ""},
		{"redis+sentinel://a,b:1/region", address{kind: sentinel, hosts: []string{"a:26379", "b:1"}, primary: "region"}, ""},
		{"rediss+sentinel://u:p%2Fw@a/my%20name/4", address{kind: sentinel, hosts: []string{"a:26379"}, primary: "my name", db: 4, username: "u", password: "p/w", tls: true}, ""},
		{"redis+cluster://:pw@a, b:1,[::1],10.0.0.1:2/", address{kind: cluster, hosts: []string{"a:6379", "b:1", "[::1]:6379", "10.0.0.1:2"}, password: "pw"}, ""},
		{"rediss+cluster://a/0", address{kind: cluster, hosts: []string{"a:6379"}, tls: true}, ""},
		{"", address{}, "none of"},
		{"localhost:6379", address{}, "none of"},
		{"http://s3cret@localhost", address{}, "none of"},
		{"redis+mirror://h", address{}, "none of"},
		{"unix+cluster://h", address{}, "none of"},
		{"redis://:s3cret@h:port", address{}, "port"},
		{"redis://:s3c%ret@h", address{}, "%25"},
		{"redis://h/zero", address{}, "database number"},
		{"redis://h?wrong=1", address{}, "wrong"},
		{"unix://", address{}, "unix socket path"},
		{"redis+sentinel://a,b", address{}, "/NAME"},
		{"redis+sentinel://a/name/x", address{}, "no number"},
		{"redis+sentinel://a:x/name", address{}, "HOST:PORT"},
		{"redis+sentinel://a:70000/name", address{}, "HOST:PORT"},
		{"redis+sentinel:///name", address{}, "HOST:PORT"},
		{"redis+cluster://a,,b", address{}, "HOST:PORT"},
		{"redis+cluster://a/1", address{}, "no databases"},
		{"redis+cluster://a?x=1", address{}, "?options"},
		{"redis+cluster://:s3c%ret@a", address{}, "%25"},
	} {
		have, err := parseURL(tc.text)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: have error %v, want %q", tc.text, err, tc.err)
		}
		if err == nil && !reflect.DeepEqual(have, tc.want) {
			t.Errorf("%q:\nhave %+v\nwant %+v", tc.text, have, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3c") {
			t.Errorf("%q: the error shows the password: %v", tc.text, err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"redis://u:p@h:1/2", "unix:///s", "redis+sentinel://u:p@a,b:1/n/2", "rediss+cluster://[::1]:1,b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseURL(text)
		if err != nil {
			return
		}
		if len(a.hosts) == 0 || a.db < 0 || (a.primary != "") != (a.kind == sentinel) {
			t.Errorf("%q: have %+v", text, a)
		}
		for _, h := range a.hosts {
			if h == "" {
				t.Errorf("%q: an empty host in %q", text, a.hosts)
			}
		}
	})
}

func TestAccessMustFitTheURL(t *testing.T) {
	for _, tc := range []struct{ reason, url, want string }{
		{"TLS without TLS in the URL", "redis://h", "begin it with rediss"},
		{"a password of sentinels without sentinels", "rediss://h", "redis+sentinel"},
		{"a user without a password", "rediss://h", "without a password"},
		{"all of it fits", "rediss+sentinel://h/n", ""},
	} {
		c := Config{URL: tc.url, Access: Access{Username: "u", Password: "p", SentinelUsername: "su", SentinelPassword: "sp", TLS: &tls.Config{}}}
		if tc.want == "without a password" {
			c.Password = ""
		}
		err := c.Validate()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: have %v, want %q", tc.reason, err, tc.want)
		}
	}
}
