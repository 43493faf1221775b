package redisbucket

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between a store and its server. It can delay what the server
// says, swallow one reply and cut its connection, or send new connections elsewhere.
type proxy struct {
	tb      testing.TB
	l       net.Listener
	backend atomic.Pointer[string]
	delay   atomic.Int64 // nanoseconds before each piece of a reply
	swallow atomic.Bool  // the reply to the next call on a bucket; sent again, it is answered
	calls   atomic.Int64 // on buckets
	wg      sync.WaitGroup
	mu      sync.Mutex
	open    map[net.Conn]bool
}

func newProxy(tb testing.TB, backend string) *proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{tb: tb, l: l, open: make(map[net.Conn]bool)}
	p.backend.Store(&backend)
	p.wg.Go(p.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for c := range p.open {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return "redis://" + p.l.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", *p.backend.Load())
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.open[client], p.open[server] = true, true
		p.mu.Unlock()
		var lost atomic.Bool
		p.wg.Go(func() { p.pump(client, server, false, &lost) })
		p.wg.Go(func() { p.pump(server, client, true, &lost) })
	}
}

// pump carries one direction of a connection; lost says that its reply will be.
func (p *proxy) pump(from, to net.Conn, reply bool, lost *atomic.Bool) {
	defer from.Close() //nolint:errcheck // the test is over or the peer is gone
	defer to.Close()   //nolint:errcheck // the same
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if reply {
			if lost.Load() {
				return
			}
			time.Sleep(time.Duration(p.delay.Load()))
		} else if bytes.Contains(buf[:n], []byte(":b:{")) {
			p.calls.Add(1)
			if p.swallow.CompareAndSwap(true, false) {
				lost.Store(true)
			}
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
