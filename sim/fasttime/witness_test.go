package fasttime

import (
	"context"
	"log/slog"
	"sync"
	"testing"
)

// witness fails the test when two nodes lead one term, or are in different states
// after the same entries.
type witness struct {
	t *testing.T

	mu       sync.Mutex
	elected  map[uint64]string // by term, whom Raft elected
	accepted map[uint64]string // by term, whose first entry the ledger took
	states   map[uint64]stamp  // by index
	compared int               // states of two nodes
}

// stamp is a node's state.
type stamp struct {
	node string
	hash [32]byte
}

func newWitness(t *testing.T) *witness {
	return &witness{t: t, elected: map[uint64]string{}, accepted: map[uint64]string{}, states: map[uint64]stamp{}}
}

func (w *witness) elections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.elected)
}

func (w *witness) terms() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.accepted)
}

// compare looks at the states that the nodes are in now.
func (w *witness) compare(nodes []*node) {
	for _, n := range nodes {
		s := n.node.Status()
		w.mu.Lock()
		first, ok := w.states[s.Applied]
		switch {
		case !ok:
			w.states[s.Applied] = stamp{n.name, s.Hash}
		case first.hash != s.Hash:
			w.t.Errorf("%s and %s differ at index %d", first.node, n.name, s.Applied)
		case first.node != n.name:
			w.compared++
		}
		w.mu.Unlock()
	}
}

// leads notes that a node leads a term.
func (w *witness) leads(all map[uint64]string, term uint64, node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if other, ok := all[term]; ok && other != node {
		w.t.Errorf("%s and %s both lead term %d", other, node, term)
	}
	all[term] = node
}

// hear is the witness as a handler of one node's log: only there every election
// is told, however short the term.
func (w *witness) hear(node string, next slog.Handler) slog.Handler {
	return hearing{next, w, node}
}

type hearing struct {
	slog.Handler
	witness *witness
	node    string
}

// What nodes log when they lead: Raft, and then the node that serves.
const (
	wonLine   = "election won"
	leadsLine = "leading"
)

func (h hearing) Enabled(context.Context, slog.Level) bool { return true }

func (h hearing) Handle(ctx context.Context, r slog.Record) error {
	all := map[string]map[uint64]string{wonLine: h.witness.elected, leadsLine: h.witness.accepted}[r.Message]
	if all != nil {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key != "term" {
				return true
			}
			switch v := a.Value.Resolve(); v.Kind() {
			case slog.KindUint64:
				h.witness.leads(all, v.Uint64(), h.node)
			default:
				h.witness.t.Errorf("%s: term %v is no number", r.Message, v)
			}
			return false
		})
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h hearing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return hearing{h.Handler.WithAttrs(attrs), h.witness, h.node}
}

func (h hearing) WithGroup(name string) slog.Handler {
	return hearing{h.Handler.WithGroup(name), h.witness, h.node}
}
