package netproxy

import (
	"context"
	"sync"
)

// Direction is one of the two ways through a link.
type Direction int

// The directions.
const (
	// Forward is from the dialing side to the target.
	Forward Direction = iota
	// Back is from the target to the dialing side.
	Back
)

// gate is open or shut; whoever passes waits while it is shut.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		if !open {
			g.open = make(chan struct{})
		}
	default:
		if open {
			close(g.open)
		}
	}
}

func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		return true
	default:
		return false
	}
}

// pass returns nil once the gate is open, or the context's error.
func (g *gate) pass(ctx context.Context) error {
	for {
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		select {
		case <-open:
			// It may have been shut again since; then wait for the next opening.
			if g.isOpen() {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
