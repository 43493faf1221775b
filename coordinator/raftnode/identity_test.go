package raftnode

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseCluster(t *testing.T) {
	for _, tt := range []struct {
		reason, list string
		want         string
		problems     int
	}{
		{"sorted by node", "n2=b:2, n1=a:1", "n1=a:1,n2=b:2", 0},
		{"IPv6", "n1=[::1]:7601", "n1=[::1]:7601", 0},
		{"nothing", "", "", 1},
		{"no node", "a:1", "", 1},
		{"no port, and port 0", "n1=a,n2=b:0", "", 2},
		{"a node twice, an address twice", "n1=a:1,n1=b:1,n2=a:1", "", 2},
	} {
		have, err := ParseCluster(tt.list)
		problems := 0
		if err != nil {
			problems = strings.Count(err.Error(), ErrCluster.Error())
		}
		if clusterText(have) != tt.want || problems != tt.problems {
			t.Errorf("%s: have %v, %v, want %s and %d problems", tt.reason, have, err, tt.want, tt.problems)
		}
	}
}

func TestTimeoutsNameTheirProblems(t *testing.T) {
	if err := (Timeouts{}).Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	err := Timeouts{Heartbeat: time.Second, Election: time.Millisecond, LeaderLease: 2 * time.Second}.Validate()
	for _, want := range []string{"election timeout: 1ms is below 5ms", "leader-lease timeout: 2s is above", "election timeout: 1ms is below the heartbeat"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("have %v, want it to say %q", err, want)
		}
	}
}

func TestContradictionsAreRefusedAtStart(t *testing.T) {
	c := newCluster(t, 3)
	c.propose("a")
	other := slices.Clone(c.members[0].cfg.InitialCluster)
	other[2].Address = host(7) + ":1"
	for _, tt := range []struct {
		reason string
		change func(*Config)
		want   error
		text   string
	}{
		{"the directory is in use", func(*Config) {}, ErrDataDir, "locked by another process"},
		{"the directory is another node's", func(cfg *Config) { cfg.Node, cfg.Advertise = "n2", "" }, ErrMismatch, "was made with --node n1, now it is n2"},
		{"the list has changed", func(cfg *Config) { cfg.InitialCluster = other }, ErrMismatch, "was made with --initial-cluster"},
		{"the others have another list", func(cfg *Config) { cfg.InitialCluster, cfg.DataDir = other, t.TempDir() }, ErrMismatch, "give all nodes the same list"},
		{"the node is not in the list", func(cfg *Config) { cfg.Node = "n9" }, ErrCluster, `node "n9" is not in the list`},
	} {
		if tt.want != ErrDataDir {
			c.stop(c.members[0])
		}
		cfg := c.members[0].cfg
		tt.change(&cfg)
		_, err := Open(cfg)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: have %v, want %v with %q", tt.reason, err, tt.want, tt.text)
		}
	}
}

func TestNodesOfAnotherClusterAndStrangersAreRefused(t *testing.T) {
	c := newCluster(t, 1)
	c.propose("a")
	c.id = "c-1"
	address := c.members[0].cfg.Bind
	dial := func(node, cluster string) error {
		cfg := c.members[0].cfg
		cfg.Node, cfg.Cluster = node, func() string { return cluster }
		s := &stream{cfg: cfg, ctx: t.Context()}
		conn, _, err := s.dial(address, purposeRaft, time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := dial("n1", "c-1"); err != nil {
		t.Errorf("the same cluster: %v", err)
	}
	if err := dial("n1", ""); err != nil {
		t.Errorf("a node that knows no cluster yet: %v", err)
	}
	if err := dial("n1", "c-2"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "belongs to cluster c-2") {
		t.Errorf("another cluster: have %v", err)
	}
	if err := dial("n9", "c-1"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `"n9" is not a member`) {
		t.Errorf("a stranger: have %v", err)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\n\r\n")
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("a browser: have %d bytes, want the connection closed", n)
	}
}

// authority signs certificates of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	a := &authority{cert, key, x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a
}

func (a *authority) issue(t *testing.T, host string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.ParseIP(host)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) secure(t *testing.T, cfg *Config, host string) {
	cert := a.issue(t, host)
	cfg.ServerTLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: a.pool, ClientAuth: tls.RequireAndVerifyClientCert}
	cfg.ClientTLS = &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: a.pool}
}

func TestMutualTLS(t *testing.T) {
	a := newAuthority(t)
	c := newCluster(t, 3, func(cfg *Config) {
		h, _, _ := net.SplitHostPort(cfg.Bind)
		a.secure(t, cfg, h)
	})
	c.propose("a")
	c.agree("[a]")
	address := c.members[0].cfg.Bind
	for _, tt := range []struct {
		reason string
		change func(*Config)
	}{
		{"no TLS", func(cfg *Config) { cfg.ClientTLS = nil }},
		{"no certificate", func(cfg *Config) { cfg.ClientTLS = &tls.Config{RootCAs: a.pool} }},
		{"a certificate of another authority", func(cfg *Config) { newAuthority(t).secure(t, cfg, host(1)); cfg.ClientTLS.RootCAs = a.pool }},
		{"a certificate of another host", func(cfg *Config) { a.secure(t, cfg, host(2)) }},
	} {
		cfg := c.members[1].cfg
		tt.change(&cfg)
		if conn, _, err := (&stream{cfg: cfg, ctx: t.Context()}).dial(address, purposeRaft, time.Second); err == nil {
			conn.Close()
			t.Errorf("%s: the connection was accepted", tt.reason)
		}
	}
}
