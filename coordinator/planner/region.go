package planner

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// region is what the leader knows of one region. What belongs to a session
// starts anew with it.
type region struct {
	name   string
	agents []agent      // connected, sorted by name
	heard  quota.Micros // the last sync of the live incarnation; at first the start of the term
	since  quota.Micros // when the region came back into touch

	session quota.SessionID
	until   quota.Micros // when the session ends unless it is renewed
	// marking, doubt and ending keep the session from being renewed: a mark is
	// proposed; it may have been; the end has been proposed.
	marking, doubt bool
	ending         quota.SessionID
	ended          bool // EndSession is open

	adopting  bool   // Adopted is open
	pushed    uint64 // the offer that was pushed
	offering  bool   // Offer is open
	offerFrom quota.Micros
	// complete is from when on every agent that is there has connected: until then a
	// new leader cannot know who decides by an older configuration.
	complete quota.Micros

	flights map[quota.Key]*flight
	unsent  []quota.Key
	lag     quota.Micros // from sending an assignment to its confirmation, lately
	waiting bool         // an assignment was sent since the region was heard
	asked   quota.Micros // when the first of them was
}

// agent is one connected agent.
type agent struct {
	name   string
	heard  quota.Micros
	config uint64 // by which it decides, as reported in this session; 0 for not reported
}

// flight is where an assignment in flight was sent.
type flight struct {
	epoch quota.Epoch
	agent string       // "" for nobody yet
	sent  quota.Micros // to that agent
	first quota.Micros // to anybody
}

// send notes to whom an assignment is sent now.
func (f *flight) send(now quota.Micros, agent string) {
	f.agent, f.sent = agent, now
	if f.first == 0 {
		f.first = now
	}
}

// adopt starts the region's memory of a session.
func (r *region) adopt(s *ledger.Session, until quota.Micros) {
	r.session, r.until = 0, until
	if s != nil {
		r.session = s.ID
	}
	r.marking, r.doubt, r.ended = false, false, false
	r.waiting, r.unsent = false, nil
	for i := range r.agents {
		r.agents[i].config = 0
	}
	r.flights = map[quota.Key]*flight{}
}

// hear notes that an agent is connected and by which configuration it decides.
func (r *region) hear(now quota.Micros, name string, config uint64) {
	i, ok := slices.BinarySearchFunc(r.agents, name, func(a agent, n string) int { return cmp.Compare(a.name, n) })
	if !ok {
		r.agents = slices.Insert(r.agents, i, agent{name: name})
	}
	r.agents[i].heard, r.agents[i].config = now, config
}

// adopted returns the configuration that every connected agent decides by, or a newer
// one: 0 until all have reported. That the region's store has it is not enough: an agent
// hears of it there with its next reading, and until then admits what no older rule counts.
func (r *region) adopted() uint64 {
	if len(r.agents) == 0 {
		return 0
	}
	return slices.MinFunc(r.agents, func(a, b agent) int { return cmp.Compare(a.config, b.config) }).config
}

// lose forgets an agent; what was sent to it must be sent to another.
func (r *region) lose(name string) {
	r.agents = slices.DeleteFunc(r.agents, func(a agent) bool { return a.name == name })
	for k, f := range r.flights {
		if f.agent == name {
			f.agent = ""
			r.unsent = append(r.unsent, k)
		}
	}
	slices.Sort(r.unsent)
}

// expire forgets agents that have not been heard for a whole session.
func (r *region) expire(now, age quota.Micros) {
	for _, a := range r.agents {
		if now-a.heard > age {
			r.lose(a.name)
			return // the next one next time: agents changes under the loop
		}
	}
}

// route returns the agent that gets assignments of a key: the one that last
// reported it, else the one heard last, "" for nobody.
func (r *region) route(now quota.Micros, prefer string) string {
	var best agent
	for _, a := range r.agents {
		if a.name == prefer && now-a.heard <= routeAge {
			return a.name
		}
		if best.name == "" || a.heard > best.heard {
			best = a
		}
	}
	return best.name
}

// reachable reports whether an assignment would arrive and be answered.
func (r *region) reachable(now quota.Micros) bool {
	stuck := r.waiting && now-r.asked > routeAge
	return r.session != 0 && r.ending != r.session && len(r.agents) > 0 && !stuck
}

// renewable reports whether answering a sync may renew the session.
func (r *region) renewable(s *ledger.Session) bool {
	return s.ID == r.session && r.ending != s.ID && !s.Silent && !r.marking && !r.doubt
}

// landed notes how long an assignment took.
func (r *region) landed(now quota.Micros, k quota.Key) {
	if f := r.flights[k]; f != nil && f.first > 0 {
		r.lag += (min(now-f.first, routeAge) - r.lag) / 4
	}
}

// track keeps the flights in step with what the ledger says of a key.
func (r *region) track(k quota.Key, h ledger.Holding, held bool) {
	f := r.flights[k]
	switch {
	case !held || h.Flight == nil:
		delete(r.flights, k)
	case f == nil || f.epoch != h.Epoch:
		r.flights[k] = &flight{epoch: h.Epoch}
		r.unsent = append(r.unsent, k)
	}
}
