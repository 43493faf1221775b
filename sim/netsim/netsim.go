// Package netsim is the network of a simulation: links that delay, lose, repeat
// and reorder messages, and partitions that cut them, each way apart.
//
// A message is a function that is called where it arrives, once, twice or never.
// Every choice comes from the seed of the run.
package netsim

import (
	"math/rand/v2"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/vclock"
)

// Faults say what a network does to messages.
type Faults struct {
	// Delay is what every message takes, one way; Jitter is added at random, so
	// that messages overtake each other.
	Delay, Jitter quota.Micros
	// Loss and Duplicate are the probabilities that a message is lost, or
	// arrives twice.
	Loss, Duplicate float64
	// Late is the probability that a message takes up to 20 s more: it was on a
	// connection that stood for a while.
	Late float64
	// Held is the probability that what a cut stops arrives when the cut ends, as
	// on a connection that outlives it.
	Held float64
}

// later is how much a late message is late at most.
const later = 20 * quota.Second

// Net is a network. It is not safe for concurrent use.
type Net struct {
	loop   *vclock.Loop
	rand   *rand.Rand
	faults Faults
	cut    map[link]bool
	held   map[link][]func()
	// Sent, Lost, Repeated and Blocked count what became of messages.
	Sent, Lost, Repeated, Blocked int
}

type link struct{ from, to string }

// New returns a network without cuts.
func New(loop *vclock.Loop, r *rand.Rand, f Faults) *Net {
	return &Net{loop: loop, rand: r, faults: f, cut: make(map[link]bool), held: make(map[link][]func())}
}

// SetFaults changes what happens to the messages that are sent from now on.
func (n *Net) SetFaults(f Faults) { n.faults = f }

// Cut stops what from sends to to; the other way stays as it is.
func (n *Net) Cut(from, to string) { n.cut[link{from, to}] = true }

// Heal ends a cut; what it held back arrives.
func (n *Net) Heal(from, to string) {
	l := link{from, to}
	held := n.held[l]
	delete(n.cut, l)
	delete(n.held, l)
	for _, arrive := range held {
		n.carry(from, to, arrive)
	}
}

// HealAll ends all cuts. What they held back is lost.
func (n *Net) HealAll() {
	clear(n.cut)
	clear(n.held)
}

// block is what becomes of a message that meets a cut.
func (n *Net) block(from, to string, arrive func()) {
	n.Blocked++
	if n.faults.Held > 0 && n.rand.Float64() < n.faults.Held {
		n.held[link{from, to}] = append(n.held[link{from, to}], arrive)
	}
}

// IsCut reports whether messages of from do not reach to.
func (n *Net) IsCut(from, to string) bool { return n.cut[link{from, to}] }

// Send calls arrive when the message arrives. A cut also stops what is on the way
// when it begins, and what would arrive while it lasts.
func (n *Net) Send(from, to string, arrive func()) {
	n.Sent++
	copies := 1
	if n.faults.Duplicate > 0 && n.rand.Float64() < n.faults.Duplicate {
		copies = 2
		n.Repeated++
	}
	for range copies {
		if n.faults.Loss > 0 && n.rand.Float64() < n.faults.Loss {
			n.Lost++
			continue
		}
		if n.IsCut(from, to) {
			n.block(from, to, arrive)
			continue
		}
		n.carry(from, to, arrive)
	}
}

// carry makes a message arrive after the delay of the network.
func (n *Net) carry(from, to string, arrive func()) {
	d := n.faults.Delay
	if n.faults.Jitter > 0 {
		d += quota.Micros(n.rand.Int64N(int64(n.faults.Jitter) + 1))
	}
	if n.faults.Late > 0 && n.rand.Float64() < n.faults.Late {
		d += quota.Micros(n.rand.Int64N(int64(later) + 1))
	}
	n.loop.After(d, func() {
		if n.IsCut(from, to) {
			n.block(from, to, arrive)
			return
		}
		arrive()
	})
}
