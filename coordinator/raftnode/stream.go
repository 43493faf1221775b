package raftnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// helloTimeout bounds the greetings and the TLS handshake of one connection.
const helloTimeout = 5 * time.Second

// maxGreeting bounds the connections that are being greeted at one time, so
// that strangers cannot take all memory.
const maxGreeting = 64

// stream is the raft.StreamLayer: TCP, optionally with mutual TLS, and a
// greeting that tells clusters apart. Names are resolved at each dial.
type stream struct {
	cfg      Config
	listener net.Listener
	resuming bool // the node has a log
	// address returns where a node is known to live, "" for a stranger.
	address func(node string) string

	accepted chan net.Conn
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup // the accept loop and the greetings
	strange  sync.Map       // addresses whose refusal has been logged
}

func newStream(cfg Config, resuming bool, address func(string) string) (*stream, error) {
	l, err := cfg.Listen("tcp", cfg.Bind)
	if err != nil {
		return nil, fmt.Errorf("listen for raft: %w", err)
	}
	s := &stream{cfg: cfg, listener: l, resuming: resuming, address: address, accepted: make(chan net.Conn)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wg.Add(1)
	go s.acceptAll() // until Close
	return s, nil
}

func (s *stream) acceptAll() {
	defer s.wg.Done()
	greeting := make(chan struct{}, maxGreeting)
	for {
		c, err := s.listener.Accept()
		if err != nil {
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(50 * time.Millisecond): // out of file descriptors, say
				continue
			}
		}
		select {
		case greeting <- struct{}{}:
		default:
			c.Close()
			continue
		}
		s.wg.Add(1)
		go func() {
			defer s.wg.Done()
			// raft reads from an idle connection for ever and closes none of
			// those it accepted, so Close has to.
			stop := context.AfterFunc(s.ctx, func() { c.Close() })
			c, err := s.greet(&ending{c, stop})
			<-greeting
			if err != nil {
				s.logRefusal(c, err)
				c.Close()
			} else if c != nil {
				select {
				case s.accepted <- c:
				case <-s.ctx.Done():
					c.Close()
				}
			}
		}()
	}
}

// logRefusal logs one line per address, since a stranger tries again for ever.
func (s *stream) logRefusal(c net.Conn, err error) {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	if _, seen := s.strange.LoadOrStore(host, true); !seen {
		s.cfg.Logger.Warn("connection to the raft port refused", slog.String("from", host), slog.Any("error", err))
	}
}

// greet is the accepting side of a new connection. It returns the connection
// for raft, or nil when the question was answered; on an error it returns the
// connection to close.
func (s *stream) greet(c net.Conn) (net.Conn, error) {
	c.SetDeadline(time.Now().Add(helloTimeout))
	var peer *tls.Conn
	if s.cfg.ServerTLS != nil {
		peer = tls.Server(c, s.cfg.ServerTLS)
		if err := peer.Handshake(); err != nil {
			return c, fmt.Errorf("TLS handshake: %w", err)
		}
		c = peer
	}
	h, err := readHello(c)
	if err != nil {
		return c, err
	}
	mine := hello{Node: s.cfg.Node, Cluster: s.cfg.Cluster(), Members: clusterText(s.cfg.InitialCluster)}
	mine.Resuming = mine.Cluster == "" && s.resuming
	mine.Refused = s.objection(h, mine, peer)
	if err := writeHello(c, mine); err != nil {
		return c, err
	}
	switch {
	case mine.Refused != "":
		return c, errors.New(mine.Refused)
	case h.Purpose == purposeAsk:
		c.Close()
		return nil, nil
	}
	c.SetDeadline(time.Time{})
	return c, nil
}

