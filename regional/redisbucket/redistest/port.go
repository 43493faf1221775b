package redistest

import (
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// Port is a port of the loopback interface that is kept for a server that comes,
// goes and comes again: no other HoldPort and no outgoing connection is given it.
type Port struct {
	Number int
	fd     int // the socket that keeps it, -1 for none
}

// HoldPort returns a free port and keeps it until Release.
//
// It binds a socket that never listens. The kernel gives the port to nobody then,
// but a server that names it may have it: such a server allows the reuse of its
// address (SO_REUSEADDR), as all servers of Go, redis-server and most others do.
// Where a kernel does not allow it even so, the port is free and nothing more.
func HoldPort() (*Port, error) {
	// Whoever forks now must not hand the socket on.
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("hold a port: %w", err)
	}
	p := &Port{fd: fd}
	if err := p.bind(); err != nil {
		p.Release()
		return nil, fmt.Errorf("hold a port: %w", err)
	}
	if l, err := net.Listen("tcp", p.Addr()); err == nil {
		_ = l.Close() // it was a trial
	} else {
		p.Release()
	}
	return p, nil
}

// highest is the highest port that a redis-server takes in cluster mode: it wants one
// 10,000 above, also where it is told of another.
const highest = 55_535

// holdLow is HoldPort for a server of any mode.
func holdLow() (*Port, error) {
	var high []*Port // kept meanwhile, so that the kernel gives another one
	defer func() {
		for _, p := range high {
			p.Release()
		}
	}()
	for {
		p, err := HoldPort()
		if err != nil || p.Number <= highest {
			return p, err
		}
		high = append(high, p)
	}
}

// bind takes a port for this socket alone, and then lets servers share it.
func (p *Port) bind() error {
	if err := syscall.Bind(p.fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	at, err := syscall.Getsockname(p.fd)
	if err != nil {
		return fmt.Errorf("read its name: %w", err)
	}
	if v4, ok := at.(*syscall.SockaddrInet4); ok {
		p.Number = v4.Port
	}
	if err := syscall.SetsockoptInt(p.fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("share the port: %w", err)
	}
	return nil
}

// Addr is host:port.
func (p *Port) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number)) }

// Release gives the port back; a server that has it keeps it.
func (p *Port) Release() {
	if p.fd >= 0 {
		_ = syscall.Close(p.fd) // nothing can be done about it
		p.fd = -1
	}
}
