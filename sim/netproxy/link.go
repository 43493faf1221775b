package netproxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Config describes a link.
type Config struct {
	// Listen is the address to listen on; empty is a free port of 127.0.0.1.
	Listen string
	// Target is where connections lead. It is dialed per connection, so it may
	// be away for a while.
	Target string
	// Delay is the one-way delay of both directions.
	Delay Delay
	// Seed makes the delays and losses repeat.
	Seed uint64
	// Buffer is the number of bytes under way per connection and direction;
	// 0 is 1 MiB.
	Buffer int
}

// Delay is a one-way delay, uniformly distributed. The zero Delay is none.
type Delay struct{ Min, Max time.Duration }

// Validate reports what makes the configuration useless.
func (c Config) Validate() error {
	var problems []error
	if c.Target == "" {
		problems = append(problems, errors.New("target: no address given"))
	}
	if c.Delay.Min < 0 || c.Delay.Max < c.Delay.Min {
		problems = append(problems, fmt.Errorf("delay: %v … %v is not a range from 0 up", c.Delay.Min, c.Delay.Max))
	}
	if c.Buffer < 0 {
		problems = append(problems, fmt.Errorf("buffer: %d bytes is negative", c.Buffer))
	}
	return errors.Join(problems...)
}

// Link is one line of the network. All methods are safe for concurrent use.
type Link struct {
	cfg      Config
	listener net.Listener
	gates    [2]*gate
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu     sync.Mutex
	target string
	delay  Delay
	losses [2]Loss
	paces  [2]int64 // bytes a second, 0 for as many as there are
	serial uint64
	conns  map[*conn]struct{}
}

// Listen opens a link and serves it until Close.
func Listen(cfg Config) (*Link, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open link: %w", err)
	}
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	if cfg.Buffer == 0 {
		cfg.Buffer = 1 << 20
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("open link: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &Link{
		cfg: cfg, listener: listener, gates: [2]*gate{newGate(), newGate()},
		ctx: ctx, cancel: cancel, target: cfg.Target, delay: cfg.Delay, conns: map[*conn]struct{}{},
	}
	l.running.Go(l.accept)
	return l, nil
}

// Addr returns the address the link listens on.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Target returns the address the link leads to.
func (l *Link) Target() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.target
}

// SetTarget makes the link lead elsewhere from the next connection on; Reset
// breaks those that there are.
func (l *Link) SetTarget(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = addr
}

// Cut stops everything in both directions.
func (l *Link) Cut() {
	l.Blackhole(Forward)
	l.Blackhole(Back)
}

// Blackhole stops everything in one direction.
func (l *Link) Blackhole(d Direction) { l.gates[d].set(false) }

// Restore opens one direction; what was held arrives now.
func (l *Link) Restore(d Direction) { l.gates[d].set(true) }

// Heal opens both directions.
func (l *Link) Heal() {
	l.Restore(Forward)
	l.Restore(Back)
}

// IsCut reports whether a direction is cut.
func (l *Link) IsCut() bool { return !l.gates[Forward].isOpen() || !l.gates[Back].isOpen() }

// SetDelay changes the delay of what is sent from now on, over connections that
// are open as well: a line that becomes slow.
func (l *Link) SetDelay(d Delay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// SetLoss changes what is lost of what is sent from now on in one direction.
func (l *Link) SetLoss(d Direction, loss Loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losses[d] = loss
}

// Throttle lets no more bytes a second through in one direction, over each
// connection by itself; 0 lifts that.
func (l *Link) Throttle(d Direction, bytesPerSecond int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paces[d] = max(0, bytesPerSecond)
}

// line returns what happens now to what is sent in a direction.
func (l *Link) line(d Direction) (Delay, Loss, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay, l.losses[d], l.paces[d]
}

func (l *Link) draw(rnd *rand.Rand) time.Duration {
	l.mu.Lock()
	d := l.delay
	l.mu.Unlock()
	return d.draw(rnd)
}

// Reset breaks all connections; what was under way is lost.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.abort()
	}
}

// Connections returns the number of open connections.
func (l *Link) Connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// Close stops listening, breaks all connections and returns when every
// goroutine of the link has ended.
func (l *Link) Close() {
	l.cancel()
	_ = l.listener.Close() // it is no longer of use either way
	l.running.Wait()
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			if l.ctx.Err() != nil {
				return
			}
			// Out of file descriptors, most likely: connections will end.
			if pause(l.ctx, 10*time.Millisecond) != nil {
				return
			}
			continue
		}
		c := l.newConn(client)
		l.running.Go(func() {
			defer l.forget(c)
			c.run()
		})
	}
}

func (l *Link) newConn(client net.Conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serial++
	ctx, cancel := context.WithCancel(l.ctx)
	c := &conn{link: l, client: client, serial: l.serial, ctx: ctx, cancel: cancel}
	l.conns[c] = struct{}{}
	return c
}

func (l *Link) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// pause waits for d, or returns the error of the context that ended first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
