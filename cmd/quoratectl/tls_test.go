package main

import (
	"bytes"
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

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/cmd/internal/cli"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// selfSigned writes a certificate for 127.0.0.1, which is its own CA, and its key.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"cert": {Type: "CERTIFICATE", Bytes: public}, "key": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert"), filepath.Join(dir, "key")
}

func TestTLS(t *testing.T) {
	cert, key := selfSigned(t)
	foreign, _ := selfSigned(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal("no certificate", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	})))
	defer server.Stop()
	node := &fakeNode{name: "n1", cluster: &fakeCluster{leader: "n1", version: 3, nodes: map[string]*fakeNode{}}}
	quoratev1.RegisterAdminServer(server, node)
	go server.Serve(l) //nolint:errcheck // ends with Stop

	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"both sides known to each other", []string{"--tls-ca", cert, "--tls-cert", cert, "--tls-key", key}, cli.OK, "rules version 3"},
		{"no client certificate", []string{"--tls-ca", cert}, cli.Unavailable, "no coordinator answered"},
		{"a server of another CA", []string{"--tls-ca", foreign, "--tls-cert", cert, "--tls-key", key}, cli.Unavailable, "authentication handshake failed"},
		{"no TLS", nil, cli.Unavailable, "no coordinator answered"},
		{"half a pair", []string{"--tls-ca", cert, "--tls-cert", cert}, cli.Usage, "TLS needs --tls-ca"},
		{"no CA", []string{"--tls-cert", cert, "--tls-key", key}, cli.Usage, "TLS needs --tls-ca"},
		{"a CA that is none", []string{"--tls-ca", key}, cli.Usage, "no PEM certificate in"},
		{"a file that is not there", []string{"--tls-ca", "/no/such"}, cli.Usage, "read CA: open /no/such"},
	} {
		var out, stderr bytes.Buffer
		args := append([]string{"rules", "get", "--timeout", "500ms", "--endpoints", l.Addr().String()}, c.args...)
		code := cli.Run(t.Context(), newRoot(), args, &out, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: have %d %s, want %d %s", c.name, code, stderr.String(), c.code, c.want)
		}
	}
}
