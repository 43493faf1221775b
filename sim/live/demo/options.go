package demo

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/quorate/quorate/coordinator"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/netproxy"
)

// Options of a demo.
type Options struct {
	// Duration of the load, from 1 s up. What happens on the way is placed at
	// fractions of it.
	Duration time.Duration
	Seed     uint64
	// Rate is the limit in requests a second, Burst its burst.
	Rate, Burst uint32
	// Store is the kind of all regional stores.
	Store live.Store
	// Keep is a directory for stores and logs that stays; empty is a temporary one.
	Keep string
	// Out is written to while it runs: a live view when View is set, which needs
	// a terminal, else a line a second.
	Out  io.Writer
	View bool
	// Input is the terminal's, for keys in the view.
	Input io.Reader
}

// ErrOptions means that a demo cannot run as asked.
var ErrOptions = errors.New("invalid demo")

// Validate returns all problems of o, joined.
func (o Options) Validate() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
	}
	if o.Duration < time.Second || o.Duration > time.Hour {
		bad("duration %v is not between 1s and 1h", o.Duration)
	}
	if o.Rate == 0 || o.Rate > 100_000 {
		bad("rate %d is not between 1 and 100000 requests a second", o.Rate)
	}
	if o.Burst == 0 {
		bad("burst 0 admits nothing, give at least 1")
	}
	switch o.Store {
	case live.StoreAny, live.StoreRedis, live.StoreEmbedded:
	default:
		bad("store %q is none of redis, embedded", o.Store)
	}
	return errors.Join(problems...)
}

func (o Options) limit() quota.Capacity {
	return quota.Capacity{
		Rate:  quota.Rate{Tokens: quota.Whole(uint64(o.Rate)), Per: quota.Second},
		Burst: quota.Whole(uint64(o.Burst)),
	}
}

const (
	domain = "demo"
	entry  = "api"
	value  = "orders"
)

// rules is the rule document of the demo.
func (o Options) rules() string {
	return fmt.Sprintf(`domain: %s
descriptors:
  - key: %s
    value: %s
    rate_limit:
      unit: second
      requests_per_unit: %d
      quota:
        burst: %d
`, domain, entry, value, o.Rate, o.Burst)
}

// world describes the demo's World. The session's TTL is shorter than in
// production, so that a minute shows a region losing its lease and getting it
// back; Raft's timeouts fit lines of up to 80 ms.
func (o Options) world() live.Options {
	timing := quota.DefaultTiming()
	timing.TTL, timing.Guard, timing.Delta = 6*time.Second, 500*time.Millisecond, 200*time.Millisecond
	timing.Answer, timing.Tick = time.Second, 500*time.Millisecond
	line := netproxy.Delay{Min: 20 * time.Millisecond, Max: 80 * time.Millisecond}
	return live.Options{
		Seed: o.Seed, Dir: o.Keep,
		Regions: []live.RegionSpec{
			{Name: "ap", Store: o.Store}, {Name: "eu", Store: o.Store}, {Name: "us", Agents: 2, Store: o.Store},
		},
		Rules: o.rules(), Timing: timing, Delay: line, RaftDelay: line,
		Raft: coordinator.RaftTimeouts{
			Heartbeat: time.Second, Election: time.Second, LeaderLease: 750 * time.Millisecond,
			Commit: 20 * time.Millisecond, Apply: 2 * time.Second,
		},
	}
}
