package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/cmd/internal/cli"
)

// tlsFiles names PEM files. All empty means that the coordinators speak no TLS.
type tlsFiles struct {
	CA   string `key:"tls_ca" usage:"PEM file with the CA of the coordinators; switches TLS on"`
	Cert string `key:"tls_cert" usage:"PEM file with a client certificate"`
	Key  string `key:"tls_key" usage:"PEM file with the key of the client certificate"`
}

func (f tlsFiles) credentials() (credentials.TransportCredentials, error) {
	if f == (tlsFiles{}) {
		return insecure.NewCredentials(), nil
	}
	if f.CA == "" || (f.Cert == "") != (f.Key == "") {
		return nil, cli.Usagef("TLS needs --tls-ca, and --tls-cert together with --tls-key or neither")
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, cli.Fail(cli.Usage, fmt.Errorf("read CA: %w", err), "")
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, cli.Fail(cli.Usage, errors.New("read CA: no PEM certificate in "+f.CA), "")
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, cli.Fail(cli.Usage, fmt.Errorf("load client certificate: %w", err), "")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(c), nil
}
