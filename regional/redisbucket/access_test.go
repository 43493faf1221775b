package redisbucket

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// everything does all that a store does.
func everything(tb testing.TB, s *Store) {
	tb.Helper()
	ctx := context.Background()
	st := connected(tb, s)
	share := full(per(1, day, 10))
	a := quota.Assignment{Key: "k", Session: 5, Epoch: 1, Lease: share.Capacity}
	_, err1 := s.Apply(ctx, st.Incarnation, []bucket.ApplyAsk{{Assignment: a, Standing: share}})
	_, _, err2 := s.Read(ctx, "k")
	err := errors.Join(err1, err2, s.MarkFirst(ctx, st.Incarnation),
		s.Adopt(ctx, st.Incarnation, st.Config+1, []byte("one")), s.Adopt(ctx, st.Incarnation, st.Config+2, []byte("two")),
		s.Charge(ctx, st.Incarnation, []bucket.Charge{{Key: "k", Tokens: 1, Standing: share}}))
	_, _, err3 := s.Config(ctx)
	if err := errors.Join(err, err3); err != nil {
		tb.Fatal(err)
	}
	if res := take(tb, s, of(state(tb, s), ask("k", 1, share))); !res.Admitted || res.Verdicts[0].Holding != bucket.OnLease {
		tb.Errorf("have %+v", res)
	}
	// The lease of a session that has ended is removed from the record.
	err = errors.Join(s.Drop(ctx, 5), s.Renew(ctx, st.Incarnation, 6, st.Now+60*quota.Second))
	if err != nil {
		tb.Fatal(err)
	}
	take(tb, s, of(state(tb, s), ask("k", 1, share)))
}

func TestTheMinimalRightsAreEnoughAndAllNeeded(t *testing.T) {
	r := redistest.Run(t)
	const prefix = "quorate:"
	line := ACL("agent", prefix, false)
	words := strings.Fields(strings.Replace(line, ">PASSWORD", ">pw", 1))
	if _, err := r.Do(words...); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	user := func(c *Config) { c.Prefix, c.Username, c.Password = prefix, "agent", "pw" }
	everything(t, openAt(t, r.URL(), user))
	if left, err := r.Do("EXISTS", prefix+"probe"); err != nil || left != "0" {
		t.Errorf("asking for rights left its key behind: %q, %v", left, err)
	}
	for _, p := range probes(prefix, false) {
		without, again := "-"+p.right[1:], []string{p.right}
		if p.right[0] == '~' {
			without, again = "resetkeys", []string{"resetkeys", p.right}
		}
		if _, err := r.Do("ACL", "SETUSER", "agent", without); err != nil {
			t.Fatal(err)
		}
		_, err := openAt(t, r.URL(), user).State(context.Background())
		if !errors.Is(err, errRights) || !errors.Is(err, enforce.ErrStoreDown) || !strings.Contains(err.Error(), "ACL SETUSER agent "+p.right) ||
			strings.Count(err.Error(), "+") > 2 {
			t.Errorf("without %s: have %v", p.right, err)
		}
		if _, err := r.Do(append([]string{"ACL", "SETUSER", "agent"}, again...)...); err != nil {
			t.Fatal(err)
		}
	}
	everything(t, openAt(t, r.URL(), func(c *Config) { user(c); c.Prefix = prefix + "again:" }))
}

func TestAWrongPasswordIsNamed(t *testing.T) {
	_, err := openAt(t, shared.URL(), func(c *Config) { c.Username, c.Password = "agent", "s3cret" }).State(context.Background())
	if !errors.Is(err, enforce.ErrStoreDown) || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("have %v", err)
	}
}

func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "quorate-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "redis.sock")
	redistest.Run(t, "--unixsocket", socket, "--unixsocketperm", "700")
	everything(t, openAt(t, "unix://"+socket, nil))
}

// pki is a CA with the files of a server and of a client.
type pki struct {
	dir  string
	pool *x509.CertPool
	ca   *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newPKI(t *testing.T) *pki {
	p := &pki{dir: t.TempDir()}
	p.issue(t, "ca")
	p.pool = x509.NewCertPool()
	p.pool.AddCert(p.ca)
	return p
}

// issue writes NAME.crt and NAME.key, for the host name redis.test.
func (p *pki) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{"redis.test"}, IsCA: p.ca == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, by := p.ca, p.key
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(filepath.Join(p.dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.LoadX509KeyPair(p.file(name+".crt"), p.file(name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	if p.ca == nil {
		p.ca, p.key = pair.Leaf, key
	}
	return pair
}

func (p *pki) file(name string) string { return filepath.Join(p.dir, name) }

func TestTLS(t *testing.T) {
	p := newPKI(t)
	p.issue(t, "server")
	client := p.issue(t, "client")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	redistest.Run(t, "--tls-port", port, "--tls-cert-file", p.file("server.crt"), "--tls-key-file", p.file("server.key"),
		"--tls-ca-cert-file", p.file("ca.crt"), "--tls-auth-clients", "yes")
	for _, tc := range []struct {
		reason string
		cfg    *tls.Config
		want   string
	}{
		{"both sides prove themselves", &tls.Config{RootCAs: p.pool, ServerName: "redis.test", Certificates: []tls.Certificate{client}}, ""},
		{"nothing configured: the machine does not trust the CA", nil, "certificate"},
		{"the certificate is of another host", &tls.Config{RootCAs: p.pool, Certificates: []tls.Certificate{client}}, "127.0.0.1"},
		{"the server wants a certificate", &tls.Config{RootCAs: p.pool, ServerName: "redis.test"}, "identify"}, // by an alert, or by a reset that is faster
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := openAt(t, "rediss://"+addr, func(c *Config) { c.TLS = tc.cfg })
			if tc.want == "" {
				everything(t, s)
				return
			}
			if _, err := s.State(context.Background()); !errors.Is(err, enforce.ErrStoreDown) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q, have %v", tc.want, err)
			}
		})
	}
}
