package coordinator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// selfSigned writes a certificate that is its own CA, and its key.
func selfSigned(t *testing.T, dir string) TLSFiles {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"node"},
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	f := TLSFiles{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), CA: filepath.Join(dir, "cert.pem")}
	write(t, f.Cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, f.Key, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
	return f
}

func TestMutualTLSFilesFitEachOther(t *testing.T) {
	f := selfSigned(t, t.TempDir())
	server, client, err := f.Mutual()
	if err != nil {
		t.Fatal(err)
	}
	client = client.Clone()
	client.ServerName = "node"
	shake := func(client *tls.Config) error {
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		done := make(chan error, 1)
		go func() { done <- tls.Server(a, server).Handshake() }()
		err := tls.Client(b, client).Handshake()
		go func() { _, _ = io.Copy(io.Discard, b) }() // the server's last words, until b is closed
		if serverErr := <-done; serverErr != nil {
			return serverErr
		}
		return err
	}
	if err := shake(client); err != nil {
		t.Errorf("a node: %v", err)
	}
	if err := shake(&tls.Config{RootCAs: client.RootCAs, ServerName: "node"}); err == nil {
		t.Error("a client without a certificate was let in")
	}
}

func TestTLSFilesNameTheirProblems(t *testing.T) {
	dir := t.TempDir()
	f := selfSigned(t, dir)
	junk := filepath.Join(dir, "junk.pem")
	write(t, junk, "junk")
	for _, tt := range []struct {
		reason string
		files  TLSFiles
		mutual bool
		want   string
	}{
		{"no files, no TLS", TLSFiles{}, true, ""},
		{"no CA between nodes", TLSFiles{Cert: f.Cert, Key: f.Key}, true, "needs a CA"},
		{"no CA for agents is fine", TLSFiles{Cert: f.Cert, Key: f.Key}, false, ""},
		{"no key", TLSFiles{Cert: f.Cert}, false, "must both be named"},
		{"a key that is none", TLSFiles{Cert: f.Cert, Key: junk}, false, "load TLS certificate"},
		{"a CA that is none", TLSFiles{Cert: f.Cert, Key: f.Key, CA: junk}, false, "no PEM certificate"},
		{"a CA that does not exist", TLSFiles{Cert: f.Cert, Key: f.Key, CA: filepath.Join(dir, "x")}, true, "no such file"},
	} {
		var err error
		if tt.mutual {
			_, _, err = tt.files.Mutual()
		} else {
			_, err = tt.files.Server()
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: have %v, want %q", tt.reason, err, tt.want)
		}
	}
}
