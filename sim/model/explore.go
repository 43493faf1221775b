package model

import (
	"fmt"
	"strings"
)

// Result is what an exploration found.
type Result struct {
	States      int // distinct, reachable
	Transitions int // steps taken from them
	Depth       int // steps to the farthest state
	// Taken counts the transitions by what happened: a world in which nothing
	// happens would be safe too.
	Taken map[string]int
	// Violation is a shortest way to break an invariant, nil if there is none.
	Violation *Trace
	// Complete says that every reachable state was looked at.
	Complete bool
}

// Trace is a counterexample. Its first moment is the initial state.
type Trace struct {
	Steps  []Moment
	Broken string
}

// Moment is a step and the state after it, in words.
type Moment struct{ Step, After string }

// String writes the trace as numbered steps, each with the lines of the state
// that it changed. Capacities are written as rate per tick and burst.
func (t *Trace) String() string {
	var b strings.Builder
	var was []string
	for i, m := range t.Steps {
		fmt.Fprintf(&b, "%2d. %s\n", i, m.Step)
		now := strings.Split(m.After, "\n")
		for n, line := range now {
			if was == nil || was[n] != line {
				b.WriteString("        " + line + "\n")
			}
		}
		was = now
	}
	fmt.Fprintf(&b, "=> %s\n", t.Broken)
	return b.String()
}

// Len returns the number of steps that lead to the violation.
func (t *Trace) Len() int { return len(t.Steps) - 1 }

// Explore visits every state that can be reached from the initial one, those
// that need fewer steps first. It panics on a configuration that is not valid.
func Explore(cfg Config) Result {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	c := &cfg
	seen := newKnown()
	start := c.initial()
	seen.add(c.pack(&start), 0)
	var res Result
	var taken [kinds]int
	last := 1 // the end of the states of the present depth
	for at := 0; at < len(seen.keys) && res.Violation == nil; at++ {
		if at == last {
			res.Depth++
			last = len(seen.keys)
		}
		s := seen.keys[at].unpack()
		c.successors(&s, func(st step, next *state) bool {
			res.Transitions++
			taken[st.kind]++
			if c.broken(next) != "" {
				res.Violation = c.trace(seen, at)
				return false
			}
			seen.add(c.pack(next), uint32(at))
			return true
		})
		if cfg.MaxStates > 0 && len(seen.keys) >= cfg.MaxStates && at+1 < len(seen.keys) {
			return res.finish(seen, &taken)
		}
	}
	res.Complete = res.Violation == nil
	return res.finish(seen, &taken)
}

func (r Result) finish(seen *known, taken *[kinds]int) Result {
	r.States = len(seen.keys)
	r.Taken = map[string]int{}
	for k, n := range taken {
		if n > 0 {
			r.Taken[kindNames[k]] = n
		}
	}
	return r
}

// trace walks from the start to the state at an index and one step on, to where
// an invariant breaks. It repeats the steps instead of having stored them, which
// also keeps a region's name along the way where the keys exchange the regions.
func (c *Config) trace(seen *known, at int) *Trace {
	var path []key
	for ; at > 0; at = int(seen.parent[at]) {
		path = append(path, seen.keys[at])
	}
	s := c.initial()
	t := &Trace{Steps: []Moment{{"every bucket is full", c.draw(&s)}}}
	follow := func(stop func(next *state) bool) {
		c.successors(&s, func(st step, next *state) bool {
			if !stop(next) {
				return true
			}
			t.Steps = append(t.Steps, Moment{c.describe(&s, st), c.draw(next)})
			s = *next
			return false
		})
	}
	for i := len(path) - 1; i >= 0; i-- {
		follow(func(next *state) bool { return c.broken(next) == "" && c.pack(next) == path[i] })
	}
	follow(func(next *state) bool { t.Broken = c.broken(next); return t.Broken != "" })
	return t
}
