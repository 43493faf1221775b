package live

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// errNoPort means that no free port was found on the loopback interface.
var errNoPort = errors.New("no free port found on 127.0.0.1")

// ports hands out free ports of the loopback interface, each once. They are
// below the range that the kernel takes for outgoing connections, so that a
// node that is down for a while does not lose its port to a client.
type ports struct{ used map[int]bool }

func (p *ports) next() (string, error) {
	if p.used == nil {
		p.used = map[int]bool{}
	}
	const from, to = 20_000, 32_000
	var last error
	for range 200 {
		port := from + rand.IntN(to-from)
		if p.used[port] {
			continue
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			last = err
			continue
		}
		p.used[port] = true
		return addr, nil
	}
	return "", fmt.Errorf("%w: %w", errNoPort, last)
}

// take returns n free ports.
func (p *ports) take(n int) (addrs []string, err error) {
	for range n {
		addr, err := p.next()
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}
