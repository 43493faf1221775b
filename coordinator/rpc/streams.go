package rpc

import (
	"context"
	"sync"

	"github.com/quorate/quorate/coordinator/quota"
)

// maxStreams bounds the agents of one coordinator.
const maxStreams = 4096

// agentID names an agent.
type agentID struct{ region, agent string }

// streams are the open Sync streams.
type streams struct {
	mu   sync.Mutex
	open map[*stream]bool
	// by holds the newest stream of each agent that has introduced itself.
	by map[agentID]*stream
}

// stream is one open Sync stream.
type stream struct {
	id     agentID // known after the first request
	out    *outbox
	cancel context.CancelCauseFunc
}

// enter registers a stream, and is false when there are too many.
func (s *streams) enter(st *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxStreams {
		return false
	}
	s.open[st] = true
	return true
}

// introduce makes st the stream of its agent; an older one of the same agent
// gets no more pushes.
func (s *streams) introduce(st *stream, id agentID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.id = id
	if s.open[st] { // not when the stream was given up meanwhile
		s.by[id] = st
	}
}

// leave forgets a stream. It returns the agent, and whether that has no newer
// stream.
func (s *streams) leave(st *stream) (id agentID, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, st)
	if s.by[st.id] != st {
		return st.id, false
	}
	delete(s.by, st.id)
	return st.id, true
}

// push queues a message for an agent, if it has a stream.
func (s *streams) push(id agentID, m quota.SyncResponse) (dropped int) {
	s.mu.Lock()
	st := s.by[id]
	s.mu.Unlock()
	if st == nil {
		return 0
	}
	return st.out.add(m)
}

// end ends all streams with an error.
func (s *streams) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.open {
		st.cancel(err)
	}
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
