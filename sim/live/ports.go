package live

import "github.com/quorate/quorate/regional/redisbucket/redistest"

// ports are the ports of the nodes, kept until the World ends: a node that is down
// for a while does not lose its port to somebody else.
type ports struct{ held []*redistest.Port }

// take returns the addresses of n ports that nobody else has.
func (p *ports) take(n int) (addrs []string, err error) {
	for range n {
		one, err := redistest.HoldPort()
		if err != nil {
			return nil, err
		}
		p.held = append(p.held, one)
		addrs = append(addrs, one.Addr())
	}
	return addrs, nil
}

func (p *ports) release() {
	for _, one := range p.held {
		one.Release()
	}
}
