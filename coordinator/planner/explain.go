package planner

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
)

// Demand is what the planner knows of one region's wish for one key, for people.
type Demand struct {
	Region    string
	Agent     string       // the one that last reported the key
	PerSecond float64      // arrivals, admitted and denied, in tokens
	Denied    float64      // part of them that was denied lately, 0 to 1
	Level     quota.Tokens // of the region's bucket when last reported
	Burst     quota.Tokens
	Largest   quota.Tokens // single cost lately
	Quiet     quota.Micros // since something was asked for
}

// Demand returns the demand for a key by region; nothing for a key that all
// regions serve from their standing shares.
func (t *Term) Demand(now quota.Micros, k quota.Key) []Demand {
	e := t.book.entries[k]
	if e == nil {
		return nil
	}
	var all []Demand
	for i := range e.demands {
		d := &e.demands[i]
		all = append(all, Demand{
			Region: d.region, Agent: d.agent, PerSecond: d.rate(now, t.regions[d.region], e.scale), Denied: d.denied.read(now),
			Level: d.level, Burst: d.burst, Largest: d.largest, Quiet: now - d.last,
		})
	}
	slices.SortFunc(all, func(a, b Demand) int { return cmp.Compare(a.Region, b.Region) })
	return all
}

// Contact is how well a region is in touch.
type Contact struct {
	Region  string
	Session quota.SessionID // 0 for none
	Silence quota.Micros    // since an agent was heard; in a new term since its start
	Left    quota.Micros    // until the session ends unless it is renewed
	Agents  []string
	Flights int // assignments that wait for confirmation
}

// Contacts returns the contact with every region, sorted by name.
func (t *Term) Contacts(now quota.Micros) []Contact {
	var all []Contact
	for _, r := range t.regions {
		c := Contact{Region: r.name, Session: r.session, Silence: now - r.heard, Flights: len(r.flights)}
		if r.session != 0 {
			c.Left = max(0, r.until-now)
		}
		for _, a := range r.agents {
			c.Agents = append(c.Agents, a.name)
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Contact) int { return cmp.Compare(a.Region, b.Region) })
	return all
}

// Keys returns the number of keys in the demand book.
func (t *Term) Keys() int { return len(t.book.entries) }
