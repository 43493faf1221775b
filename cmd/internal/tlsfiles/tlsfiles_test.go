package tlsfiles

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// issue writes a certificate for 127.0.0.1, signed by parent or by itself, and its
// key. It writes over what has the same name.
func issue(t *testing.T, dir, name string, parent *tls.Certificate) (Files, *tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: parent == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signer, by := any(key), template
	if parent != nil {
		signer, by = parent.PrivateKey, parent.Leaf
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	f := Files{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key")}
	for file, block := range map[string]*pem.Block{f.Cert: {Type: "CERTIFICATE", Bytes: der}, f.Key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	return f, &pair
}

// shake returns the server's verdict on a handshake, and the certificate that the
// client was shown.
func shake(t *testing.T, server, client *tls.Config) (shown *x509.Certificate, err error) {
	t.Helper()
	client = client.Clone()
	client.ServerName = "127.0.0.1"
	near, far := net.Pipe()
	defer near.Close()
	done := make(chan error, 1)
	go func() { done <- tls.Server(far, server).HandshakeContext(t.Context()); _ = far.Close() }()
	conn := tls.Client(near, client)
	_ = conn.HandshakeContext(t.Context())
	if certs := conn.ConnectionState().PeerCertificates; len(certs) > 0 {
		shown = certs[0]
	}
	go func() { _, _ = conn.Read(make([]byte, 1)) }() // takes what the server says last
	return shown, <-done
}

func TestBothSidesProveThemselves(t *testing.T) {
	dir := t.TempDir()
	ca, pair := issue(t, dir, "ca", nil)
	server, _ := issue(t, dir, "server", pair)
	client, _ := issue(t, dir, "client", pair)
	stranger, _ := issue(t, dir, "stranger", nil)
	server.CA, client.CA, stranger.CA = ca.Cert, ca.Cert, ca.Cert
	sc, nc, err := server.Mutual()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shake(t, sc, nc); err != nil {
		t.Errorf("another node: %v", err)
	}
	for _, tt := range []struct {
		reason string
		client Files
		ok     bool
	}{
		{"signed by the CA", client, true},
		{"of another CA", stranger, false},
		{"without a certificate", Files{CA: ca.Cert}, false},
	} {
		cc, err := tt.client.Client()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := shake(t, sc, cc); (err == nil) != tt.ok {
			t.Errorf("%s: have %v, want success %v", tt.reason, err, tt.ok)
		}
	}
}

func TestRenewedCertificateIsUsedWithoutRestart(t *testing.T) {
	dir := t.TempDir()
	ca, pair := issue(t, dir, "ca", nil)
	server, first := issue(t, dir, "server", pair)
	sc, err := server.Server()
	if err != nil {
		t.Fatal(err)
	}
	cc, err := Files{CA: ca.Cert}.Client()
	if err != nil {
		t.Fatal(err)
	}
	if have, err := shake(t, sc, cc); err != nil || !have.Equal(first.Leaf) {
		t.Errorf("at first: have %v, %v", have, err)
	}
	_, second := issue(t, dir, "server", pair)
	if have, err := shake(t, sc, cc); err != nil || !have.Equal(second.Leaf) {
		t.Errorf("renewed: have %v, %v", have, err)
	}
}

func TestProblemsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	f, _ := issue(t, dir, "node", nil)
	junk := filepath.Join(dir, "junk.pem")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := func(f Files) error { _, err := f.Server(); return err }
	client := func(f Files) error { _, err := f.Client(); return err }
	mutual := func(f Files) error { _, _, err := f.Mutual(); return err }
	for _, tt := range []struct {
		reason string
		files  Files
		use    func(Files) error
		want   string
	}{
		{"no CA between nodes", Files{Cert: f.Cert, Key: f.Key}, mutual, "needs a CA"},
		{"no CA for clients is fine", Files{Cert: f.Cert, Key: f.Key}, server, ""},
		{"no certificate of a client is fine", Files{CA: f.Cert}, client, ""},
		{"a server without a key", Files{Cert: f.Cert}, server, "must both be named"},
		{"a client without a key", Files{Cert: f.Cert}, client, "must both be named"},
		{"a server with a CA alone", Files{CA: f.Cert}, server, "must both be named"},
		{"a key that is none", Files{Cert: f.Cert, Key: junk}, server, junk},
		{"a certificate that is not there", Files{Cert: "nope", Key: "nope"}, client, "nope"},
		{"a CA that is none", Files{Cert: f.Cert, Key: f.Key, CA: junk}, server, "no PEM certificate"},
		{"a client's CA that is none", Files{CA: junk}, client, "no PEM certificate"},
		{"a CA that is not there", Files{Cert: f.Cert, Key: f.Key, CA: filepath.Join(dir, "x")}, mutual, "no such file"},
	} {
		if err := tt.use(tt.files); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: have %v, want %q", tt.reason, err, tt.want)
		}
	}
}

func TestNoFilesMeanNoTLS(t *testing.T) {
	server, client, err := Files{}.Mutual()
	if server != nil || client != nil || err != nil {
		t.Errorf("mutual: have %v, %v, %v", server, client, err)
	}
	if c, err := (Files{}).Client(); c != nil || err != nil {
		t.Errorf("client: have %v, %v", c, err)
	}
}
