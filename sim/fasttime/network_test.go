package fasttime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// network connects hosts by links that behave like TCP over a wide area: bytes
// arrive in order after a delay. What is sent over a link that is cut waits for
// the link to return, like retransmissions, and neither side hears of it. A link
// may be cut in one direction only; then nobody can dial over it.
type network struct {
	mu      sync.Mutex
	delays  map[string]time.Duration // of a host's own line; a link has the sum of two
	cut     map[way]bool
	ports   map[string]*listener
	changed chan struct{} // closed and replaced when a cut changes
}

// way is one direction of the link of two hosts. The empty host stands for all
// hosts.
type way struct{ from, to string }

func newNetwork() *network {
	return &network{delays: map[string]time.Duration{}, cut: map[way]bool{}, ports: map[string]*listener{}, changed: make(chan struct{})}
}

// set cuts or heals the link of two hosts, or with "" all links of one.
func (n *network) set(a, b string, cut bool) { n.setWays(cut, way{a, b}, way{b, a}) }

// setWays cuts or heals single directions.
func (n *network) setWays(cut bool, ways ...way) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range ways {
		n.cut[w] = cut
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// slow sets the delay of a host's line.
func (n *network) slow(host string, line time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delays[host] = line
}

// heal joins all hosts again.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	close(n.changed)
	n.changed = make(chan struct{})
}

// state returns whether a host reaches another, how long a byte takes, and a
// channel that is closed when that may have changed.
func (n *network) state(from, to string) (up bool, delay time.Duration, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	up = !n.cut[way{from, to}] && !n.cut[way{from, ""}] && !n.cut[way{"", to}]
	return up, n.delays[from] + n.delays[to], n.changed
}

func (n *network) listen(_, address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports[address] != nil {
		return nil, fmt.Errorf("listen on %s: address in use", address)
	}
	l := &listener{network: n, at: addr(address), backlog: make(chan net.Conn, 64), closed: make(chan struct{})}
	n.ports[address] = l
	return l, nil
}

var errRefused = errors.New("connection refused")

// dial connects host from to an address. Over a link that is cut it waits until
// ctx ends.
func (n *network) dial(ctx context.Context, from, address string) (net.Conn, error) {
	to, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	for {
		up, delay, changed := n.state(from, to)
		if back, _, _ := n.state(to, from); up && back {
			if err := sleep(ctx, 2*delay); err != nil {
				return nil, err
			}
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	n.mu.Lock()
	l := n.ports[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: %w", address, errRefused)
	}
	there, here := newPipe(n, from, to), newPipe(n, to, from)
	select {
	case l.backlog <- newConn(here, there, l.at, addr(from+":0")):
		return newConn(there, here, addr(from+":0"), l.at), nil
	case <-l.closed:
		return nil, fmt.Errorf("dial %s: %w", address, errRefused)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// end waits for the dials that nobody waits for any more: each ends with its own
// timeout.
func (n *network) end() { time.Sleep(15 * time.Second) }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type listener struct {
	network *network
	at      addr
	backlog chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.ports, string(l.at))
		l.network.mu.Unlock()
		close(l.closed)
		for { // whoever was not accepted is reset
			select {
			case c := <-l.backlog:
				c.Close()
			default:
				return
			}
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.at }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }
