package sim

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/coordinator/planner"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/fault"
	"github.com/quorate/quorate/sim/workload"
)

// Plan describes a run completely, beside its seed.
type Plan struct {
	Name    string
	Regions []Region
	// Rules are the documents the cluster begins with.
	Rules []quota.Source
	// Edited are documents that an edit may put in their place; the limits in
	// them are the same.
	Edited [][]quota.Source
	// Keys are the identities that are asked for and audited.
	Keys []Key
	// Load begins at Start, when the cluster has a leader and the regions their
	// rules, if that is a few seconds; its curves count from then.
	Load  []Load
	Start quota.Micros
	// Faults happen until Heal; after it nothing does, and the load is Final. 0
	// is never.
	Faults fault.Plan
	Heal   quota.Micros
	Final  []Load
	// Events happen at fixed times.
	Events   []Event
	Duration quota.Micros
	// Allowances lets agents draw tokens ahead.
	Allowances bool
	// KeepLeases makes the report tell every change of a lease.
	KeepLeases bool
	Timing     quota.Timing   // zero for quota.DefaultTiming()
	Planner    planner.Config // its Timing is the Plan's
}

// Region is one region of a plan.
type Region struct {
	Name   string
	Weight int64
	Agents int
}

// Key is one identity that is asked for.
type Key struct {
	Domain  string
	Entries []rules.Entry
	// Override is the limit that requests for it bring, zero for none.
	Override rules.Override
}

// Load is demand in one region: for one key, or for many of which some are asked
// for much more often than others.
type Load struct {
	Region string
	Key    int // its number in Plan.Keys
	// Keys, when more than 1, is how many keys from Key on are asked for; the
	// popularity of the k-th is proportional to 1/k (Zipf's law).
	Keys  int
	Curve workload.Curve
	// Cost of each request, in whole tokens: from Cost to MostCost, or always Cost.
	Cost, MostCost uint32
	// Afterwards is what is done about each that is admitted, "" for nothing.
	Afterwards Afterwards
}

// Afterwards is what is done about a request some time after it was admitted, in the
// region that admitted it.
type Afterwards string

// What can be done.
const (
	Refund Afterwards = "refund" // a part of it is given back, from nothing to all
	Settle Afterwards = "settle" // its cost was an estimate; it was from nothing to twice as much
)

// Kind is a kind of event.
type Kind string

// The kinds of events.
const (
	Elect  Kind = "elect"  // depose the leader
	Cut    Kind = "cut"    // cut Region off
	Mend   Kind = "mend"   // end the cut
	Reset  Kind = "reset"  // restart the store of Region, empty
	Outage Kind = "outage" // the store of Region does not answer
	Back   Kind = "back"   // it answers again
	Kill   Kind = "kill"   // end an agent of Region; it starts again
	Edit   Kind = "edit"   // the next of Plan.Edited
)

// Event is something that happens at a fixed time.
type Event struct {
	At     quota.Micros
	Kind   Kind
	Region string
}

// validate reports what makes a plan meaningless.
func (p *Plan) validate() error {
	known := map[string]bool{}
	for _, r := range p.Regions {
		if r.Name == "" || known[r.Name] || r.Agents < 1 || r.Weight < 0 {
			return fmt.Errorf("region %q: needs a name of its own, at least one agent and no negative weight", r.Name)
		}
		known[r.Name] = true
	}
	if len(p.Regions) == 0 || len(p.Keys) == 0 || p.Duration <= 0 {
		return fmt.Errorf("a plan needs regions, keys and a duration")
	}
	for _, l := range append(p.Load[:len(p.Load):len(p.Load)], p.Final...) {
		if !known[l.Region] {
			return fmt.Errorf("load: region %q is unknown", l.Region)
		}
		if l.Key < 0 || l.Key+max(l.Keys, 1) > len(p.Keys) {
			return fmt.Errorf("load: there is no key %d", l.Key)
		}
		if a := l.Afterwards; a != "" && a != Refund && a != Settle {
			return fmt.Errorf("load of region %s: nothing can be done afterwards that is called %q", l.Region, a)
		}
		if err := l.Curve.Validate(); err != nil {
			return fmt.Errorf("load of region %s: %w", l.Region, err)
		}
	}
	for _, e := range p.Events {
		if e.Region != "" && !known[e.Region] {
			return fmt.Errorf("event %s at %v: region %q is unknown", e.Kind, time.Duration(e.At)*time.Microsecond, e.Region)
		}
	}
	return nil
}

// shares returns the share table.
func (p *Plan) shares() (s quota.Shares) {
	for _, r := range p.Regions {
		s = append(s, quota.Share{Region: r.Name, Weight: r.Weight})
	}
	return s
}
