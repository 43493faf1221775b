package live

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

func TestNodeThatEndsByItselfIsReportedWithItsLog(t *testing.T) {
	p := &process{role: "gardener", name: "n1", spec: struct{}{}, log: filepath.Join(t.TempDir(), "n1.log")}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		p.kill()
		t.Fatal("the process goes on")
	}
	err := p.died()
	if !errors.Is(err, ErrDied) || !strings.Contains(err.Error(), `unknown role \"gardener\"`) {
		t.Fatalf("have %v, want the reason from the log", err)
	}
	if err := p.stop(time.Second); err != nil {
		t.Errorf("stopping what has ended: %v", err)
	}
	p.kill()
	if err := p.signal(nil); !errors.Is(err, errNotRunning) {
		t.Errorf("signal: have %v, want %v", err, errNotRunning)
	}
}

// conn is the part of resolver.ClientConn that a route uses.
type conn struct {
	resolver.ClientConn
	state resolver.State
}

func (c *conn) UpdateState(s resolver.State) error { c.state = s; return nil }

func (c *conn) ParseServiceConfig(string) *serviceconfig.ParseResult { return nil }

func TestAddressesTakeTheirLinks(t *testing.T) {
	r := routes{"127.0.0.1:7600": "127.0.0.1:9000"}
	for _, tt := range []struct{ reason, addr, want string }{
		{"a coordinator is reached through its proxy", "127.0.0.1:7600", "127.0.0.1:9000"},
		{"anything else directly", "127.0.0.1:7700", "127.0.0.1:7700"},
	} {
		var target resolver.Target
		target.URL.Path = "/" + tt.addr
		c := &conn{}
		if _, err := r.Build(target, c, resolver.BuildOptions{}); err != nil {
			t.Fatal(err)
		}
		if have := c.state.Addresses[0].Addr; have != tt.want {
			t.Errorf("%s: have %s, want %s", tt.reason, have, tt.want)
		}
	}
}
