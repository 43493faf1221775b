package fasttime

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/quorate/quorate/sim/netproxy"
)

// wires is the transport over real TCP on this machine. Whoever dials goes
// through a proxy, which passes what the network lets pass.
//
//	n1 ──TCP──► netproxy.Link ──TCP──► n2
//	                  ▲
//	               network
type wires struct {
	network *network
	ctx     context.Context // ends with the wires
	cancel  context.CancelFunc
	follow  sync.WaitGroup // one for each link

	mu    sync.Mutex
	ports map[string]string // where an address of the network is in truth
	links map[wire]*netproxy.Link
}

// wire is what one link joins.
type wire struct{ from, to, target string }

var _ transport = (*wires)(nil)

func newWires(n *network) *wires {
	w := &wires{network: n, ports: map[string]string{}, links: map[wire]*netproxy.Link{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

func (w *wires) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports[address] = l.Addr().String()
	return l, nil
}

func (w *wires) dial(ctx context.Context, from, address string) (net.Conn, error) {
	to, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	link, err := w.link(from, to, address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", link.Addr())
}

// link returns the link from a host to an address.
func (w *wires) link(from, to, address string) (*netproxy.Link, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	target, ok := w.ports[address]
	if !ok {
		return nil, errRefused
	}
	at := wire{from, to, target}
	if w.links[at] == nil {
		l, err := netproxy.Listen(netproxy.Config{Target: target})
		if err != nil {
			return nil, err
		}
		w.links[at] = l
		changed := w.obey(at, l)
		w.follow.Go(func() {
			for {
				select {
				case <-changed:
					changed = w.obey(at, l)
				case <-w.ctx.Done():
					l.Close()
					return
				}
			}
		})
	}
	return w.links[at], nil
}

// obey puts a link into the state that the network wants, and returns a channel
// that is closed when that may have changed.
func (w *wires) obey(at wire, l *netproxy.Link) <-chan struct{} {
	forward, delay, changed := w.network.state(at.from, at.to)
	back, _, _ := w.network.state(at.to, at.from)
	l.SetDelay(netproxy.Delay{Min: delay, Max: delay})
	for direction, up := range map[netproxy.Direction]bool{netproxy.Forward: forward, netproxy.Back: back} {
		if up {
			l.Restore(direction)
		} else {
			l.Blackhole(direction)
		}
	}
	return changed
}

func (w *wires) end() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.follow.Wait()
}
