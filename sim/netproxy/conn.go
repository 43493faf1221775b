package netproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// chunkSize is the most that travels with one delay.
	chunkSize = 16 << 10
	// maxChunks bounds what small chunks cost beside their bytes.
	maxChunks = 1024
)

// conn is one connection through a link: two pipes, one per direction.
type conn struct {
	link   *Link
	client net.Conn
	serial uint64
	ctx    context.Context // ends when the connection breaks
	cancel context.CancelFunc
}

// abort breaks the connection: both ends see a reset, not an orderly end.
func (c *conn) abort() { c.cancel() }

// run serves the connection until both directions have ended or it broke.
func (c *conn) run() {
	defer c.cancel()
	rnd := c.random(dialing)
	// The dial is the first packet: it takes a delay and does not pass a cut.
	if pause(c.ctx, c.link.draw(rnd)) != nil || c.link.gates[Forward].pass(c.ctx) != nil {
		reset(c.client)
		return
	}
	var dialer net.Dialer
	target, err := dialer.DialContext(c.ctx, "tcp", c.link.Target())
	if err != nil {
		// Nobody listens there: the refusal travels back, and not through a cut.
		if pause(c.ctx, c.link.draw(rnd)) == nil {
			_ = c.link.gates[Back].pass(c.ctx) // either way the connection ends now
		}
		reset(c.client)
		return
	}

	var pipes sync.WaitGroup
	pipes.Go(func() { c.pipe(Forward, c.client, target) })
	pipes.Go(func() { c.pipe(Back, target, c.client) })
	broken := make(chan struct{})
	stop := context.AfterFunc(c.ctx, func() {
		defer close(broken)
		reset(c.client)
		reset(target)
	})
	pipes.Wait()
	if !stop() {
		<-broken
		return
	}
	_ = c.client.Close() // both directions have ended in order
	_ = target.Close()
}

// What a connection draws for, beside the delays of its two directions: a stream
// of its own for each, so that one does not change the others.
const (
	dialing uint64 = 2
	losing  uint64 = 4 // and the direction
)

func (c *conn) random(use uint64) *rand.Rand {
	return rand.New(rand.NewPCG(c.link.cfg.Seed, c.serial<<3|use))
}

func (d Delay) draw(rnd *rand.Rand) time.Duration {
	if d.Max <= d.Min {
		return d.Min
	}
	return d.Min + time.Duration(rnd.Int64N(int64(d.Max-d.Min)+1))
}

// chunk is bytes on their way; without bytes it is the orderly end.
type chunk struct {
	data []byte
	due  time.Time
}

// pipe carries one direction until its orderly end or until the connection
// breaks. One goroutine reads and stamps, this one delivers.
func (c *conn) pipe(d Direction, from, to net.Conn) {
	queue := make(chan chunk, maxChunks)
	window := semaphore.NewWeighted(int64(max(chunkSize, c.link.cfg.Buffer)))
	var reader sync.WaitGroup
	reader.Go(func() { c.read(d, from, queue, window) })
	if c.deliver(d, queue, window, to) != nil {
		c.abort() // frees the reader as well
	}
	reader.Wait()
}

func (c *conn) read(d Direction, from net.Conn, queue chan<- chunk, window *semaphore.Weighted) {
	t := timetable{delays: c.random(uint64(d)), losses: c.random(losing | uint64(d))}
	buffer := make([]byte, chunkSize)
	for {
		n, err := from.Read(buffer)
		delay, loss, pace := c.link.line(d)
		due, broken := t.next(time.Now(), n, delay, loss, pace)
		if broken {
			c.abort()
			return
		}
		if n > 0 && (window.Acquire(c.ctx, int64(n)) != nil || c.put(queue, chunk{bytes.Clone(buffer[:n]), due}) != nil) {
			return
		}
		if errors.Is(err, io.EOF) {
			_ = c.put(queue, chunk{due: due}) // fails only when the connection broke
			return
		}
		if err != nil {
			c.abort()
			return
		}
	}
}

func (c *conn) put(queue chan<- chunk, k chunk) error {
	select {
	case queue <- k:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

func (c *conn) deliver(d Direction, queue <-chan chunk, window *semaphore.Weighted, to net.Conn) error {
	for {
		var k chunk
		select {
		case k = <-queue:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
		if err := pause(c.ctx, time.Until(k.due)); err != nil {
			return err
		}
		if err := c.link.gates[d].pass(c.ctx); err != nil {
			return err
		}
		if len(k.data) == 0 {
			return closeWrite(to)
		}
		if _, err := to.Write(k.data); err != nil {
			return err
		}
		window.Release(int64(len(k.data)))
	}
}

func closeWrite(c net.Conn) error {
	if tcp, ok := c.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return c.Close()
}

// reset closes a connection so that the other side sees it break.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the close is an orderly one, which still ends it
	}
	_ = c.Close()
}
