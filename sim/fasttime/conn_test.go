package fasttime

import (
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// window is how many bytes may be under way in one direction before a writer
// has to wait.
const window = 256 << 10

// pipe is one direction of a connection.
type pipe struct {
	network  *network
	from, to string

	mu      sync.Mutex
	packets []packet
	size    int
	sent    bool          // the writer has closed; its last packet says so
	deaf    bool          // the reader has closed
	changed chan struct{} // closed and replaced at every change
}

// packet is bytes that arrive at a time, or, without bytes, the end.
type packet struct {
	at   time.Time
	data []byte
}

func newPipe(n *network, from, to string) *pipe {
	return &pipe{network: n, from: from, to: to, changed: make(chan struct{})}
}

// tell wakes everybody who waits; the caller holds the lock.
func (p *pipe) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// read takes what has arrived. Otherwise it says when to look again: at the time
// wake (zero: not by itself) or when one of the channels is closed.
func (p *pipe) read(b []byte) (n int, wake time.Time, changed, links <-chan struct{}, err error) {
	up, _, links := p.network.state(p.from, p.to)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.deaf:
		return 0, wake, nil, nil, net.ErrClosed
	case len(p.packets) == 0 || !up:
		return 0, wake, p.changed, links, nil
	case time.Now().Before(p.packets[0].at):
		return 0, p.packets[0].at, p.changed, links, nil
	case p.packets[0].data == nil:
		return 0, wake, nil, nil, io.EOF
	}
	first := &p.packets[0]
	n = copy(b, first.data)
	if first.data = first.data[n:]; len(first.data) == 0 {
		p.packets = p.packets[1:]
	}
	p.size -= n
	p.tell()
	return n, wake, nil, nil, nil
}

// write puts bytes under way, as many as the window takes.
func (p *pipe) write(b []byte) (n int, changed <-chan struct{}, err error) {
	up, delay, _ := p.network.state(p.from, p.to)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n = min(len(b), window-p.size); {
	case p.sent || p.deaf && up:
		return 0, nil, net.ErrClosed
	case n == 0:
		return 0, p.changed, nil
	}
	p.packets = append(p.packets, packet{time.Now().Add(delay), slices.Clone(b[:n])})
	p.size += n
	p.tell()
	return n, nil, nil
}

// end closes the writing side.
func (p *pipe) end() {
	_, delay, _ := p.network.state(p.from, p.to)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.sent {
		p.sent = true
		p.packets = append(p.packets, packet{at: time.Now().Add(delay)})
		p.tell()
	}
}

// stop closes the reading side.
func (p *pipe) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.deaf {
		p.deaf = true
		p.tell()
	}
}

// conn is one end of a connection.
type conn struct {
	out, in       *pipe
	local, remote addr

	mu          sync.Mutex
	readBy      time.Time
	writeBy     time.Time
	rescheduled chan struct{} // closed and replaced when a deadline changes
}

func newConn(out, in *pipe, local, remote addr) *conn {
	return &conn{out: out, in: in, local: local, remote: remote, rescheduled: make(chan struct{})}
}

func (c *conn) deadline(of *time.Time) (time.Time, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *of, c.rescheduled
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		by, rescheduled := c.deadline(&c.readBy)
		if passed(by) {
			return 0, os.ErrDeadlineExceeded
		}
		n, wake, changed, links, err := c.in.read(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		wait(earlier(by, wake), rescheduled, changed, links)
	}
}

func (c *conn) Write(b []byte) (done int, err error) {
	for done < len(b) {
		by, rescheduled := c.deadline(&c.writeBy)
		if passed(by) {
			return done, os.ErrDeadlineExceeded
		}
		n, changed, err := c.out.write(b[done:])
		if err != nil {
			return done, err
		}
		if done += n; n == 0 {
			wait(by, rescheduled, changed, nil)
		}
	}
	return done, nil
}

func (c *conn) Close() error {
	c.out.end()
	c.in.stop()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error      { return c.reschedule(t, &c.readBy, &c.writeBy) }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.reschedule(t, &c.readBy) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.reschedule(t, &c.writeBy) }

func (c *conn) reschedule(t time.Time, all ...*time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range all {
		*d = t
	}
	close(c.rescheduled)
	c.rescheduled = make(chan struct{})
	return nil
}

func passed(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// earlier returns the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// wait returns at the time, unless it is zero, or when a channel is closed.
func wait(until time.Time, a, b, c <-chan struct{}) {
	var at <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		at = timer.C
	}
	select {
	case <-at:
	case <-a:
	case <-b:
	case <-c:
	}
}
