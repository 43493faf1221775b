// Package tlsfiles turns the PEM files that settings name into TLS
// configurations, which is all that coordinator and regional know of TLS.
// Certificates are read at each handshake, so that a renewed one is used without
// a restart; they are read once at the start, too, so that a mistake is told then.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Files names PEM files for one side of a TLS connection. All empty means no TLS.
type Files struct {
	// Cert and Key are this side's certificate and private key.
	Cert, Key string
	// CA signs the other side's certificate.
	CA string
}

// Server returns the configuration of a server that shows Cert, nil when no file
// is named. With CA it demands client certificates that CA signed.
func (f Files) Server() (*tls.Config, error) {
	if f == (Files{}) {
		return nil, nil
	}
	if _, err := f.pair(); err != nil {
		return nil, err
	}
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.pair() },
	}
	if f.CA != "" {
		pool, err := f.pool()
		if err != nil {
			return nil, err
		}
		c.ClientCAs, c.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// Client returns the configuration of a client that trusts only CA, or what the
// machine trusts without it, and shows Cert if there is one; nil when no file is
// named.
func (f Files) Client() (*tls.Config, error) {
	if f == (Files{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pool, err := f.pool()
		if err != nil {
			return nil, err
		}
		c.RootCAs = pool
	}
	if f.Cert == "" && f.Key == "" {
		return c, nil
	}
	if _, err := f.pair(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.pair() }
	return c, nil
}

// Mutual returns the two configurations of nodes that prove themselves to each
// other, nil when no file is named. All three files are needed.
func (f Files) Mutual() (server, client *tls.Config, err error) {
	if f != (Files{}) && f.CA == "" {
		return nil, nil, errors.New("TLS between nodes needs a CA beside certificate and key")
	}
	if server, err = f.Server(); err != nil {
		return nil, nil, err
	}
	if client, err = f.Client(); err != nil {
		return nil, nil, err
	}
	return server, client, nil
}

func (f Files) pair() (*tls.Certificate, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("TLS certificate and key must both be named")
	}
	p, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("load TLS certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	return &p, nil
}

func (f Files) pool() (*x509.CertPool, error) {
	b, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("read CA %s: no PEM certificate in it", f.CA)
	}
	return pool, nil
}
