package live

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/quorate/quorate/coordinator"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/netproxy"
)

// Options describe a World. The zero value is three coordinators and the
// regions ap, eu and us with one agent each, a network without delays and the
// production's timing.
type Options struct {
	// Seed makes the network's delays and the load's arrivals repeat.
	Seed uint64
	// Dir holds the coordinators' stores and all logs. Default: a temporary
	// directory that Close removes.
	Dir string
	// Coordinators is the number of coordinator nodes. Default 3.
	Coordinators int
	// Regions are the regions. Default ap, eu and us.
	Regions []RegionSpec
	// Rules is the first rule document; empty starts without rules, and then no
	// agent becomes ready before ApplyRules.
	Rules string
	// Timing is the lease protocol's. Zero means quota.DefaultTiming().
	Timing quota.Timing
	// Raft are the coordinators' timeouts. Zero means the coordinator's own.
	Raft coordinator.RaftTimeouts
	// Delay is the one-way delay between agents and coordinators, RaftDelay the
	// one between coordinators.
	Delay, RaftDelay netproxy.Delay
	// StoreLinks makes agents reach their Redis through links as well, which do not
	// delay but can. Agents of a pair never do: Sentinels tell them its addresses.
	StoreLinks bool
	// RedisTimeout is how long a request waits for Redis. Default 250 ms: a Redis that
	// waits for a processor of the one machine has not failed.
	RedisTimeout time.Duration
	// DriftPPM is by how much the clocks of an agent's machine are fast or slow at
	// most; the seed says how much. Stores and coordinators read this machine's.
	DriftPPM int64
	// SmallDisks are the names of coordinators (n1 is the first) whose store is on a
	// disk of its own that can be filled: a tmpfs, which needs root.
	SmallDisks []string
	// DrainDelay is how long an agent that was told to end goes on serving with
	// readiness off, for clients that have to notice. Default 0.
	DrainDelay time.Duration
	// Patience bounds every wait of Start. Default 60 s.
	Patience time.Duration
	// Logger is told what happens to the World. Default: nobody.
	Logger *slog.Logger
}

// RegionSpec describes a region.
type RegionSpec struct {
	Name string
	// Agents is the number of agents. Default 1.
	Agents int
	// Weight in the share table. Default 1.
	Weight int64
	// Store is where the region's buckets are. Default StoreAny.
	Store Store
}

// Store is a kind of regional store.
type Store string

// The stores.
const (
	// StoreAny is a redis-server when one is in PATH, else StoreEmbedded.
	StoreAny Store = ""
	// StoreRedis is a redis-server process; Start fails without one.
	StoreRedis Store = "redis"
	// StoreSentinel is a primary and a replica, which three Sentinels watch.
	StoreSentinel Store = "sentinel"
	// StoreEmbedded is a server inside the region's only agent, for machines
	// without Redis. A second agent is not started, as it could not share it.
	StoreEmbedded Store = "embedded"
)

// ErrOptions means that a World cannot be built as described.
var ErrOptions = errors.New("invalid options of a live world")

// Validate returns all problems of o, joined.
func (o Options) Validate() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
	}
	if o.Coordinators < 0 {
		bad("coordinators: %d is negative", o.Coordinators)
	}
	seen := map[string]bool{}
	for i, r := range o.Regions {
		switch {
		case r.Name == "":
			bad("region %d has no name", i)
		case seen[r.Name]:
			bad("region %s is there twice", r.Name)
		}
		seen[r.Name] = true
		if r.Agents < 0 || r.Weight < 0 {
			bad("region %s: %d agents and weight %d, neither may be negative", r.Name, r.Agents, r.Weight)
		}
		switch r.Store {
		case StoreAny, StoreRedis, StoreSentinel, StoreEmbedded:
		default:
			bad("region %s: store %q is none of redis, sentinel, embedded", r.Name, r.Store)
		}
	}
	if o.DriftPPM < 0 {
		bad("drift: %d ppm is negative", o.DriftPPM)
	}
	for _, name := range o.SmallDisks {
		if !slices.Contains(coordinatorNames(o.withDefaults().Coordinators), name) {
			bad("small disks: there is no coordinator %s", name)
		}
	}
	for name, d := range map[string]netproxy.Delay{"delay": o.Delay, "raft delay": o.RaftDelay} {
		if d.Min < 0 || d.Max < d.Min {
			bad("%s: %v … %v is not a range from 0 up", name, d.Min, d.Max)
		}
	}
	return errors.Join(problems...)
}

func (o Options) withDefaults() Options {
	if o.Coordinators == 0 {
		o.Coordinators = 3
	}
	if len(o.Regions) == 0 {
		o.Regions = []RegionSpec{{Name: "ap"}, {Name: "eu"}, {Name: "us"}}
	}
	regions := make([]RegionSpec, len(o.Regions))
	for i, r := range o.Regions {
		if r.Agents == 0 {
			r.Agents = 1
		}
		if r.Weight == 0 {
			r.Weight = 1
		}
		regions[i] = r
	}
	o.Regions = regions
	if o.Timing == (quota.Timing{}) {
		o.Timing = quota.DefaultTiming()
	}
	if o.Patience == 0 {
		o.Patience = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// coordinatorNames are the names of n coordinators.
func coordinatorNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("n%d", i+1))
	}
	return names
}
