// Package embedded is a Redis inside the agent's process, for the demo and for a
// region of one agent that can lose its buckets with the process. It is not for
// production: it is slow, it keeps nothing, and no second agent can share it.
//
// It runs the same scripts as a real Redis.
package embedded

import (
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/quorate/quorate/regional/redisbucket"
)

// Server is an embedded Redis.
type Server struct {
	redis *miniredis.Miniredis
	id    string
	stop  chan struct{}
	done  sync.WaitGroup
	once  sync.Once
}

// step is how often, and by how much at most, lifetimes are shortened. It is
// below the second that every record lives beyond being full: a record written
// just before a step must not expire early.
const step = 500 * time.Millisecond

// Start starts an empty server on a free port of the loopback. Close ends it and
// its one goroutine.
func Start() (*Server, error) {
	m, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("start embedded redis: %w", err)
	}
	s := &Server{redis: m, id: "embedded-" + rand.Text(), stop: make(chan struct{})}
	s.done.Go(s.age)
	return s, nil
}

// age lets the time of the records' lifetimes pass, which the embedded server
// does not do by itself.
func (s *Server) age() {
	tick := time.NewTicker(step)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-s.stop:
			return
		case now := <-tick.C:
			s.redis.FastForward(min(now.Sub(last), step))
			last = now
		}
	}
}

// Config returns cfg for a store on this server.
func (s *Server) Config(cfg redisbucket.Config) redisbucket.Config {
	cfg.URL = "redis://" + s.redis.Addr()
	cfg.ServerID = s.id
	if cfg.Timeout == 0 {
		// It shares the processor with its only client and interprets every script
		// in Go: there is no network whose fault a short timeout would show.
		cfg.Timeout = time.Second
	}
	if cfg.Budget == 0 {
		cfg.Budget = cfg.Timeout
	}
	return cfg
}

// Close ends the server.
func (s *Server) Close() {
	s.once.Do(func() {
		close(s.stop)
		s.done.Wait()
		s.redis.Close()
	})
}
