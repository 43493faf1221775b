package caller

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// AddressConfig says how to find the address of a client, and how much of it counts.
type AddressConfig struct {
	// Trusted are the proxies in front of the application, as networks (10.0.0.0/8)
	// or single addresses. Nobody else is believed about whom a call is from; with
	// none the client is whoever has connected.
	Trusted []string
	// TrustSocket makes whoever connects over a Unix socket a trusted proxy.
	TrustSocket bool
	// Header is where the proxies say whom a call is from: a list of addresses, each
	// proxy having added at its right end the one that it was connected by. Default
	// X-Forwarded-For.
	Header string
	// IPv4Bits and IPv6Bits are how much of an address counts. Defaults are 32, and
	// 64: a client with IPv6 has a whole network to take addresses from.
	IPv4Bits, IPv6Bits int
}

// Addresses finds the addresses of clients. It is safe for concurrent use.
type Addresses struct {
	trusted []netip.Prefix
	socket  bool
	header  string
	v4, v6  int
}

// Errors of Addresses.
var (
	// ErrNoAddress: nothing says whom the call is from, as the peer has no address.
	ErrNoAddress = errors.New("the caller has no address")
	// ErrForwarded: what a trusted proxy says of the caller is no address.
	ErrForwarded = errors.New("a trusted proxy names no address of the caller")
)

// maxHops bounds how many proxies are followed.
const maxHops = 32

// NewAddresses returns what cfg describes. The error is ErrConfig and has all problems.
func NewAddresses(cfg AddressConfig) (*Addresses, error) {
	a := &Addresses{socket: cfg.TrustSocket, header: cfg.Header, v4: cfg.IPv4Bits, v6: cfg.IPv6Bits}
	var problems []error
	for _, text := range cfg.Trusted {
		p, err := prefix(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("%w: trusted proxy %q: %w", ErrConfig, text, err))
			continue
		}
		a.trusted = append(a.trusted, p)
	}
	if a.header == "" {
		a.header = "X-Forwarded-For"
	}
	for _, b := range []struct {
		name         string
		bits         *int
		usual, whole int
	}{{"IPv4", &a.v4, 32, 32}, {"IPv6", &a.v6, 64, 128}} {
		if *b.bits == 0 {
			*b.bits = b.usual
		}
		if *b.bits < 0 || *b.bits > b.whole {
			problems = append(problems, fmt.Errorf("%w: %d bits of an %s address, want 1 to %d", ErrConfig, *b.bits, b.name, b.whole))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return a, nil
}

// prefix parses a network or a single address.
func prefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, errors.New("want an address like 10.0.0.1 or a network like 10.0.0.0/8")
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, errors.New("want an address like 10.0.0.1 or a network like 10.0.0.0/8")
	case p.Addr().Is4In6():
		return p, errors.New("write it as an IPv4 network")
	case p != p.Masked():
		return p, fmt.Errorf("there are bits after the prefix; the network is %s", p.Masked())
	}
	return p, nil
}

// Header is where to read what the proxies say.
func (a *Addresses) Header() string { return a.header }

// Client returns the address of a client: peer, the address that has connected (with a
// port or without), unless that is a trusted proxy. Then it is the last address in
// forwarded (the values of the header, in their order) that is no trusted proxy
// itself: whatever stands left of it, the client may have written. When all are
// trusted it is the first one. The address has no zone, and is IPv4 where it is one
// mapped into IPv6.
func (a *Addresses) Client(peer string, forwarded []string) (netip.Addr, error) {
	at, ok := address(peer)
	switch {
	case ok && !a.trusts(at):
		return at, nil
	case !ok && !(a.socket && isSocket(peer)):
		return netip.Addr{}, ErrNoAddress
	}
	hops := 0
	for i := len(forwarded) - 1; i >= 0; i-- {
		for rest, more := forwarded[i], true; more; {
			comma := strings.LastIndexByte(rest, ',')
			element := strings.Trim(rest[comma+1:], " \t")
			if more = comma >= 0; more {
				rest = rest[:comma]
			}
			if element == "" {
				continue // as in every list of HTTP
			}
			if at, ok = address(element); !ok {
				return netip.Addr{}, ErrForwarded
			}
			if !a.trusts(at) {
				return at, nil
			}
			if hops++; hops == maxHops {
				return netip.Addr{}, fmt.Errorf("%w: %d proxies in a row", ErrForwarded, hops)
			}
		}
	}
	if !at.IsValid() {
		return at, ErrNoAddress
	}
	return at, nil
}

// Value returns what counts of an address: itself, or its network.
func (a *Addresses) Value(addr netip.Addr) string {
	bits := a.v6
	if addr.Is4() {
		bits = a.v4
	}
	if bits == addr.BitLen() {
		return addr.String()
	}
	return netip.PrefixFrom(addr, bits).Masked().String()
}

func (a *Addresses) trusts(addr netip.Addr) bool {
	for _, p := range a.trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// address parses an address with a port or without, the forms that proxies write.
func address(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		if bare, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(bare, "]") {
			addr, err = netip.ParseAddr(strings.TrimSuffix(bare, "]"))
			if err != nil || !addr.Is6() {
				return netip.Addr{}, false
			}
		} else {
			with, err := netip.ParseAddrPort(text)
			if err != nil {
				return netip.Addr{}, false
			}
			addr = with.Addr()
		}
	}
	addr = addr.WithZone("").Unmap()
	return addr, !addr.IsUnspecified()
}

// isSocket reports whether the other end of a connection is one of a Unix socket,
// which has a name seldom.
func isSocket(peer string) bool { return peer == "" || peer[0] == '@' || peer[0] == '/' }