// objection says why a node that greets must not talk raft here, "" when it may.
func (s *stream) objection(h, mine hello, peer *tls.Conn) string {
	if h.Purpose != purposeRaft && h.Purpose != purposeAsk {
		return fmt.Sprintf("unknown purpose %q", h.Purpose)
	}
	if h.Cluster != "" && mine.Cluster != "" && h.Cluster != mine.Cluster {
		return fmt.Sprintf("node %s belongs to cluster %s, node %s to cluster %s: two clusters have been given the same addresses",
			h.Node, h.Cluster, mine.Node, mine.Cluster)
	}
	at := s.address(h.Node)
	if at == "" {
		return fmt.Sprintf("node %q is not a member of the cluster of node %s", h.Node, mine.Node)
	}
	if peer != nil {
		host, _, _ := net.SplitHostPort(at)
		certs := peer.ConnectionState().PeerCertificates
		if len(certs) == 0 {
			return "no client certificate"
		}
		if err := certs[0].VerifyHostname(host); err != nil {
			return fmt.Sprintf("the certificate of node %s is not valid for its address: %v", h.Node, err)
		}
	}
	return ""
}

// Dial implements raft.StreamLayer.
func (s *stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	c, _, err := s.dial(string(address), purposeRaft, timeout)
	return c, err
}

// ask returns what the node at address says of itself.
func (s *stream) ask(address string, timeout time.Duration) (hello, error) {
	c, h, err := s.dial(address, purposeAsk, timeout)
	if err == nil {
		c.Close()
	}
	return h, err
}

func (s *stream) dial(address, purpose string, timeout time.Duration) (net.Conn, hello, error) {
	c, err := s.open(address, timeout)
	if err != nil {
		return nil, hello{}, fmt.Errorf("dial node at %s: %w", address, err)
	}
	c.SetDeadline(time.Now().Add(min(timeout, helloTimeout)))
	fail := func(err error) (net.Conn, hello, error) {
		c.Close()
		return nil, hello{}, fmt.Errorf("dial node at %s: %w", address, err)
	}
	if s.cfg.ClientTLS != nil {
		conf := s.cfg.ClientTLS.Clone()
		if conf.ServerName == "" {
			conf.ServerName, _, _ = net.SplitHostPort(address)
		}
		t := tls.Client(c, conf)
		if err := t.Handshake(); err != nil {
			return fail(fmt.Errorf("TLS handshake: %w", err))
		}
		c = t
	}
	if err := writeHello(c, hello{Purpose: purpose, Node: s.cfg.Node, Cluster: s.cfg.Cluster()}); err != nil {
		return fail(err)
	}
	h, err := readHello(c)
	if err != nil {
		return fail(err)
	}
	if h.Refused != "" {
		return fail(fmt.Errorf("%w: %s", ErrRefused, h.Refused))
	}
	c.SetDeadline(time.Time{})
	return c, h, nil
}

// open opens a connection that ends with the stream: raft waits for what it has
// asked others when it shuts down, and a node that is cut off must end in time.
func (s *stream) open(address string, timeout time.Duration) (net.Conn, error) {
	type outcome struct {
		c   net.Conn
		err error
	}
	done := make(chan outcome, 1)
	go func() { // at most timeout longer than the stream
		c, err := s.cfg.Dial("tcp", address, timeout)
		if err == nil {
			raw := c // what is closed; c itself changes here
			c = &ending{raw, context.AfterFunc(s.ctx, func() { raw.Close() })}
		}
		done <- outcome{c, err}
	}()
	select {
	case o := <-done:
		return o.c, o.err
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Accept implements net.Listener.
func (s *stream) Accept() (net.Conn, error) {
	select {
	case c := <-s.accepted:
		return c, nil
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener and waits for the greetings.
func (s *stream) Close() error {
	s.cancel()
	s.listener.Close()
	s.wg.Wait()
	return nil
}

// ending is a connection that also ends with the stream.
type ending struct {
	net.Conn
	stop func() bool
}

func (c *ending) Close() error {
	c.stop()
	return c.Conn.Close()
}

// Addr implements net.Listener: the address that others dial.
func (s *stream) Addr() net.Addr { return advertised(s.cfg.Advertise) }

type advertised string

func (advertised) Network() string  { return "tcp" }
func (a advertised) String() string { return string(a) }
