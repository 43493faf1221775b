package rpc

import (
	"cmp"
	"slices"
	"sync"

	"github.com/quorate/quorate/coordinator/quota"
)

// maxQueued bounds the assignments that wait for a slow reader.
const maxQueued = 4096

// outbox holds what to push to one agent: per key only the newest assignment,
// and the newest configuration. When it is full every assignment in it is dropped: answers repeat what was not
// confirmed, so the agent gets it with its next sync.
type outbox struct {
	mu      sync.Mutex
	pending map[quota.Key]quota.Assignment
	cluster string
	config  *quota.Config
	ready   chan struct{} // holds one token when something is pending
}

func newOutbox() *outbox {
	return &outbox{pending: map[quota.Key]quota.Assignment{}, ready: make(chan struct{}, 1)}
}

// add returns how many assignments were dropped.
func (o *outbox) add(m quota.SyncResponse) (dropped int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cluster = m.Cluster
	if m.Config != nil && (o.config == nil || m.Config.Version > o.config.Version) {
		o.config = m.Config
	}
	for _, a := range m.Assignments {
		if old, ok := o.pending[a.Key]; ok && (old.Session > a.Session || old.Session == a.Session && old.Epoch >= a.Epoch) {
			continue
		} else if !ok && len(o.pending) >= maxQueued {
			dropped += len(o.pending)
			clear(o.pending)
		}
		o.pending[a.Key] = a
	}
	select {
	case o.ready <- struct{}{}:
	default:
	}
	return dropped
}

// take returns what is pending as one push, in the order in which it was made;
// ok is false when nothing is.
func (o *outbox) take() (m quota.SyncResponse, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]quota.Assignment, 0, len(o.pending))
	for _, a := range o.pending {
		all = append(all, a)
	}
	clear(o.pending)
	slices.SortFunc(all, func(a, b quota.Assignment) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Epoch, b.Epoch))
	})
	m = quota.SyncResponse{Cluster: o.cluster, Config: o.config, Assignments: all}
	o.config = nil
	return m, m.Config != nil || len(all) > 0
}
