package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/cmd/internal/tlsfiles"
	"github.com/quorate/quorate/regional/redisbucket"
)

// redisOptions are the settings of the region's Redis.
type redisOptions struct {
	URL              string        `key:"redis" secret:"url" usage:"the region's Redis: redis://, rediss:// or unix:// URL, redis+sentinel://S1,S2,S3/PRIMARY, redis+cluster://H1,H2,H3 (rediss+ for TLS), or embedded for trying things out"`
	Prefix           string        `key:"redis_prefix" usage:"what the names of all keys in Redis start with"`
	Username         string        `key:"redis_username" usage:"ACL user in Redis, instead of one in the URL"`
	Password         string        `key:"redis_password" secret:"true" usage:"password in Redis, instead of one in the URL"`
	SentinelUsername string        `key:"redis_sentinel_username" usage:"ACL user at the sentinels"`
	SentinelPassword string        `key:"redis_sentinel_password" secret:"true" usage:"password at the sentinels"`
	CA               string        `key:"redis_tls_ca" usage:"PEM file with the CA of Redis (default: what the machine trusts)"`
	Cert             string        `key:"redis_tls_cert" usage:"PEM file with this agent's certificate for Redis"`
	Key              string        `key:"redis_tls_key" usage:"PEM file with the key of that certificate"`
	ServerName       string        `key:"redis_tls_server_name" usage:"name in the certificate of Redis (default: the host that is dialled)"`
	AnyHost          bool          `key:"redis_tls_skip_hostname" usage:"accept a certificate of Redis for any host, if the CA signed it"`
	Anyone           bool          `key:"redis_tls_insecure_skip_verify" usage:"accept any certificate of Redis: whoever is in between reads and changes all limits"`
	PoolSize         int           `key:"redis_pool_size" usage:"connections to Redis, in a cluster to each node (default: 10 per CPU)"`
	Timeout          time.Duration `key:"redis_timeout" usage:"how long a request waits for Redis before on_store_failure decides (default: 25ms)"`
}

// access reads the files that o names.
func (o redisOptions) access() (redisbucket.Access, error) {
	a := redisbucket.Access{
		Username: o.Username, Password: o.Password, SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
	}
	cfg, err := tlsfiles.Files{Cert: o.Cert, Key: o.Key, CA: o.CA}.Client()
	if err != nil {
		return a, fmt.Errorf("redis: %w", err)
	}
	if cfg == nil && (o.ServerName != "" || o.AnyHost || o.Anyone) {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	a.TLS = cfg
	switch {
	case cfg == nil:
	case o.AnyHost && o.Anyone:
		return a, errors.New("redis: redis_tls_skip_hostname and redis_tls_insecure_skip_verify are both set, keep one")
	case o.AnyHost && o.ServerName != "":
		return a, errors.New("redis: redis_tls_skip_hostname makes redis_tls_server_name meaningless, keep one")
	case o.AnyHost:
		cfg.InsecureSkipVerify = true // of what VerifyConnection does not verify: the name
		cfg.VerifyConnection = func(state tls.ConnectionState) error { return verifyChain(state, cfg.RootCAs) }
	case o.Anyone:
		cfg.InsecureSkipVerify = true
	}
	if cfg != nil {
		cfg.ServerName = o.ServerName
	}
	return a, nil
}

// verifyChain verifies all of a certificate but the host name.
func verifyChain(state tls.ConnectionState, roots *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("redis has shown no certificate")
	}
	opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		opts.Intermediates.AddCert(c)
	}
	if _, err := state.PeerCertificates[0].Verify(opts); err != nil {
		return fmt.Errorf("verify the certificate of redis: %w", err)
	}
	return nil
}
